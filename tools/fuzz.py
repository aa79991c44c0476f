#!/usr/bin/env python3
"""The fuzz targets: running them, what they cover, what they would find.

  fuzz.py TARGET [SECONDS] [LIBFUZZER-ARG…]   one target, 60 seconds unless told, with address and undefined-behaviour sanitizers
  fuzz.py all [SECONDS]                       every target, one after another
  fuzz.py minimize FILE [TARGET]              the smallest input that still shows a finding
  fuzz.py distil [TARGET…]                    what was learnt, minimized, into corpus/fuzz/TARGET
  fuzz.py coverage                            lines and branches of both decoders that the corpus alone reaches
  fuzz.py bite [FAULT…]                       plants each fault of fuzz/planted_faults.py and waits for its target to find it
  fuzz.py speed                               executions a second of import_wire, with and without sanitizers
  fuzz.py afl TARGET [SECONDS]                the same target under AFL++
  fuzz.py oss-fuzz                            fuzz/oss-fuzz/build.sh with the variables that OSS-Fuzz sets

Example: ./kvcert fuzz import_wire 300

Findings are files kvcert-findings/fuzz-TARGET-…, each with a .txt beside it that says what went wrong and how to see it again.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUZZ, CORPUS, FINDINGS = ROOT / "fuzz", ROOT / "corpus", ROOT / "kvcert-findings"
TARGETS = ["import_wire", "round_trip", "operations", "arguments", "kernels", "text_inputs"]
SANITIZED = ["--buildtype=debugoptimized", "-Db_sanitize=address,undefined",
            "-Dcpp_args=-fsanitize=fuzzer-no-link -fno-sanitize-recover=all -D_GLIBCXX_ASSERTIONS"]


def say(text: str = "") -> None:
    print(text, flush=True)


def die(text: str, status: int = 1):
    print(f"kvcert: {text}", file=sys.stderr)
    sys.exit(status)


# --- Building -------------------------------------------------------------------------------------------------------------


def configured(name: str, options: list[str]) -> pathlib.Path:
    build = ROOT / name
    if not (build / "build.ninja").is_file():
        flags = next(option.removeprefix("-Dcpp_args=") for option in options if option.startswith("-Dcpp_args="))
        environment = {**os.environ, "CC": "clang-19", "CXX": "clang++-19", "CFLAGS": flags}  # what is C is watched likewise
        run = subprocess.run(["meson", "setup", "-Dfuzz=true", "-Db_lundef=false", *options, str(build), str(ROOT)],
                             env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            die(f"configuring {name} failed:\n{run.stdout}{run.stderr}")
    return build


def built(name: str, options: list[str], *programs: str) -> list[pathlib.Path]:
    build = configured(name, options)
    paths = [f"fuzz/{program}" for program in programs]
    ninja(build, *paths)
    return [build / path for path in paths]


def ninja(build: pathlib.Path, *goals: str) -> None:
    jobs = ["-j", os.environ["KVCERT_JOBS"]] if "KVCERT_JOBS" in os.environ else []
    print(f"kvcert: building {' '.join(goals)} in {build.name} (the first time takes minutes)", file=sys.stderr, flush=True)
    run = subprocess.run(["ninja", "-C", str(build), "--quiet", *jobs, *goals], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if run.returncode != 0:
        die(f"the build failed: the compiler's words are above. It was run in {build}")


def fuzzer(target: str) -> pathlib.Path:
    return built("build-fuzz", SANITIZED, f"kvcert_fuzz_{target}")[0]


def seeds(target: str) -> list[pathlib.Path]:
    """The shipped corpus of a target."""
    folders = [CORPUS / "fuzz" / target]
    if target == "import_wire":
        folders += [CORPUS / "wire" / name for name in ("accept", "reject", "peer")]
    if target == "text_inputs":
        folders += [CORPUS / "wire" / "accept"]
    return [folder for folder in folders if folder.is_dir()]


def dictionary(target: str) -> list[str]:
    path = FUZZ / "dictionaries" / f"{target}.dict"
    return [f"-dict={path}"] if path.is_file() else []


# --- Running --------------------------------------------------------------------------------------------------------------


def known_target(name: str) -> str:
    if name not in TARGETS:
        die(f"fuzz: there is no target \"{name}\"; there are {' '.join(TARGETS)}, and the commands all, minimize, distil, coverage, "
            "bite, speed, afl, oss-fuzz", 2)
    return name


def seconds_from(text: str) -> int:
    if not text.isdigit():
        die(f"fuzz: \"{text}\" is no number of seconds", 2)
    return int(text)


def report(target: str, program: pathlib.Path, log: str) -> None:
    """One file beside each finding: what went wrong, and how to see it again."""
    for path in re.findall(r"Test unit written to (\S+)", log):
        words = [line for line in log.splitlines() if line.startswith("kvcert fuzz:") or "SUMMARY:" in line or "ERROR:" in line]
        text = "\n".join([*words, "", f"again:   {program} {path}", f"smaller: ./kvcert fuzz minimize {path} {target}",
                          f"without a sanitizer, any compiler: build/fuzz/kvcert_fuzz_{target}_replay {path}", ""])
        pathlib.Path(path + ".txt").write_text(text, encoding="utf-8")
        say(f"\nFINDING {path}\n{text}")


def run_target(target: str, seconds: int, extra: list[str]) -> bool:
    program = fuzzer(target)
    learnt = ROOT / "build-fuzz" / "corpus" / target
    learnt.mkdir(parents=True, exist_ok=True)
    FINDINGS.mkdir(exist_ok=True)
    command = [program, f"-max_total_time={seconds}", f"-artifact_prefix={FINDINGS}/fuzz-{target}-", "-print_final_stats=1",
               "-timeout=20", "-len_control=0", *dictionary(target), *extra, learnt, *seeds(target)]
    log = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as running:
        for line in running.stdout:
            log.append(line)
            sys.stdout.write(line)
    report(target, program, "".join(log))
    if running.returncode == 0:
        executed = re.search(r"number_of_executed_units: (\d+)", "".join(log))
        say(f"{target}: {executed[1] if executed else '?'} inputs in {seconds} s, nothing found")
    return running.returncode == 0


def minimize(arguments: list[str]) -> int:
    if not arguments or not pathlib.Path(arguments[0]).is_file():
        die("fuzz minimize FILE [TARGET]: FILE is a finding", 2)
    path = pathlib.Path(arguments[0]).resolve()
    named = re.match(rf"fuzz-({'|'.join(TARGETS)})-", path.name)
    if len(arguments) < 2 and not named:
        die(f"fuzz minimize: {path.name} does not name its target; say it: fuzz minimize FILE TARGET", 2)
    target = known_target(arguments[1] if len(arguments) > 1 else named[1])
    smallest = path.with_name(path.name + ".min")
    subprocess.run([fuzzer(target), "-minimize_crash=1", "-max_total_time=60", f"-exact_artifact_path={smallest}", path], check=False)
    if not smallest.is_file():
        say(f"{path} is as small as it gets, or does not fail any more")
        return 1
    say(f"{smallest}: {smallest.stat().st_size} bytes, from {path.stat().st_size}")
    return 0


def distil(targets: list[str]) -> int:
    """Merges what was learnt into the shipped corpus: the smallest set of inputs that reaches everything either reaches."""
    for target in targets or TARGETS:
        program, shipped = fuzzer(known_target(target)), CORPUS / "fuzz" / target
        fresh, learnt = ROOT / "build-fuzz" / "distilled" / target, ROOT / "build-fuzz" / "corpus" / target
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        learnt.mkdir(parents=True, exist_ok=True)
        shipped.mkdir(parents=True, exist_ok=True)
        golden = [folder for folder in seeds(target) if folder != shipped]
        # What the golden records reach need not be reached again.
        subprocess.run([program, "-set_cover_merge=1", "-max_len=2048", fresh, *golden, shipped, learnt], check=True)
        known = {path.read_bytes() for folder in golden for path in folder.iterdir() if path.is_file()}
        for old in shipped.iterdir():
            if re.fullmatch(r"[0-9a-f]{40}", old.name):  # named seeds stay
                old.unlink()
        for path in fresh.iterdir():
            if path.read_bytes() not in known:
                shutil.copy(path, shipped / path.name)
        say(f"{target}: {len(list(shipped.iterdir()))} inputs in {shipped}")
    return 0


# --- Other fuzzers, and other people's machines ---------------------------------------------------------------------------


def afl(arguments: list[str]) -> int:
    """AFL++'s compiler wraps an older clang that cannot read this C++; its runtime takes the trace-pc-guard of any clang."""
    if not arguments:
        die("fuzz afl TARGET [SECONDS]", 2)
    target, seconds = known_target(arguments[0]), seconds_from(arguments[1]) if len(arguments) > 1 else 60
    usr = pathlib.Path(os.environ.get("KVCERT_AFL", "/")) / "usr"
    driver, runtime, program = usr / "lib/afl/libAFLDriver.a", usr / "lib/afl/afl-compiler-rt.o", usr / "bin/afl-fuzz"
    if not all(path.is_file() for path in (driver, runtime, program)):
        die(f"fuzz afl: there is no {driver}. Install afl++, or unpack it (apt-get download afl++; dpkg -x afl++*.deb FOLDER) and set "
            "KVCERT_AFL=FOLDER", 2)
    options = ["--buildtype=release", "-Dcpp_args=-fsanitize-coverage=trace-pc-guard", f"-Dfuzz_engine={driver} {runtime}"]
    built_program = built("build-afl", options, f"kvcert_fuzz_{target}")[0]
    begin, out = ROOT / "build-afl" / "seeds" / target, ROOT / "build-afl" / "out" / target
    shutil.rmtree(begin, ignore_errors=True)
    begin.mkdir(parents=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    for folder in seeds(target):
        for path in folder.iterdir():
            if path.is_file() and path.stat().st_size:
                shutil.copy(path, begin / f"{folder.name}-{path.name}")
    words = [f"-x{path[len('-dict='):]}" for path in dictionary(target)]
    environment = {**os.environ, "AFL_SKIP_CPUFREQ": "1", "AFL_NO_UI": "1", "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1", "AFL_NO_AFFINITY": "1"}
    subprocess.run([program, "-V", str(seconds), "-t", "2000+", *words, "-i", begin, "-o", out, "--", built_program], env=environment, check=True)
    crashes = [path for path in (out / "default" / "crashes").iterdir() if path.name != "README.txt"]
    say((out / "default" / "fuzzer_stats").read_text())
    for path in crashes:
        say(f"FINDING {path}: again with {fuzzer_path(target)} {path}")
    return 1 if crashes else 0


def fuzzer_path(target: str) -> pathlib.Path:
    return ROOT / "build-fuzz" / "fuzz" / f"kvcert_fuzz_{target}"


def oss_fuzz() -> int:
    out = ROOT / "build-oss-fuzz" / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    flags = "-O1 -fno-omit-frame-pointer -gline-tables-only -fsanitize=address -fsanitize=fuzzer-no-link"
    environment = {**os.environ, "CC": "clang-19", "CXX": "clang++-19", "CFLAGS": flags, "CXXFLAGS": flags, "SRC": str(ROOT.parent),
                   "WORK": str(ROOT / "build-oss-fuzz" / "work"), "OUT": str(out), "LIB_FUZZING_ENGINE": "-fsanitize=fuzzer",
                   "SANITIZER": "address", "FUZZING_ENGINE": "libfuzzer", "ARCHITECTURE": "x86_64", "KVCERT_SOURCE": str(ROOT)}
    subprocess.run([FUZZ / "oss-fuzz" / "build.sh"], env=environment, stdin=subprocess.DEVNULL, check=True)
    bad = 0
    for target in TARGETS:
        program = out / target
        archive = out / f"{target}_seed_corpus.zip"
        if not program.is_file() or not archive.is_file():
            say(f"{target}: build.sh left no program or no seed corpus")
            bad += 1
            continue
        unpacked = out.parent / "seeds" / target
        shutil.rmtree(unpacked, ignore_errors=True)
        shutil.unpack_archive(archive, unpacked)
        seeds_shipped = len(list(unpacked.iterdir()))  # the run adds what it learns
        run = subprocess.run([program, "-runs=2000", "-max_total_time=20", f"-artifact_prefix={out.parent}/", unpacked], cwd=out,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
        say(f"{target}: {'ran' if run.returncode == 0 else 'FAILED'}, {seeds_shipped} seeds")
        if run.returncode != 0:
            say(run.stderr[-2000:])
            bad += 1
    return 1 if bad else 0


def main() -> int:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in {"-h", "--help"}:
        say(__doc__.strip().replace("fuzz.py", "./kvcert fuzz"))
        return 0 if arguments else 2
    command, rest = arguments[0], arguments[1:]
    if command == "all":
        seconds = seconds_from(rest[0]) if rest else 60
        return 0 if all([run_target(target, seconds, []) for target in TARGETS]) else 1
    commands = {"minimize": minimize, "distil": distil, "afl": afl}
    if command in commands:
        return commands[command](rest)
    if command == "bite":
        from fuzz_bite import bite
        return bite(rest)
    if command in {"coverage", "speed"}:
        import fuzz_measure
        return getattr(fuzz_measure, command)()
    if command == "oss-fuzz":
        return oss_fuzz()
    known_target(command)
    return 0 if run_target(command, seconds_from(rest[0]) if rest else 60, rest[1:]) else 1


if __name__ == "__main__":
    sys.exit(main())
