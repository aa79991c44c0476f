"""Do the fuzzers bite? Plants each fault of fuzz/planted_faults.py and waits for its target to find it.

Nothing in the tree changes: the changed file lies in a folder of its own, what is compiled from it is compiled anew with the
commands of build-fuzz, and the target is linked anew with those objects before the others.
"""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

from fuzz import FUZZ, ROOT, SANITIZED, built, die, dictionary, say, seeds

sys.path.insert(0, str(FUZZ))
from planted_faults import FAULTS


def compiled_with(fault, build: pathlib.Path, overlay: pathlib.Path) -> list[tuple[str, pathlib.Path]]:
    """The objects of the target that the changed file goes into, compiled anew: (the object they stand for, the object)."""
    changed = overlay / fault.file
    sources = {fault.file}
    if changed.suffix == ".hpp":
        sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / fault.file).parent.rglob("*.cpp")
                   if f'#include "{fault.file}"' in path.read_text(encoding="utf-8")}
    objects = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = (build / entry["file"]).resolve().relative_to(ROOT).as_posix()
        if source not in sources or (entry["output"].startswith("fuzz/") and f"fuzz_{fault.target}.p/" not in entry["output"]):
            continue
        if entry["output"].startswith("certify/") or entry["output"].startswith("tests/"):
            continue
        words = shlex.split(entry["command"])
        made = overlay / (source.replace("/", "_") + ".o")
        words[words.index("-o") + 1] = str(made)
        words[words.index("-c") + 1] = str(changed if source == fault.file else build / entry["file"])
        for flag in ("-MQ", "-MF"):
            at = words.index(flag)
            del words[at:at + 2]
        words.insert(next(i for i, word in enumerate(words) if "clang" in word) + 1, f"-I{overlay}")
        subprocess.run([word for word in words if word != "-MD"], cwd=build, check=True)
        objects.append((entry["output"], made))
    return objects


def planted(fault, build: pathlib.Path) -> pathlib.Path:
    """The target's program with the fault in it."""
    overlay = build / "bite" / fault.name
    shutil.rmtree(overlay, ignore_errors=True)
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    if text.count(fault.find) != 1:
        die(f"bite: {fault.name} is stale: its text occurs {text.count(fault.find)} times in {fault.file}")
    (overlay / fault.file).parent.mkdir(parents=True)
    (overlay / fault.file).write_text(text.replace(fault.find, fault.replace), encoding="utf-8")
    objects = compiled_with(fault, build, overlay)
    if not objects:
        die(f"bite: {fault.name}: nothing of {fault.target} is compiled from {fault.file}")
    link = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", f"fuzz/kvcert_fuzz_{fault.target}"], check=True,
                          capture_output=True, text=True).stdout.splitlines()
    words = shlex.split(next(line for line in reversed(link) if f"-o fuzz/kvcert_fuzz_{fault.target} " in line))
    at = words.index("-o")
    program = overlay / "program"
    words[at + 1] = str(program)
    for old, new in objects:  # in an archive, the member of the same symbols is then not taken
        if old in words:
            words[words.index(old)] = str(new)
        else:
            words.insert(at + 2, str(new))
    subprocess.run(words, cwd=build, check=True)
    return program


def hunt(fault, build: pathlib.Path, limit: int) -> tuple[float | None, str]:
    program = planted(fault, build)
    learnt = program.parent / "learnt"
    learnt.mkdir()
    began = time.monotonic()
    run = subprocess.run([program, f"-max_total_time={limit}", "-seed=1", "-timeout=20", "-len_control=0", f"-artifact_prefix={program.parent}/",
                          *dictionary(fault.target), learnt, *seeds(fault.target)],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    took = time.monotonic() - began
    if run.returncode == 0:
        return None, ""
    words = re.findall(r"^kvcert fuzz: (.*)|^SUMMARY: (.*)", run.stderr, re.M)
    said = next((a or b for a, b in words), run.stderr.strip().splitlines()[-1] if run.stderr.strip() else "")
    said = re.sub(r"^.*?(refusing|taking) unversioned bodies: ", "", said)
    program.unlink()
    return took, re.sub(r"\s+", " ", said).replace(str(ROOT) + "/", "").replace("build-fuzz/../", "")[:110]


def bite_all(names: list[str]) -> int:
    unknown = set(names) - {fault.name for fault in FAULTS}
    if unknown:
        die(f"bite: there is no fault {', '.join(sorted(unknown))}", 2)
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    build = built("build-fuzz", SANITIZED, *sorted({f"kvcert_fuzz_{fault.target}" for fault in chosen}))[0].parent.parent
    missed = 0
    say("| fault | target | found after | by |\n|---|---|---|---|")
    for fault in chosen:
        took, said = hunt(fault, build, 60)
        missed += took is None
        found = "**not in 60 s**" if took is None else f"{took:.1f} s"
        say(f"| {fault.name}: {fault.why} | `{fault.target}` | {found} | {said} |")
    say(f"\n{len(chosen) - missed} of {len(chosen)} planted faults found")
    return 1 if missed else 0
