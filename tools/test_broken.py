#!/usr/bin/env python3
"""Plants every fault of tests/broken/faults.inc, one at a time, and asks for the check that is named for it.

test_broken.py BUILD [--seeds N] [--markdown FILE] [NAME…]

A fault counts as caught only if the named check, and nothing else in its place, calls the engine wrong, and where the
table names a hint, if that is what is printed. Then the engines without a fault must pass the quick suite on every seed.
Ends with "N passed, N failed".
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAULT = re.compile(r'^FAULT\((\w+), (\w+), "([^"]*)", "([^"]*)", "([^"]*)"\)$', re.M)
KINDS = ("scalar", "online", "ring", "f16", "bf16", "int8", "canonical")
# These two are said at the end of any suite; this one shows them.
SHOWN_BY = {"environment": "layout", "variants": "accuracy"}


def certify(build: pathlib.Path, option: str, suite: str, seed: int, seconds: str) -> tuple[int, dict, str]:
    with tempfile.TemporaryDirectory() as folder:
        certificate = pathlib.Path(folder) / "certificate.json"
        run = subprocess.run([build / "certify/kvcert", "certify", "--engine", build / "tests/broken/kvcert_broken.so", "--option", option,
                              "--suite", suite, "--seed", str(seed), "--seconds", seconds, "--memory", "600", "--findings", "",
                              "--json", certificate], capture_output=True, text=True, errors="replace", check=False,
                             stdin=subprocess.DEVNULL, timeout=900)
        return run.returncode, json.loads(certificate.read_text()) if certificate.exists() else {}, run.stdout + run.stderr


def try_fault(build: pathlib.Path, fault: tuple[str, ...]) -> tuple[bool, str, str]:
    name, _, check, _, hint = fault
    seconds = "3" if name in ("hangs", "eats_memory") else "60"  # on a busy machine a good answer may take its time
    _, certificate, output = certify(build, f"fault={name}", SHOWN_BY.get(check, check), 1, seconds)
    for entry in certificate.get("checks", []):
        if entry["name"] != check:
            continue
        if entry["verdict"] != "wrong":
            return False, "", f"the check \"{check}\" says {entry['verdict']}"
        said = entry["wrong"]["hint"]
        if hint not in said:
            return False, said, f"the hint is \"{said}\", expected \"{hint}\" in it: {entry['wrong']['sentence']}"
        return True, said, f"{entry['counts']['wrong']} of {entry['cases']}"
    return False, "", f"the check \"{check}\" was not run: {output.strip()[-300:]}"


def try_kind(build: pathlib.Path, kind: str, seed: int) -> tuple[bool, str]:
    status, certificate, output = certify(build, f"kind={kind}", "quick", seed, "60")
    wrong = [entry for entry in certificate.get("checks", []) if entry["verdict"] == "wrong"]
    if status == 0 and certificate.get("outputs", {}).get("within_the_bound", 0) + certificate.get("outputs", {}).get("bit_identical", 0) > 0:
        return True, ""
    return False, "; ".join(f"{entry['name']}: {entry['wrong']['sentence']}" for entry in wrong) or output.strip()[-300:]


def markdown(rows: list[tuple]) -> str:
    lines = ["# Broken engines, and what catches them", "",
             "Written by `./kvcert test broken --markdown docs/broken-engines.md`. `tests/broken/` is one plain engine behind `include/kvcert/engine.h`, correct",
             "unless the option `fault=NAME` plants one small fault (`faults.inc`), most of them known from public reports. A fault counts as caught only if the",
             "check named for it says *wrong*, and where the table of faults names a hint, if that hint is printed. *Cases*: how many of that",
             "check's cases (suite standard, seed 1) show the fault.", "",
             "Without a fault the same engine, working in two passes, tile by tile with a running maximum, in a ring, with f16, bf16 or int8 storage, or in the",
             "canonical order, passes the quick suite on every seed that the run was asked for (10, unless told).", "",
             "| fault | planted in | what is wrong | caught by | cases | hint |", "|---|---|---|---|---|---|"]
    for (name, kind, check, what, hint), good, said, detail in rows:
        lines.append(f"| `{name}` | {kind} | {what} | {check if good else '**not caught**'} | {detail if good else ''} | {said if hint else ''} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("build", type=pathlib.Path)
    arguments.add_argument("--seeds", type=int, default=10)
    arguments.add_argument("--markdown", type=pathlib.Path)
    arguments.add_argument("names", nargs="*")
    options = arguments.parse_intermixed_args()
    build = options.build.resolve()
    faults = [fault for fault in FAULT.findall((ROOT / "tests/broken/faults.inc").read_text()) if not options.names or fault[0] in options.names]
    passed = failed = 0
    rows = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        print(f"  {'fault':<24}{'planted in':<11}{'caught by':<20}cases  hint")
        for fault, (good, said, detail) in zip(faults, pool.map(lambda f: try_fault(build, f), faults)):
            print(f"  {fault[0]:<24}{fault[1]:<11}{fault[2]:<20}" + (f"{detail}  {said}" if good else f"NOT CAUGHT: {detail}"), flush=True)
            rows.append((fault, good, said, detail))
            passed, failed = passed + good, failed + (not good)
        runs = [] if options.names else [(kind, seed) for kind in KINDS for seed in range(1, options.seeds + 1)]
        alarms = {kind: [] for kind in KINDS}
        for (kind, seed), (good, detail) in zip(runs, pool.map(lambda r: try_kind(build, *r), runs)):
            if not good:
                alarms[kind].append(f"seed {seed}: {detail}")
        for kind in KINDS if runs and options.seeds else ():
            print(f"  correct engine {kind:<10} {options.seeds} seeds, {len(alarms[kind])} false alarms", flush=True)
            for alarm in alarms[kind]:
                print(f"    {alarm}")
            passed, failed = passed + (not alarms[kind]), failed + bool(alarms[kind])
    if options.markdown:
        options.markdown.write_text(markdown(rows))
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
