#!/usr/bin/env python3
"""What the documents name exists: docs_test.py. Exit status 0 if every expectation was met.

Links between Markdown files and their anchors, paths in backquotes, schemas' and commands' names; and in docs/operators/ each row of a table
whose first cell is a file holds, in its second, names that occur in that file.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
ROOMS = ("include/", "reference/", "optimized/", "certify/", "tests/", "proofs/", "fuzz/", "corpus/", "examples/", "docs/", "tools/")
NAMED_BARE = re.compile(r"[\w-]+\.(?:hpp|cpp|h|c|py|inc|v|inc|json|md)")
MADE = re.compile(r"^(build|kvcert-findings)/")  # appears when something is run


def ours(root: pathlib.Path) -> list[pathlib.Path]:
    """All that lies in the tree, but for what a build or a run of kvcert makes."""
    made = re.compile(r"build|\.git$|kvcert-findings|__pycache__")
    return [path for top in root.iterdir() if not made.match(top.name) for path in [top, *top.rglob("*")]]


def documents(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in ours(root) if path.suffix == ".md")


def anchors(text: str) -> set[str]:
    """As GitHub makes them: lower case, no punctuation, blanks to hyphens."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def programs(root: pathlib.Path) -> set[str]:
    """What the build makes, by name."""
    return {name for path in root.rglob("meson.build") for name in re.findall(r"'(kvcert_\w+)'", path.read_text(encoding="utf-8"))}


def faults_of(root: pathlib.Path, path: pathlib.Path, basenames: set[str], built: set[str]):
    text = path.read_text(encoding="utf-8")
    prose = FENCE.sub("", text)
    for target in LINK.findall(prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        if not there.exists():
            yield f"links to {target}, which does not exist"
        elif anchor and anchor not in anchors(there.read_text(encoding="utf-8")):
            yield f"links to {target}, and no heading there has that name"
    for code in CODE.findall(prose):
        for word in code.split():
            word = word.rstrip(",;:.)")
            if word.startswith(ROOMS) and not re.search(r"[<>…{|]|\.\.\.|\bTARGET\b", word):
                if pathlib.PurePath(word).name in built or MADE.match(word) or any(root.glob(word.rstrip("/"))) or any(path.parent.glob(word.rstrip("/"))):
                    continue
                yield f"names `{word}`, which does not exist"
            elif NAMED_BARE.fullmatch(word) and path.is_relative_to(root / "docs") and word not in basenames:
                yield f"names `{word}`, and no file is called so"
    if path.parent.name == "operators":
        yield from rows(root, prose)


def rows(root: pathlib.Path, prose: str):
    for line in prose.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        file = CODE.fullmatch(cells[0]) if len(cells) > 1 else None
        if not file or not (root / file[1]).is_file():
            continue  # a file that is not there has been named already
        text = (root / file[1]).read_text(encoding="utf-8")
        for name in CODE.findall(cells[1]):
            if not re.search(rf"\b{re.escape(name)}\b", text):
                yield f"says that `{name}` is in `{file[1]}`, and it is not"


def every_fault(root: pathlib.Path) -> list[str]:
    # Written by the user, or by a run of kvcert, in the examples of the text.
    basenames = {path.name for path in ours(root)} | {"certificate.json", "cert.json", "mine.py", "mine.cpp", "build_info.hpp"}
    built = programs(root)
    return [f"{path.relative_to(root)} {fault}" for path in documents(root) for fault in faults_of(root, path, basenames, built)]


def bites() -> list[str]:
    """A document with one fault of each kind is told each of them."""
    import tempfile
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / "docs/operators").mkdir(parents=True)
        (root / "reference").mkdir()
        (root / "reference/there.hpp").write_text("int there();\n")
        (root / "docs/operators/bad.md").write_text("# Head\n[a](none.md) [b](bad.md#tail) [c](bad.md#head) `reference/gone.hpp` `absent.hpp`\n"
                                                    "| `reference/there.hpp` | `there`, `elsewhere` | |\n")
        found = list(faults_of(root, root / "docs/operators/bad.md", {"there.hpp"}, set()))
    wanted = ("none.md", "bad.md#tail", "reference/gone.hpp", "absent.hpp", "elsewhere")
    return [] if len(found) == len(wanted) and all(any(w in f for f in found) for w in wanted) else [f"the check itself: of {wanted} it found {found}"]


def main() -> int:
    faults = bites() + every_fault(ROOT)
    pages = len(documents(ROOT))
    print("\n".join(faults) if faults else f"{pages} documents, all they name exists")
    return bool(faults) or pages < 10


if __name__ == "__main__":
    sys.exit(main())
