#!/usr/bin/env python3
"""tools/check_rooms.py must refuse a forbidden include in every room, and pass the tree as it is.

The program under test runs as the build runs it; the cases below are written by hand and do not read its table.
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECK = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tools" / "check_rooms.py"

BOOST, MPFR, RAPIDCHECK = "<boost/multiprecision/mpfr.hpp>", "<mpfr.h>", "<rapidcheck.h>"
REFERENCE, OPTIMIZED = '"reference/layer_kv_cache.hpp"', '"optimized/layer_kv_cache.hpp"'
CERTIFY, FUZZ, PROOFS, TESTS = '"certify/judge.hpp"', '"fuzz/wire_pair.hpp"', '"proofs/any.hpp"', '"tests/any.hpp"'

FORBIDDEN = {
    "include": [BOOST, MPFR, "<fmt/format.h>", REFERENCE, OPTIMIZED, CERTIFY, FUZZ, PROOFS, TESTS],
    "reference": [OPTIMIZED, CERTIFY, FUZZ, PROOFS, TESTS, RAPIDCHECK, "<boost/crc.hpp>", "<fmt/format.h>"],
    "optimized": [REFERENCE, CERTIFY, FUZZ, PROOFS, TESTS, BOOST, MPFR, "<mpfi.h>", "<fmt/format.h>",
                  "<nlohmann/json.hpp>"],
    "certify": [TESTS, FUZZ, PROOFS, RAPIDCHECK, "<benchmark/benchmark.h>"],
    "fuzz": [TESTS, PROOFS, RAPIDCHECK, "<CLI/CLI.hpp>"],
    "proofs": [TESTS, CERTIFY, FUZZ, RAPIDCHECK, "<nlohmann/json.hpp>"],
    "tests": ["<unknown/library.hpp>", "<unknown.h>", '"tools/any.hpp"'],
}
# Refused in every room: a file that the check would not read, a way out by path, and a name that only the preprocessor
# knows.
EVERYWHERE = ['"kvcert/not_read_by_the_check.txt"', '"../reference/layer_kv_cache.hpp"',
              '"kvcert/../optimized/layer_kv_cache.hpp"', "<../optimized/layer_kv_cache.hpp>", "HEADER"]
ALLOWED = {
    "include": ["<cstdint>", '"kvcert/error.hpp"'],
    "reference": ["<vector>", '"kvcert/error.hpp"', '"reference/any.hpp"', BOOST, MPFR],
    "optimized": ["<immintrin.h>", '"kvcert/error.hpp"', '"optimized/kernels/any.hpp"'],
    "certify": ["<fmt/format.h>", REFERENCE, OPTIMIZED, CERTIFY],
    "fuzz": ["<fmt/format.h>", REFERENCE, OPTIMIZED, CERTIFY, FUZZ],
    "proofs": [MPFR, REFERENCE, OPTIMIZED, PROOFS],
    "tests": [RAPIDCHECK, REFERENCE, OPTIMIZED, CERTIFY, FUZZ, TESTS],
}
# The same include in the spellings a compiler would take.
SPELLINGS = ["#include {}", "  #  include\t{}", "#if 0\n#include {}\n#endif", "#include{}", "#import {}",
             "/* why */ #include {}", "#include /* why */ {}", "/* why\n*/ # /* and\nwhy */ include {}",
             "#inc\\\nlude {}", "%:include {}"]


SUFFIXES = ["cpp", "hpp", "h", "c", "cc", "cxx", "hh", "hxx", "inc", "ipp", "tpp", "inl", "S"]


def run_check(root: pathlib.Path) -> subprocess.CompletedProcess:
    """The check as the build runs it. It leaves its stamp exactly when it finds nothing."""
    with tempfile.TemporaryDirectory() as folder:
        stamp = pathlib.Path(folder, "stamp")
        run = subprocess.run([sys.executable, CHECK, root, stamp], capture_output=True, text=True, check=False)
        if run.returncode not in (0, 1) or stamp.exists() != (run.returncode == 0):
            raise RuntimeError(f"{CHECK} ended with status {run.returncode}: {run.stderr}")
        return run


def unseen(cases: list[tuple[str, str]], suffix: str = "cpp") -> list[str]:
    """A tree with one file for each (room, text), and the cases whose file the check does not name."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{room}/deep/er/planted_{number}.{suffix}" for number, (room, _) in enumerate(cases)]
        for name, (_, text) in zip(names, cases):
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        named = {line.split(":")[0] for line in run_check(pathlib.Path(folder)).stderr.splitlines()}
        return [f"{room}/: {text!r} in a .{suffix} file"
                for name, (room, text) in zip(names, cases) if name not in named]


def main() -> int:
    forbidden = [(room, f"#include {target}") for room, targets in FORBIDDEN.items() for target in targets + EVERYWHERE]
    forbidden += [("optimized", spelling.format(REFERENCE)) for spelling in SPELLINGS]
    allowed = [(room, f"#include {target}") for room, targets in ALLOWED.items() for target in targets]

    wrong = [f"not refused: {case}" for case in unseen(forbidden)]
    for suffix in SUFFIXES:
        wrong += [f"not refused: {case}" for case in unseen([("optimized", f"#include {REFERENCE}")], suffix)]
    let_through = unseen(allowed)
    if len(let_through) != len(allowed):
        wrong.append(f"{len(allowed) - len(let_through)} allowed includes are refused; let through are {let_through}")
    if (real := run_check(ROOT)).returncode:
        wrong.append(f"the tree itself is refused:\n{real.stderr}")
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    print(f"{len(forbidden) + len(SUFFIXES) + len(allowed) + 1} cases, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
