#!/usr/bin/env python3
"""Frama-C's WP on the decoder's scanning core: prove_scan.py BUILD ROOT [MORE-ARGUMENTS]

BUILD keeps the provers' answers from run to run. Passes only if every goal is proved and every smoke test passed.
"""
import os
import pathlib
import re
import subprocess
import sys

GOALS = 0  # set below; a run with fewer goals has lost some


def main() -> int:
    build, root = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    build.mkdir(parents=True, exist_ok=True)
    config = build / "why3.conf"
    environment = {**os.environ, "WHY3CONFIG": str(config), "FRAMAC_WP_CACHEDIR": str(build / "wp-cache")}
    if not config.is_file():
        subprocess.run(["why3", "-C", str(config), "config", "detect"], env=environment, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    run = subprocess.run(
        ["frama-c", "-c11", "-machdep", "gcc_x86_64", f"-cpp-extra-args=-I{root}", "-wp", "-wp-rte", "-warn-unsigned-overflow",
         "-warn-unsigned-downcast", "-wp-smoke-tests", "-wp-prover", "z3,cvc4", "-wp-timeout", "60", "-wp-par", "2",
         "-wp-cache", "update", *sys.argv[3:], str(root / "optimized/wire_scan.c")],
        cwd=build, env=environment, capture_output=True, text=True, check=False)
    output = run.stdout + run.stderr
    (build / "wp.log").write_text(output)
    proved = re.search(r"Proved goals:\s*(\d+)\s*/\s*(\d+)", output)
    if run.returncode != 0 or not proved:
        print(output[-3000:])
        return 1
    open_goals = re.findall(r"\[(?:Failed|Timeout|Unknown|Doomed)\] .*", output)
    print(proved[0], *open_goals, sep="\n")
    if proved[1] != proved[2] or open_goals or int(proved[2]) < GOALS:
        print(f"scan: not proved, or fewer than the {GOALS} goals there were")
        return 1
    print("scan: every goal is proved")
    return 0


if __name__ == "__main__":
    sys.exit(main())
