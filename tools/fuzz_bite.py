"""Do the fuzzers bite? Plants each fault of fuzz/planted_faults.py and waits for its target to find it.

Nothing in the tree changes: the changed file lies in a folder of its own.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from fuzz import FUZZ, ROOT, SANITIZED, built, die, dictionary, say, seeds
from fuzz_objects import entries, recompiled, relinked

sys.path.insert(0, str(FUZZ))
from planted_faults import FAULTS


TIMED_OUT = 70  # libFuzzer's exit status for an input that ran too long: on a busy machine that says nothing


def planted(fault, build: pathlib.Path) -> pathlib.Path:
    """The target's program with the fault in it."""
    overlay, name = build / "bite" / fault.name, f"fuzz/kvcert_fuzz_{fault.target}"
    shutil.rmtree(overlay, ignore_errors=True)
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    text, count = fault.planted_in(text)
    if count != 1:
        die(f"bite: {fault.name} is stale: its text occurs {count} times in {fault.file}")
    changed = overlay / fault.file
    changed.parent.mkdir(parents=True)
    changed.write_text(text, encoding="utf-8")
    sources = {fault.file}
    if changed.suffix == ".hpp":
        sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / fault.file).parent.rglob("*.cpp")
                   if f'#include "{fault.file}"' in path.read_text(encoding="utf-8")}
    objects = {}
    for source, output, command in entries(build):
        if source in sources and output.startswith((f"{name}.p/", "reference/", "optimized/")):
            objects[output] = recompiled(build, command, changed if source == fault.file else ROOT / source,
                                         overlay / (source.replace("/", "_") + ".o"), flags=[f"-I{overlay}", "-w"])
    if not objects:
        die(f"bite: {fault.name}: nothing of {fault.target} is compiled from {fault.file}")
    return relinked(build, name, objects, overlay / "program")


def hunt(fault, build: pathlib.Path, limit: int) -> tuple[str | None, str]:
    """How long the target took to find the fault, of it in processor time, and what it said; None if it did not."""
    program = planted(fault, build)
    folder = program.parent
    (folder / "learnt").mkdir()
    command = [program, f"-max_total_time={limit}", "-seed=1", "-timeout=20", "-len_control=0", f"-artifact_prefix={folder}/",
               *dictionary(fault.target), folder / "learnt", *seeds(fault.target)]
    began = time.monotonic()
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        _, status, usage = os.wait4(running.pid, 0)
    took = time.monotonic() - began
    program.unlink()
    if os.waitstatus_to_exitcode(status) in {0, TIMED_OUT}:
        return None, ""
    log = (folder / "log").read_text(encoding="utf-8", errors="replace")
    words = re.findall(r"^kvcert fuzz: (.*)|^\S+: .*: (Assertion .* failed)|(runtime error: .*)|^SUMMARY: (.*)", log, re.M)
    said = next(("".join(alternatives) for alternatives in words), log.strip().splitlines()[-1] if log.strip() else "")
    said = re.sub(r"^.*?(refusing|taking) unversioned bodies: ", "", said).replace(f"{folder}/", "").replace(f"{ROOT}/", "")
    said = re.sub(r"\(?build-fuzz/\S+", "", said).replace("|", "\\|")
    return f"{took:.1f} s ({usage.ru_utime + usage.ru_stime:.1f} s)", re.sub(r"\s+", " ", said)[:120]


def bite(names: list[str]) -> int:
    unknown = set(names) - {fault.name for fault in FAULTS}
    if unknown:
        die(f"bite: there is no fault {', '.join(sorted(unknown))}", 2)
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    build = built("build-fuzz", SANITIZED, *sorted({f"kvcert_fuzz_{fault.target}" for fault in chosen}))[0].parent.parent
    missed = 0
    say("| fault | target | found after (processor time) | by |\n|---|---|---|---|")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for fault, (found, said) in zip(chosen, pool.map(lambda fault: hunt(fault, build, 60), chosen)):
            missed += found is None
            say(f"| {fault.name}: {fault.why} | `{fault.target}` | {found or '**not in 60 s**'} | {said} |")
    say(f"\n{len(chosen) - missed} of {len(chosen)} planted faults found")
    return 1 if missed else 0
