#!/usr/bin/env python3
"""Every command's --help shows an example, at once: help_test.py BUILD. Exit status 0 if every expectation was met."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KVCERT = pathlib.Path(sys.argv[1]).resolve() / "certify/kvcert"
OF_THE_BINARY = ("certify", "gen", "judge", "verify", "vectors", "vectors make", "vectors check", "replay", "wire", "wire show", "wire check")
OF_THE_LAUNCHER = ("test", "prove", "bench")


def main() -> int:
    commands = [[KVCERT, *command.split(), "--help"] for command in ("", *OF_THE_BINARY)]
    commands += [[ROOT / "kvcert", command, "--help"] for command in OF_THE_LAUNCHER] + [[ROOT / "kvcert", "--help"]]
    faults = 0
    for command in commands:
        try:
            run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
            good, said = run.returncode == 0 and ("Example" in run.stdout or "./kvcert certify  " in run.stdout) and "building" not in run.stderr, run.stdout + run.stderr
        except subprocess.TimeoutExpired:
            good, said = False, "no answer within a minute"
        if not good:
            faults += 1
            print(f"NOT MET: {' '.join(map(str, command))} shows an example, and builds nothing\n{said[-600:]}")
    print(f"{len(commands) - faults} of {len(commands)} show an example")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
