#!/usr/bin/env python3
"""The interface's documentation has no warning: doxygen_test.py. Exit status 0; 77 where doxygen is not installed."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def doxygen(folder: str, headers: pathlib.Path):
    """As docs/Doxyfile says, but for where headers are and where pages go."""
    settings = (ROOT / "docs/Doxyfile").read_text() + f"\nINPUT = {headers}\nOUTPUT_DIRECTORY = {folder}\nGENERATE_HTML = NO\nGENERATE_XML = YES\n"
    return subprocess.run(["doxygen", "-"], cwd=ROOT, input=settings, capture_output=True, text=True, check=False, timeout=300)


def main() -> int:
    if not shutil.which("doxygen"):
        print("doxygen is not installed")
        return 77
    with tempfile.TemporaryDirectory() as name:
        run = doxygen(name, ROOT / "include/kvcert")
        if run.returncode != 0 or "warning" in run.stderr:
            print(run.stderr)
            return 1
        # A comment that documents what is not there must be told.
        bad = pathlib.Path(name, "headers")
        bad.mkdir()
        (bad / "bad.hpp").write_text("/// Does it.\n/// \\param absent nothing\nvoid f(int present);\n")
        if doxygen(name, bad).returncode == 0:
            print("a header whose comment is wrong passes")
            return 1
    print("no warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
