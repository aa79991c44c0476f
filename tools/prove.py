#!/usr/bin/env python3
"""Checks every proof that the inventories in proofs/ list, prints the list, and ends with one line: N proved, M failed.

prove.py BUILD [FOLDER…]      BUILD: the build directory; FOLDER: names in proofs/, all unless told
prove.py --targets [FOLDER…]  the ninja targets that the proofs' commands need, one a line

An entry counts as proved when its tool has just said so. For a Coq theorem: every file of its folder compiles, Coq knows
the theorem, and Print Assumptions names nothing that the entry does not allow. A fault of a folder (a file that is not
listed, an Admitted, a theorem listed twice …) counts as one failure each, and so does a law that docs/laws.md marks with ⊢
and that no theorem carries.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import textwrap
import time

import proof_coq
import proof_inventory

COMMAND_SECONDS = 20 * 60


def say(text: str = "") -> None:
    print(text, flush=True)


def run(command: list, cwd: pathlib.Path) -> tuple[int, str]:
    try:
        done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", check=False, timeout=COMMAND_SECONDS)
        return done.returncode, done.stdout + done.stderr
    except (OSError, subprocess.TimeoutExpired) as fault:
        return 1, str(fault)


def tail(output: str) -> str:
    return output.strip()[-1500:]


def check_gappa(file: pathlib.Path, target: pathlib.Path) -> str:
    status, output = run(["gappa", str(file)], target)
    return "" if status == 0 and not re.search(r"(?i)\b(warning|error)\b", output) else f"gappa: {tail(output)}"


def check_frama_c(entry: dict, file: pathlib.Path, target: pathlib.Path) -> str:
    status, output = run(["frama-c", *entry["arguments"], str(file)], target)
    proved = re.search(r"Proved goals:\s*(\d+)\s*/\s*(\d+)", output)
    if status == 0 and proved and proved[1] == proved[2] == str(entry["goals"]):
        return ""
    return f"wants {entry['goals']} of {entry['goals']} goals: {proved[0] if proved else tail(output)}"


def check_command(entry: dict, places: dict, target: pathlib.Path) -> str:
    command = []
    for word in entry["command"]:
        for name, place in places.items():
            word = word.replace(name, str(place))
        command.append(word)
    status, output = run(command, target)
    if status == 0 and entry["prints"] in output.splitlines():
        return ""
    return f"status {status}, wants the line \"{entry['prints']}\": {tail(output)}"


def check_folder(folder: proof_inventory.Folder, places: dict) -> list:
    """For each entry why it failed, or nothing."""
    target = places["{build}"]
    target.mkdir(parents=True, exist_ok=True)
    proof_coq.copy_changed(folder.path, target)
    unbuilt = proof_coq.build(folder, target)
    if unbuilt:
        folder.faults.append(f"the Coq build failed: {unbuilt}")
    theorems = [entry for entry in folder.entries if entry.get("tool") == "coq"]
    answers = {} if unbuilt else proof_coq.assumptions(target, theorems)
    verdicts = []
    for entry in folder.entries:
        file = proof_inventory.file_of(folder, entry, places["{root}"])
        if proof_inventory.entry_faults(folder, entry):
            verdicts.append("see the folder's faults")
        elif entry["tool"] == "coq":
            verdicts.append("its folder does not build" if unbuilt
                            else proof_coq.verdict(entry, answers.get(entry["theorem"])))
        elif entry["tool"] == "gappa":
            verdicts.append(check_gappa(file, target))
        elif entry["tool"] == "frama-c":
            verdicts.append(check_frama_c(entry, file, target))
        else:
            verdicts.append("its folder does not build" if unbuilt else check_command(entry, places, target))
    return verdicts


def show(folder: proof_inventory.Folder, verdicts: list, seconds: float) -> None:
    say(f"\n{folder.name}: {folder.title}  ({seconds:.0f} s)")
    for entry, wrong in zip(folder.entries, verdicts):
        name = entry.get("theorem") or entry.get("file")
        axioms = ", ".join(entry.get("axioms", [])) or "no axioms"
        proof = f"{entry.get('file')}, {axioms}" if entry.get("tool") == "coq" else entry.get("file")
        say(f"  {'FAILED' if wrong else 'proved'}  law {entry.get('law')}  {name}"
            if re.match(r"\d", str(entry.get("law"))) else
            f"  {'FAILED' if wrong else 'proved'}  {entry.get('law')}  {name}")
        for line in textwrap.wrap(str(entry.get("statement")), 108):
            say(f"          {line}")
        say(f"          [{entry.get('tool')}; {proof}; about: {entry.get('about')}]")
        if wrong:
            say(textwrap.indent(wrong, "          "))
    for fault in folder.faults:
        say(textwrap.indent(f"FAULT   {fault}", "  "))


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--targets", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    root = options.root
    if options.targets:
        for folder in proof_inventory.read_all(root / "proofs", root, options.arguments):
            for target in folder.targets:
                say(target)
        return 0
    if not options.arguments:
        parser.error("which build directory?")
    build, only = pathlib.Path(options.arguments[0]).resolve(), options.arguments[1:]
    began, proved, failed = time.monotonic(), 0, 0
    folders = proof_inventory.read_all(root / "proofs", root, only)
    for folder in folders:
        started = time.monotonic()
        places = {"{folder}": folder.path, "{build}": build / "proofs" / folder.name, "{root}": root, "{ninja}": build}
        verdicts = check_folder(folder, places)
        show(folder, verdicts, time.monotonic() - started)
        proved += verdicts.count("")
        failed += len(verdicts) - verdicts.count("") + len(folder.faults)
    bare = [] if only else proof_inventory.laws_without_theorem(root / "docs/laws.md", folders)
    for law in bare:
        say(f"\nFAULT  docs/laws.md marks law {law} with ⊢, and no theorem carries it")
    failed += len(bare)
    if not proved and not failed:
        say("nothing was checked")
        failed = 1
    say(f"\nin {time.monotonic() - began:.0f} s")
    say(f"{proved} proved, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
