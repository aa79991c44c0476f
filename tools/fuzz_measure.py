"""What the corpus reaches of the decoders, and how many executions a second import_wire makes."""
import os
import pathlib
import re
import resource
import shutil
import subprocess

from fuzz import FUZZ, ROOT, SANITIZED, built, die, ninja, say, seeds
from fuzz_objects import entries, recompiled, relinked

DECODERS = ["reference/wire_decode.cpp", "optimized/wire_scan.c", "optimized/wire_decode.cpp"]
WATCHED = [*DECODERS, "reference/wire_reader.hpp", "optimized/wire_fields.h"]
REPLAY = "fuzz/kvcert_fuzz_import_wire_replay"


def release_build() -> pathlib.Path:
    """build/, where ./kvcert test works: no sanitizer, NDEBUG, any compiler."""
    build = ROOT / "build"
    if not (build / "build.ninja").is_file():
        subprocess.run(["meson", "setup", str(build), str(ROOT)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    ninja(build, REPLAY)
    return build


def decoders(build: pathlib.Path, folder: pathlib.Path, flags: list[str]) -> dict[str, pathlib.Path]:
    """The decoders alone, by clang with these flags: (the object it stands for: the object)."""
    return {output: recompiled(build, command, ROOT / source, folder / (source.replace("/", "_") + ".o"), flags=flags, clang=True)
            for source, output, command in entries(build) if source in DECODERS and output.split("/")[0] in {"reference", "optimized"}}


def show_unreached(shown: str) -> None:
    """What llvm-cov shows with a count of zero: lines, and the branches of lines that ran."""
    say("\nNot reached:")
    name = ""
    for line in shown.splitlines():
        if line.startswith("/"):
            name = pathlib.Path(line.rstrip(":")).relative_to(ROOT)
        if found := re.match(r" *(\d+)\| +(\d\S*)?\|(.*)", line):
            if found[2] == "0":
                say(f"  {name}:{found[1]}: {found[3].strip()}")
        if found := re.match(r"[ |]*Branch \((\d+):(\d+)\): \[(.*)\]", line):
            if re.search(r": 0\b", found[3]):
                say(f"  {name}:{found[1]}:{found[2]}: {found[3]}")


def coverage() -> int:
    build, folder = release_build(), ROOT / "build-fuzz" / "coverage"
    shutil.rmtree(folder, ignore_errors=True)
    flags = ["-fprofile-instr-generate", "-fcoverage-mapping"]
    program = relinked(build, REPLAY, decoders(build, folder, flags), folder / "replay", flags=flags[:1], clang=True)
    profile, merged = folder / "replay.profraw", folder / "replay.profdata"
    subprocess.run([program, *seeds("import_wire")], env={**os.environ, "LLVM_PROFILE_FILE": str(profile)}, check=True)
    subprocess.run(["llvm-profdata-19", "merge", "-o", merged, profile], check=True)
    files = [str(ROOT / name) for name in WATCHED if (ROOT / name).is_file()]
    subprocess.run(["llvm-cov-19", "report", program, f"-instr-profile={merged}", "-show-branch-summary", *files], check=True)
    show_unreached(subprocess.run(["llvm-cov-19", "show", program, f"-instr-profile={merged}", "-show-branches=count", *files],
                                  check=True, capture_output=True, text=True).stdout)
    return 0


def plain_fuzzer() -> pathlib.Path:
    """import_wire without sanitizers: the decoders watched by libFuzzer, everything else as ./kvcert test has it."""
    build, folder = release_build(), ROOT / "build-fuzz" / "plain"
    shutil.rmtree(folder, ignore_errors=True)
    objects = decoders(build, folder, ["-fsanitize=fuzzer-no-link"])
    own = {source: (output, command) for source, output, command in entries(build) if output.startswith(REPLAY + ".p/")}
    more = [recompiled(build, own["fuzz/import_wire.cpp"][1], FUZZ / f"{name}.cpp", folder / f"{name}.o", clang=True)
            for name in ("mutate_record", "mutator_hooks")]
    objects[own["fuzz/replay_main.cpp"][0]] = None
    return relinked(build, REPLAY, objects, folder / "kvcert_fuzz_import_wire", flags=["-fsanitize=fuzzer"], clang=True, more=more)


def speed() -> int:
    """Executions per second of processor time, from the shipped seeds, mutations and all."""
    for name, program in (("without sanitizers", plain_fuzzer()),
                          ("with ASan and UBSan", built("build-fuzz", SANITIZED, "kvcert_fuzz_import_wire")[0])):
        learnt = ROOT / "build-fuzz" / "speed"
        shutil.rmtree(learnt, ignore_errors=True)
        learnt.mkdir(parents=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run([program, "-runs=500000", "-seed=1", "-max_len=512", "-print_final_stats=1", f"-artifact_prefix={learnt}/",
                              learnt, *seeds("import_wire")], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                             check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if run.returncode != 0:
            die(run.stderr[-2000:])
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        executed = int(re.search(r"number_of_executed_units: (\d+)", run.stderr)[1])
        say(f"{name}: {executed} executions in {used:.1f} s of processor time, start included: {executed / used:.0f} a second")
    return 0
