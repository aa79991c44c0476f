#!/usr/bin/env python3
"""Plug-ins built with sanitizers: sanitizer_engine_test.py BUILD. Exit status 0 if every expectation was met.

A report of UBSan, which lets the engine go on, or of ASan, which ends it, is a finding of the case that caused it, and of every such case;
without a fault the same libraries hold.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
KVCERT = pathlib.Path(sys.argv[1]).resolve() / "certify/kvcert"
GOOD = "const float cap = l->config.softcap;"
# A mask made by a shift that is too wide from position 2 on; a row read before the first one.
SHIFT = GOOD + " volatile int bit = 1; if (window != 0) bit = 1 << (30 + (int)position);"
BEFORE = GOOD + " if (window != 0 && position >= 2) { volatile float x = l->k[-1]; (void)x; }"
FAULTS: list[str] = []


def expect(what: str, condition: bool, detail: str = "") -> None:
    if not condition:
        FAULTS.append(what)
        print(f"NOT MET: {what}\n{detail.strip()[-1500:]}")


def certify(folder: pathlib.Path, name: str, sanitizer: str, text: str):
    """Exit status, the check, and what was printed."""
    source, library, certificate = folder / f"{name}.c", folder / f"{name}.so", folder / f"{name}.json"
    source.write_text(text)
    subprocess.run(["cc", "-std=c11", "-g", "-O0", f"-fsanitize={sanitizer}", "-shared", "-fPIC", f"-I{ROOT}/include", source, "-o", library, "-lm"],
                   check=True, capture_output=True)
    environment = dict(os.environ)
    if sanitizer == "address":  # its runtime must come first; the judge itself is not asked about leaks
        runtime = subprocess.run(["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
        environment |= {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"}
    run = subprocess.run([KVCERT, "certify", "--engine", library, "--suite", "window", "--count", "4", "--seconds", "60", "--findings", folder / name, "--json", certificate],
                         capture_output=True, text=True, errors="replace", check=False, env=environment, timeout=300)
    checks = json.loads(certificate.read_text())["checks"] if certificate.exists() else [{}]
    return run.returncode, checks[0], run.stdout + run.stderr, environment


def main() -> int:
    plain = (ROOT / "examples/plugin.c").read_text()
    expect("examples/plugin.c still has the line that is changed", plain.count(GOOD) == 1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for sanitizer in ("undefined", "address"):
            status, _, output, _ = certify(folder, f"clean-{sanitizer}", sanitizer, plain)
            expect(f"without a fault it holds under {sanitizer}", status == 0 and "HOLDS" in output, output)
        for sanitizer, bad, words in (("undefined", SHIFT, "runtime error: left shift"), ("address", BEFORE, "heap-buffer-overflow")):
            status, check, output, environment = certify(folder, f"bad-{sanitizer}", sanitizer, plain.replace(GOOD, bad))
            wrong = check.get("wrong", {})
            expect(f"{sanitizer}'s report is a finding", status == 1 and words in wrong.get("sentence", "") and "a sanitizer reports" in wrong["sentence"], output)
            expect(f"every case that causes it is found, not the first alone ({sanitizer})", check.get("counts", {}).get("wrong", 0) >= 2 and "not every time" not in output, output)
            files = list((folder / f"bad-{sanitizer}").glob("*.json"))
            expect(f"its case is written down ({sanitizer})", len(files) == 1, output)
            for file in files:
                again = subprocess.run([KVCERT, "replay", "--again", file], capture_output=True, text=True, errors="replace", check=False, env=environment, timeout=300)
                expect(f"replay shows it again ({sanitizer})", again.returncode == 1 and words in again.stdout, again.stdout + again.stderr)
    print("all expectations met" if not FAULTS else f"{len(FAULTS)} expectations not met")
    return bool(FAULTS)


if __name__ == "__main__":
    sys.exit(main())
