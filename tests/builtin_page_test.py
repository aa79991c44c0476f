#!/usr/bin/env python3
"""Both files of `kvcert certify` on the built-in cache: builtin_page_test.py BUILD. Exit status 0 if every expectation was met.

The schema holds for the JSON; the page needs nothing else and says what the JSON says; speed and coverage are there.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
KVCERT = pathlib.Path(sys.argv[1]).resolve() / "certify/kvcert"
FAULTS: list[str] = []


def expect(what: str, condition: bool, detail: str = "") -> None:
    if not condition:
        FAULTS.append(what)
        print(f"NOT MET: {what}\n{detail.strip()[-1500:]}")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = subprocess.run([KVCERT, "certify", "--isa", "scalar", "--percent", "1", "--json", folder / "c.json", "--html", folder / "c.html", "--findings", folder / "f"],
                             capture_output=True, text=True, check=False)
        expect("a hundredth of the cases holds on the scalar kernels", run.returncode == 0, run.stdout + run.stderr)
        certificate, page = json.loads((folder / "c.json").read_text()), (folder / "c.html").read_text()
        validator = jsonschema.Draft7Validator(json.loads((ROOT / "docs/schemas/certificate.json").read_text()))
        error = next(validator.iter_errors(certificate), None)
        expect("certificate.json holds for it", error is None, str(error))
        scalar = certificate["sections"][-1]
        broken = json.loads(json.dumps(certificate))
        broken["sections"][-1]["throughput"][0]["unit"] = "miles"
        expect("and not for speed in another unit", not validator.is_valid(broken))
        expect("attend and append were timed", {t["part"] for t in scalar["throughput"]} == {"append", "attend"} and all(t["per_second"] > 0 for t in scalar["throughput"]))
        expect("every number within its bound is in the histogram", sum(scalar["accuracy"]["ulp_histogram"]) == scalar["accuracy"]["numbers"] > 0)
        expect("coverage counts outputs", sum(row.get("attention", 0) for row in scalar["coverage"].values()) > 0)
        expect("the page needs nothing else", not re.search(r"(src|href)=|<script|@import|url\(|https?:", page))
        words = ["HOLDS", "<svg", scalar["output_digest"], "not exercised", "queries/s", "prefers-color-scheme"] + [check["name"] for check in scalar["checks"]]
        missing = [word for word in words if word.replace("'", "&#39;") not in page]
        expect("the page says what the certificate says", not missing, str(missing))
        unwritable = subprocess.run([KVCERT, "certify", "--html", folder / "no/such/folder.html"], capture_output=True, text=True, check=False, timeout=60)
        expect("a page that cannot be written is said before the work", unwritable.returncode == 2 and "cannot write" in unwritable.stderr, unwritable.stderr)
        absent = subprocess.run([KVCERT, "certify", "--engine", folder / "absent.so", "--json", folder / "empty.json"], capture_output=True, text=True, check=False, timeout=60)
        expect("a run that comes to nothing leaves no certificate", absent.returncode == 2 and not (folder / "empty.json").exists(), absent.stdout + absent.stderr)
    print("all expectations met" if not FAULTS else f"{len(FAULTS)} expectations not met")
    return bool(FAULTS)


if __name__ == "__main__":
    sys.exit(main())
