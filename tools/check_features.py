#!/usr/bin/env python3
"""Runs the digests under every subset of the CPU's features that kernels are chosen by: check_features.py PROGRAM…

PROGRAM is kvcert_digests, with what runs it before it where another machine's is emulated. Each subset is a process of its own, with KVCERT_CPU naming what is left. Every ISA that remains must reproduce
corpus/digests.json, and each table of kernels it chose must have run (the program sees to both). Shown is which tables
ran under how many subsets; a table of this build that ran under none, though all its features are here, is a failure.
"""
import collections
import itertools
import os
import pathlib
import re
import subprocess
import sys

DIGESTS = pathlib.Path(__file__).resolve().parent.parent / "corpus/digests.json"


def run(program: list[str], features: list[str] | None) -> tuple[int, str]:
    """With these features, or as any user's program runs."""
    environment = {name: value for name, value in os.environ.items() if name != "KVCERT_CPU"}
    if features is not None:
        environment["KVCERT_CPU"] = ",".join(features)
    environment.pop("KVCERT_ISA", None)
    done = subprocess.run([*program, DIGESTS], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    program = sys.argv[1:]
    features = subprocess.run([*program, "--features"], capture_output=True, text=True, check=True).stdout.split()
    status, output = run(program, None)  # in every floating-point environment of the caller
    if status != 0:
        print(f"FAILED (status {status})\n{output}")
        return 1
    failed, chosen = 0, collections.defaultdict(list)
    for size in range(len(features) + 1):
        for subset in itertools.combinations(features, size):
            status, output = run(program, list(subset))
            tables = re.findall(r"^  ran (.+): \d+ calls$", output, re.M)
            chosen[", ".join(tables)].append(subset)
            if status != 0 or not tables:
                failed += 1
                print(f"FAILED with KVCERT_CPU={','.join(subset)} (status {status})\n{output}")
    for tables, subsets in chosen.items():
        print(f"{len(subsets):>4} subsets, {'+'.join(subsets[0]) or 'no feature'} the smallest: {tables}")
    ran = {table for tables in chosen for table in tables.split(", ")}
    listed = subprocess.run([*program, "--tables"], capture_output=True, text=True, check=True).stdout.splitlines()
    for table in listed:
        if table not in ran:
            failed += 1
            print(f"FAILED: {table} ran under no subset")
    print(f"{2 ** len(features)} subsets of {', '.join(features) or 'no features'}: {failed or 'none'} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
