#!/usr/bin/env python3
"""Runs all tests of a build and ends with one line: N passed, N failed.

run_tests.py BUILD [BOOST-TEST-ARG…]    with arguments, the Boost.Test program alone; without, the checks below as well

For another machine's programs KVCERT_RUNNER is the command that runs them, and KVCERT_TEST_ISAS names the ISAs to run the
whole Boost.Test program with, one after the other; then the only check is that of the digests.

Counted are Boost.Test's cases, from its own report, and each of the checks. A program that crashes, ends with an error
that its report does not show, or leaves no report is a failure, and so is a run in which no case ran.
"""
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Boost's log, one event a line. A time that is a whole number of milliseconds is printed as such.
EVENT = re.compile(r'.*(Entering|Leaving) test (suite|case|module) "(.*?)"(?:; testing time: (\d+)(us|ms))?')
# RapidCheck's way to run a failing property again, as it or the suite prints it, and the seed it always names.
REPRODUCE = re.compile(r'RC_PARAMS="?([^"\n]+)"?')
SEED = re.compile(r"Using configuration: .*\b(seed=\d+)")


RUNNER = shlex.split(os.environ.get("KVCERT_RUNNER", ""))


def say(text: str = "") -> None:
    print(text, flush=True)


class Progress:
    """Follows Boost's log: one line a suite, everything else that the tests print as it comes."""

    def __init__(self, filtered: bool):
        self.filtered = filtered
        self.suites, self.case, self.finished = [], None, []
        self.cases_here, self.microseconds_here = 0, 0
        self.reproduce = {}  # case, or None where it was printed between cases: RC_PARAMS
        self.seed, self.falsified = None, set()
        self.tty = sys.stdout.isatty()

    def path(self, case: str) -> str:
        return "/".join([*self.suites, case])

    def show_suite(self) -> None:
        """Called where a suite begins or ends: the cases since the last such place belong to the suite we are in."""
        if self.cases_here:
            name = "/".join(self.suites) or "(no suite)"
            say(f"\r  {name:<40} {self.cases_here:>4} cases {self.microseconds_here / 1e6:>8.1f} s\033[K"
                if self.tty else f"  {name:<40} {self.cases_here:>4} cases {self.microseconds_here / 1e6:>8.1f} s")
        self.cases_here, self.microseconds_here = 0, 0

    def line(self, line: str) -> None:
        event = EVENT.fullmatch(line)
        if not event:
            if reproduce := REPRODUCE.search(line):
                self.reproduce[self.case] = reproduce[1].strip()
            if seed := SEED.search(line):
                self.seed = seed[1]
            if line.startswith("Falsifiable after"):
                self.falsified.add(self.case)
            unasked = self.filtered and line.endswith("is skipped because disabled")
            if line and not unasked:
                say(("\r\033[K" if self.tty else "") + line)
            return
        verb, kind, name, time_taken, unit = event.groups()
        if kind == "case" and verb == "Entering":
            self.case = self.path(name)
            if self.tty:
                print(f"\r  {self.case[:100]}\033[K", end="", flush=True)
        elif kind == "case":
            self.finished.append(self.case)
            self.case = None
            self.cases_here += 1
            self.microseconds_here += int(time_taken or 0) * (1000 if unit == "ms" else 1)
        elif kind == "suite":
            self.show_suite()
            if verb == "Entering":
                self.suites.append(name)
            else:
                self.suites.pop()
        elif verb == "Leaving":
            self.show_suite()


    def run_again(self, case: str) -> str:
        """The command that runs this case again, with the same random numbers where it used any."""
        seed = self.reproduce.get(case)
        if seed is None and (case in self.falsified or case == self.case):
            seed = self.reproduce.get(None) or self.seed
        level = os.environ.get("KVCERT_TEST_LEVEL", "default")
        command = ["./kvcert", "test", *([level] if level in {"quick", "full"} else []), f"--run_test={case}"]
        return (f"RC_PARAMS={shlex.quote(seed)} " if seed else "") + shlex.join(command)


def results_of(report: pathlib.Path) -> dict[str, str] | None:
    """Case: result, from Boost's detailed report; None without a whole one."""
    try:
        top = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    results = {}

    def walk(element, path):
        for child in element:
            name = [*path, child.get("name", "")]
            if child.tag == "TestSuite":
                walk(child, name)
            elif child.tag == "TestCase":
                results["/".join(name)] = child.get("result", "failed")

    for module in top:
        walk(module, [])
    return results


