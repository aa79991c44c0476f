#!/usr/bin/env python3
"""Every planted fault must still fit the code it changes, and change it. (Whether it is found: ./kvcert fuzz bite.)"""
import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "fuzz"), str(ROOT / "tools")]

from fuzz import TARGETS
from planted_faults import FAULTS


def main() -> int:
    wrong = []
    for fault in FAULTS:
        text = (ROOT / fault.file).read_text(encoding="utf-8") if (ROOT / fault.file).is_file() else ""
        changed, count = fault.planted_in(text)
        if count != 1 or changed == text or fault.target not in TARGETS:
            wrong.append(f"{fault.name}: its text occurs {count} times in {fault.file}, target {fault.target}")
    if len({fault.name for fault in FAULTS}) != len(FAULTS):
        wrong.append("two faults share a name")
    if {fault.target for fault in FAULTS} != set(TARGETS):
        wrong.append("a target has no fault to find")
    if len(FAULTS) < 20:
        wrong.append(f"only {len(FAULTS)} faults")
    print("\n".join(wrong) or f"{len(FAULTS)} faults fit")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
