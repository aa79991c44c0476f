"""The header certify/bound_formula.hpp against the text that Formula.v printed.

formula.py BUILD ROOT           says whether the header is that text; status 1 if not
formula.py BUILD ROOT --write   writes the header
"""
import pathlib
import re
import sys

PROLOGUE = """\
// The accuracy bound of docs/arithmetic.md, printed by proofs/accuracy/Formula.v from the programs of Program.v, which are
// proven there to be the bound of the theorems. Not written by hand: `python3 proofs/accuracy/formula.py --help` says how,
// and `./kvcert prove` fails where the two differ.
#pragma once

#include <cstddef>
#include <vector>

#include "certify/bound_number.hpp"

namespace kvcert::certify {

/// Numbers of a case and of an engine, and what the programs make of them. X is an enclosure of real numbers.
template <class X>
struct BoundFormula {
  // The engine's.
  X u, lambda, lambda_add, epsilon, omega, tau, omega_tanh, u_q, u_k, u_v, u_P, lambda_P;
  std::size_t h_q, r, r_sigma, g_c, L, h_v, h_s, g;
  // The case's. z, A, s, t_capped: rows; t, D: rows and then the sink; v: rows, of one dimension.
  std::size_t head_dim, n, N;
  X scale, c, sigma;
  std::vector<X> z, A, t, D, v;

  // What follows from them.
"""
EPILOGUE = """\
};

}  // namespace kvcert::certify
"""


def header(printed: str) -> str:
    body = re.search(r"=\s*(.*?)\s*:\s*list string\s*$", printed, re.S).group(1)
    body = re.sub(r"^\((.*)\)%list$", r"\1", body.strip(), flags=re.S)
    lines = re.findall(r'"((?:[^"]|"")*)"', body)
    if len(lines) < 50 or body.strip()[-3:] != "nil":
        sys.exit("formula: cannot read what Formula.v printed")
    return PROLOGUE + "\n".join(lines) + "\n" + EPILOGUE


def main() -> int:
    build, root = map(pathlib.Path, sys.argv[1:3])
    expected = header((build / "bound_formula.out").read_text())
    file = root / "certify/bound_formula.hpp"
    if "--write" in sys.argv:
        file.write_text(expected)
    found = file.read_text()
    if found != expected:
        for number, (a, b) in enumerate(zip(found.splitlines(), expected.splitlines()), 1):
            if a != b:
                print(f"{file.name}, line {number}\n  header: {a}\n  proven: {b}")
        print("formula: the header is not what is proven")
        return 1
    print("formula: certify/bound_formula.hpp is the proven bound")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main())