def run_boost(program: pathlib.Path, arguments: list[str]) -> tuple[int, dict[str, str]]:
    """How many passed, and what failed: name and the command that runs it again, if there is one."""
    progress = Progress(bool(arguments))
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.xml")
        command = [*RUNNER, program, "--color_output=no", "--log_level=test_suite", "--report_level=detailed",
                   "--report_format=XML", f"--report_sink={report}", *arguments]
        environment = {"KVCERT_CORPUS": str(ROOT / "corpus"), **os.environ}
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as running:
            for line in running.stdout:
                progress.line(line.decode("utf-8", "replace").rstrip("\n"))
        status = running.returncode
        results = results_of(report)
        words = report.read_text(errors="replace") if results is None and report.is_file() else ""
    if progress.tty:
        print("\r\033[K", end="")
    if results is None:
        # Without a report, what left the stage before the end is not known to have passed.
        say(words.rstrip())
        say(f"the test program ended with {f'signal {-status}' if status < 0 else f'status {status}'}"
            f"{f' in {progress.case}' if progress.case else ''} and without a report; "
            f"{len(progress.finished)} cases had finished")
        return 0, {progress.case: progress.run_again(progress.case)} if progress.case else {"(the test program)": ""}
    failed, passed = {}, 0
    for case, result in results.items():
        if result == "passed" and case not in progress.finished:
            failed[f"{case} (did not run)"] = ""  # after a crash Boost reports the rest as passed
        elif result == "passed":
            passed += 1
        else:
            failed[case] = progress.run_again(case)
    if not passed and not failed:
        failed["(no test case ran)"] = ""
    if status != 0 and not failed:
        failed[f"(every case passed, and yet the test program ended with status {status})"] = ""
    return passed, failed


def checks(build: pathlib.Path) -> dict[str, list]:
    python = [sys.executable, "-B"]
    digests = [*python, ROOT / "tools/check_features.py", *RUNNER, build / "tests/kvcert_digests"]
    if RUNNER:
        return {"digests: as on any machine": digests}
    listed = {  # the longest first and last: both hands begin at an end
        "prove: what must fail fails": [*python, ROOT / "tests/prove_test.py"],
        "rooms: who includes whom": [*python, ROOT / "tools/check_rooms.py", ROOT],
        "rooms: what must be refused is refused": [*python, ROOT / "tests/rooms_test.py"],
        "runner: Boost's log is read rightly": [*python, ROOT / "tests/run_tests_test.py"],
        "corpus: as generated, and judged by a third decoder": [*python, ROOT / "tools/make_corpus.py", "--check"],
        "corpus: every fault at every field has a golden reject": [*python, ROOT / "tests/reject_coverage_test.py"],
        "fuzz: golden records through import_wire":
            [build / "fuzz/kvcert_fuzz_import_wire_replay", ROOT / "corpus/wire"],
        **{f"fuzz: the corpus of {target}": [build / f"fuzz/kvcert_fuzz_{target}_replay", ROOT / "corpus/fuzz" / target]
           for target in ("import_wire", "round_trip", "operations", "arguments", "kernels", "text_inputs")},
        "fuzz: small records that ask for gigabytes": [build / "fuzz/kvcert_hostile_sizes"],
        "fuzz: the planted faults fit the code": [*python, ROOT / "tests/planted_faults_test.py"],
        "digests: under every subset of the CPU's features": digests,
        "engines: pipe, plug-in, schemas, bad input": [*python, ROOT / "tests/foreign_test.py", build],
        "engines: built with sanitizers, their reports are findings": [*python, ROOT / "tests/sanitizer_engine_test.py", build],
        "engines: what does not pass": [*python, ROOT / "tests/judge_claims_test.py", build],
        "certificate: JSON and page of the built-in cache": [*python, ROOT / "tests/builtin_page_test.py", build],
        "engines: what the judge keeps of a case": [*python, ROOT / "tests/judge_memory_test.py", build],
        "install: a project built against the installed tree": [*python, ROOT / "tests/install_test.py", build],
        "help: every command shows an example": [*python, ROOT / "tests/help_test.py", build],
        "docs: what they name exists": [*python, ROOT / "tests/docs_test.py"],
        "docs: Doxygen has no warning": [*python, ROOT / "tests/doxygen_test.py"],
        "wire: the decoder extracted from Coq judges alike": [*python, ROOT / "tests/wire_oracle_test.py", build],
    }
    if os.environ.get("KVCERT_TEST_LEVEL") == "full":  # these take minutes; the second is a whole build of its own, with clang
        listed["engines: broken ones are caught by name"] = [*python, ROOT / "tools/test_broken.py", build, "--seeds", "1"]
        listed["fuzz: OSS-Fuzz's build, and each target for a moment"] = [*python, ROOT / "tools/fuzz.py", "oss-fuzz"]
    return listed


