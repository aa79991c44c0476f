"""The decoder extracted from Coq against both C++ decoders, where Coq and OCaml are installed: wire_oracle_test.py BUILD

A short run of proofs/codec/run_oracle.py for the tests; `./kvcert prove` runs all of it.
"""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOT_RUN = 77


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    missing = [tool for tool in ("coqc", "ocamlfind", "ocamlopt") if shutil.which(tool) is None]
    if missing:
        print(f"needs {', '.join(missing)}; ./kvcert prove installs them")
        return NOT_RUN
    return subprocess.run([sys.executable, "-B", str(ROOT / "proofs/codec/run_oracle.py"), str(build / "proofs/codec-test"),
                           str(ROOT), str(build), "10000"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
