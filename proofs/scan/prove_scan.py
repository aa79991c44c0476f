#!/usr/bin/env python3
"""Frama-C's WP on the decoder's scanning core: prove_scan.py BUILD ROOT

BUILD keeps the provers' answers from run to run. Passes only if every goal is proved, every smoke test passed, and there are
as many of either as there were.
"""
import os
import pathlib
import re
import subprocess
import sys

GOALS = 835
SMOKE_TESTS = 251

# Every goal by whichever prover is first. The time is by the clock: on a busy machine seconds are short.
GOALS_BY = ["-wp-prover", "z3,cvc4", "-wp-timeout", "60"]
# Smoke tests alone, by CVC4, which answers at once where Z3 runs to its limit.
SMOKE_TESTS_BY = ["-wp-smoke-tests", "-wp-prover", "cvc4", "-wp-smoke-timeout", "2",
                  "-wp-prop=-@requires,-@assigns,-@ensures,-@exits,-@assert,-@invariant,-@variant"]


def environment_of(build: pathlib.Path) -> dict:
    config = build / "why3.conf"
    environment = {**os.environ, "WHY3CONFIG": str(config)}
    if not config.is_file():
        subprocess.run(["why3", "-C", str(config), "config", "detect"], env=environment, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    return environment


def run(what: str, expected: int, arguments: list, build: pathlib.Path, root: pathlib.Path) -> bool:
    done = subprocess.run(
        ["frama-c", "-c11", "-machdep", "gcc_x86_64", f"-cpp-extra-args=-I{root}", "-wp", "-wp-rte", "-warn-unsigned-overflow",
         "-warn-unsigned-downcast", "-wp-par", "2", "-wp-cache", "update", "-wp-cache-dir", str(build / "wp-cache"), *arguments,
         str(root / "optimized/wire_scan.c")],
        cwd=build, env=environment_of(build), capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    (build / f"{what.replace(' ', '-')}.log").write_text(output)
    proved = re.search(r"Proved goals:\s*(\d+)\s*/\s*(\d+)", output)
    if done.returncode != 0 or not proved:
        print(f"scan: status {done.returncode}: {output[-3000:]}")
        return False
    wrong = re.findall(r"\[(?:Failed|Timeout|Unknown|Doomed|Stepout)\] .*", output)
    print(f"{what}: {proved[1]} of {proved[2]}", *wrong, sep="\n", flush=True)
    if int(proved[2]) != expected:
        print(f"scan: there were {expected} {what}")
    return not wrong and int(proved[1]) == int(proved[2]) == expected


def main() -> int:
    build, root = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    build.mkdir(parents=True, exist_ok=True)
    goals = run("goals", GOALS, GOALS_BY, build, root)
    smoke = run("smoke tests", SMOKE_TESTS, SMOKE_TESTS_BY, build, root)
    if not goals or not smoke:
        print("scan: FAILED")
        return 1
    print("scan: every goal is proved and every smoke test passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
