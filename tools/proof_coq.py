"""Builds a folder of Coq files and asks Coq what each listed theorem rests on."""
import os
import pathlib
import re
import shutil
import subprocess

from proof_inventory import PRIMITIVE_INTEGERS, REALS, Folder

BUILD_SECONDS = 15 * 60
MARK = "@@ theorem"
COMPILED = {".vo", ".vos", ".vok", ".glob", ".aux", ".cache"}  # what somebody left in the source is not believed


def copy_changed(source: pathlib.Path, target: pathlib.Path) -> None:
    """Makes target hold source's files. Contents decide, not times; what is left of a removed source goes with it."""
    wanted = {file.relative_to(source) for file in source.rglob("*")
              if file.is_file() and "__pycache__" not in file.parts and file.suffix not in COMPILED}
    for file in target.rglob("*.v"):
        if file.relative_to(target) not in wanted:
            for remains in file.parent.glob(file.stem + ".*"):
                remains.unlink()
    for file in wanted:
        copy, content = target / file, (source / file).read_bytes()
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)


def build(folder: Folder, target: pathlib.Path) -> str:
    """Compiles every file of _CoqProject in target; returns what went wrong, or nothing."""
    if not folder.coq_files():
        return ""
    if shutil.which("coq_makefile") is None:
        return "coq is not installed"
    jobs = os.environ.get("KVCERT_JOBS") or str(os.cpu_count() or 1)
    for command in (["coq_makefile", "-f", "_CoqProject", "-o", "Makefile.coq"],
                    ["make", "-f", "Makefile.coq", f"-j{jobs}", "--no-print-directory"]):
        try:
            run = subprocess.run(command, cwd=target, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 errors="replace", check=False, timeout=BUILD_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as fault:
            return f"{' '.join(command)}: {fault}"
        if run.returncode != 0:
            return (run.stdout + run.stderr).strip()[-3000:]
    unbuilt = [file for file in folder.coq_files() if not (target / file).with_suffix(".vo").is_file()]
    return f"not built: {', '.join(unbuilt)}" if unbuilt else ""


def axioms_in(answer: str) -> set | None:
    """The names in an answer of Print Assumptions; None where it is no such answer."""
    lines = answer.splitlines()
    if "1 goal" in lines:  # of the next question's mark
        lines = lines[:lines.index("1 goal")]
    if any(line.startswith("Closed under the global context") for line in lines):
        return set()
    if "Axioms:" not in lines:
        return None
    # A name stands at the line's beginning, its type after a colon or indented below. Whatever else stands there, as
    # "... is assumed to be guarded", counts as a name that no list allows.
    return {line.split(" :")[0].rstrip() for line in lines[lines.index("Axioms:") + 1:]
            if line and not line[0].isspace()}


def ask(names: list, library_of: dict, target: pathlib.Path) -> list:
    """What Print Assumptions says of each name, or of all together where a name is a list: a set, or None."""
    questions = [f"Require {library}." for library in sorted(set(library_of.values()))]
    for number, name in enumerate(names):
        if isinstance(name, list):
            questions.append(f"Definition asked_{number} := ({', '.join('@' + one for one in name)}, tt).")
            name = f"asked_{number}"
        questions += [f'Goal True. idtac "{MARK} {number} @@". Abort.', f"Print Assumptions {name}."]
    try:
        run = subprocess.run(["coqtop", "-q", "-quiet", *mapping(target / "_CoqProject")], cwd=target,
                             input="\n".join(questions) + "\n", capture_output=True, text=True, errors="replace",
                             check=False, timeout=BUILD_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return [None] * len(names)
    answers = [None] * len(names)
    for part in run.stdout.split(MARK)[1:]:
        number, _, answer = part.partition(" @@")
        answers[int(number)] = axioms_in(answer)
    return answers


def assumptions(target: pathlib.Path, entries: list) -> dict:
    """Theorem: its axioms, or None for one that Coq does not know."""
    # A theorem may stand in a module of its file: the file is the folders' name and the file's own, no more.
    library_of = {entry["theorem"]: ".".join(entry["theorem"].split(".")[:2 + entry["file"].count("/")])
                  for entry in entries}
    # All that may rest on nothing are asked about at once, which spares Coq to walk through its library for each. Only
    # where something is wrong are they asked about one by one.
    bare = [entry["theorem"] for entry in entries if not entry["axioms"]]
    if bare and ask([bare], library_of, target) == [set()]:
        answers = dict.fromkeys(bare, set())
    else:
        answers = {}
    rest = [name for name in library_of if name not in answers]
    return answers | dict(zip(rest, ask(rest, library_of, target) if rest else []))


def mapping(project: pathlib.Path) -> list:
    """The -R and -Q of _CoqProject."""
    words, flags = project.read_text().split(), []
    for place, word in enumerate(words):
        if word in {"-R", "-Q"}:
            flags += words[place:place + 3]
    return flags


def verdict(entry: dict, axioms: set | None) -> str:
    """Why the theorem does not count, or nothing."""
    if axioms is None:
        return "Coq knows no such theorem"
    allowed = {name: set() for name in entry["axioms"]}
    strangers = []
    for axiom in sorted(axioms):
        group = ("reals" if axiom in REALS else "primitive-integers" if PRIMITIVE_INTEGERS.fullmatch(axiom) else axiom)
        if group in allowed:
            allowed[group].add(axiom)
        else:
            strangers.append(axiom)
    if strangers:
        return f"rests on {', '.join(strangers)}, which its entry does not allow"
    if unused := [name for name, used in allowed.items() if not used]:
        return f"its entry allows {', '.join(unused)}, which it does not need"
    return ""