NOT_RUN = 77  # a check's exit status when a tool that it needs is not installed


def run_check(name: str, command: list) -> tuple[bool | None, str]:
    """Whether the check passed, None when it could not run, which counts as nothing; and what there is to say."""
    began = time.monotonic()
    try:
        run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                             check=False, timeout=3600)
        good, output = run.returncode == 0, run.stdout + run.stderr
    except (OSError, subprocess.TimeoutExpired) as fault:
        run, good, output = None, False, str(fault)
    if run is not None and run.returncode == NOT_RUN:
        return None, f"  {name:<53}         not run: {output.strip()}"
    words = f"  {name:<53} {time.monotonic() - began:>5.1f} s{'' if good else '  FAILED'}"
    if not good:
        words += f"\n{output.rstrip()}\n  run again: {shlex.join(str(part) for part in command)}"
    return good, words


def run_boost_apart(arguments: list[str]) -> tuple[int, int, str]:
    """Suites in a process of their own, beside this one: how many passed and failed, and what it said."""
    command = [sys.executable, "-B", __file__, sys.argv[1], *arguments]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", check=False)
    words, _, last = run.stdout.rstrip().rpartition("\n")
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed", last)
    if not counts:
        return 0, 1, run.stdout
    passed, failed = int(counts[1]), int(counts[2])
    return passed, failed + (run.returncode != 0 and not failed), words


# These suites take nearly as long as all others with the checks; two cores share the work.
APART = ("laws", "histories_of_operations")


def run_all(build: pathlib.Path, program: pathlib.Path) -> tuple[int, int]:
    """Every suite and every check: how many passed and failed. Whoever is done first takes checks from the other's end."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as beside:
        suites = beside.submit(run_boost_apart, [f"--run_test=!{suite}" for suite in APART])
        waiting = [(beside.submit(run_check, name, command), name, command) for name, command in checks(build).items()]
        passed, failed = report_of(run_boost(program, ["--run_test=" + ",".join(APART)]))
        outcomes = [run_check(name, command) for future, name, command in reversed(waiting) if future.cancel()]
        passed_beside, failed_beside, words = suites.result()
        say(words)
        passed, failed = passed + passed_beside, failed + failed_beside
        outcomes += [future.result() for future, _, _ in waiting if not future.cancelled()]
        for good, words in outcomes:
            say(words)
            passed, failed = passed + (good is True), failed + (good is False)
    return passed, failed


def report_of(outcome: tuple[int, dict[str, str]]) -> tuple[int, int]:
    """Says what failed in the test program, and counts."""
    passed, failed = outcome
    if failed:
        say()
    for case, run_again in failed.items():
        say(f"FAILED  {case}")
        if run_again:
            say(f"  run again: {run_again}")
    return passed, len(failed)


def main() -> int:
    build, arguments = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    program = build / "tests" / os.environ.get("KVCERT_TEST_PROGRAM", "kvcert_tests")
    if any(argument.split("=")[0] in {"--help", "--list_content", "--version", "-h", "-?"} for argument in arguments):
        os.execvp(str([*RUNNER, program][0]), [str(part) for part in [*RUNNER, program, *arguments]])
    isas = os.environ.get("KVCERT_TEST_ISAS", "").split()
    passed, count_failed = 0, 0
    if not arguments and not RUNNER and not isas:
        passed, count_failed = run_all(build, program)
    else:
        for isa in isas or [None]:
            if isa:
                os.environ["KVCERT_ISA"] = isa
                say(f"with {isa} the default")
            passed_here, failed_here = report_of(run_boost(program, arguments))
            passed, count_failed = passed + passed_here, count_failed + failed_here
        for name, command in checks(build).items() if not arguments else ():
            good, words = run_check(name, command)
            say(words)
            passed, count_failed = passed + (good is True), count_failed + (good is False)
    say(f"{passed} passed, {count_failed} failed")
    return 0 if passed and not count_failed else 1


if __name__ == "__main__":
    sys.exit(main())
