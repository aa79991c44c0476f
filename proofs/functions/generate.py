"""Gappa and Coq inputs made from the C++ of exp and tanh: every constant and every operation is read from the sources.

generate.py FOLDER ROOT           says whether the files of FOLDER are what the sources give; status 1 if not
generate.py FOLDER ROOT --write   writes them
"""
import pathlib
import re
import sys

HEX = r"-?0x[0-9a-f.]+p[+-]?\d+"


def function_body(source: str, head: str) -> str:
    start = source.index(head)
    return source[start:source.index("\n}\n", start)]


def horner(body: str, first: str) -> list[str]:
    """The coefficients, leading first, of `double p = c;` and the `p = p * X + c;` that follow. Anything else is refused."""
    lines = [re.sub(r"//.*", "", line).strip() for line in body.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("double p ="))
    found = re.fullmatch(rf"double p = ({HEX});", lines[at])
    coefficients = [found.group(1)]
    for line in lines[at + 1:]:
        if line == f"p = (p * {first} + 0.5) * {first} + 1;":
            coefficients += ["0.5", "1"]
        elif found := re.fullmatch(rf"p = p \* {first} ([+-]) ({HEX}|1);", line):
            coefficients.append(("-" if found.group(1) == "-" else "") + found.group(2))
        elif line.startswith("p ="):
            sys.exit(f"generate: cannot read {line!r}")
        else:
            break
    return coefficients


def number(text: str) -> float:
    return float.fromhex(text) if "0x" in text else float(text)


def same(scalar: list[str], avx2: list[str], what: str) -> None:
    if [number(c) for c in scalar] != [number(c) for c in avx2]:
        sys.exit(f"generate: {what} of scalar.cpp and of avx2_elementary.hpp differ")


def constants(body: str) -> dict[str, str]:
    return {name: value for name, value in re.findall(rf"(\w+) = ({HEX})\b", body)}


class Sources:
    def __init__(self, root: pathlib.Path):
        scalar = (root / "optimized/kernels/scalar.cpp").read_text()
        avx2 = (root / "optimized/kernels/avx2_elementary.hpp").read_text()
        exp_body, tanh_body = function_body(scalar, "double exp_core"), function_body(scalar, "double tanh_core")
        self.exp, self.tanh = horner(exp_body, "r"), horner(tanh_body, "z")
        named = constants(exp_body)
        self.log2_e, self.ln2_high, self.ln2_low = named["log2_e"], named["ln2_high"], named["ln2_low"]
        if number(named["round_to_integer"]) != 1.5 * 2.0**52:
            sys.exit("generate: exp_core rounds to an integer with another constant")
        for statement in ("const double shifted = x * log2_e + round_to_integer;", "const double k = shifted - round_to_integer;",
                          "const double r = (x - k * ln2_high) - k * ln2_low;", "p = p * r + 1;"):
            if statement not in exp_body:
                sys.exit(f"generate: exp_core no longer says {statement!r}")
        for statement in ("if (x < 0.25) {", "const double z = x * x;", "return x + x * (z * p);",
                          "const double e = exp_core(2 * x);", "return (e - 1) / (e + 1);"):
            if statement not in tanh_body:
                sys.exit(f"generate: tanh_core no longer says {statement!r}")
        vector_exp, vector_tanh = function_body(avx2, "inline void exp4"), function_body(avx2, "inline __m256d tanh4")
        sets = re.findall(rf"_mm256_set1_pd\(({HEX}|0x1.8p52)\)", vector_exp)
        same([self.log2_e, self.ln2_high, self.ln2_low], [c for c in sets if c != "0x1.8p52"][:3], "exp's reduction")
        same(self.exp, [sets[-1]] + re.findall(r"then\(([^)]*)\);", vector_exp), "exp's coefficients")
        same(self.tanh, re.findall(rf"_mm256_set1_pd\(({HEX})\)", vector_tanh), "tanh's coefficients")
        margins = re.findall(r"rounds_safely\((\w+)_core\([^;]*?, (0x1p-\d+), result\)", scalar)
        self.margin = dict(margins)
        vector_margins = re.findall(r"round_ends\([^;]*?, (0x1p-\d+)\);", avx2)
        same([self.margin["exp"], self.margin["tanh"]], vector_margins, "the margins")


def dyadic(text: str) -> str:
    """A binary64 constant for Gappa, exactly: integer and power of two."""
    mantissa, denominator = number(text).as_integer_ratio()
    return f"{mantissa}b-{denominator.bit_length() - 1}"


def rational(text: str) -> str:
    mantissa, denominator = number(text).as_integer_ratio()
    sign = f"(- {-mantissa})" if mantissa < 0 else str(mantissa)
    return sign if denominator == 1 else f"({sign} / {denominator})"


def evaluation(coefficients: list[str], variable: str, fused: bool) -> str:
    """p as the code evaluates it, P the same without rounding."""
    lines = [f"p0 = {dyadic(coefficients[0])};"]
    for i, c in enumerate(coefficients[1:], 1):
        product = f"p{i - 1} * {variable}" if fused else f"D(p{i - 1} * {variable})"
        lines += [f"p{i} = D({product} + {dyadic(c)});", f"P{i} = {'P' if i > 1 else 'p'}{i - 1} * {variable} + {dyadic(c)};"]
    return "\n".join(lines)


NOTE = "# Made by generate.py from optimized/kernels/{scalar.cpp,avx2_elementary.hpp}.\n"


def how(fused: bool) -> str:
    return "with fma" if fused else "every operation rounded"


def exp_reduction(s: Sources, fused: bool) -> str:
    product = (lambda a, b: f"{a} * {b}") if fused else (lambda a, b: f"D({a} * {b})")
    return f"""{NOTE}# exp_core's reduction, {how(fused)}. x is a binary32 or twice one: where k is not 0, a multiple of 2^-25.
@D = float<ieee_64, ne>;
log2e = {dyadic(s.log2_e)};
L1 = {dyadic(s.ln2_high)};
L2 = {dyadic(s.ln2_low)};
shifted = D({product("x", "log2e")} + 0x1.8p52);
k = D(shifted - 0x1.8p52);
r1 = D(x - {product("k", "L1")});
r = D(r1 - {product("k", "L2")});

{{ @FIX(x, -25) /\\ |x| <= 104 ->
   |k| <= 151 /\\ @FIX(k, 0) /\\ |r| <= 0.34658 /\\ |r - ((x - k * L1) - k * L2)| <= 0x1.00001p-55 }}

k - x * log2e -> (k - (shifted - 0x1.8p52)) + (shifted - ({product("x", "log2e")} + 0x1.8p52)) + ({product("x", "log2e")} - x * log2e);
x - k * L1 -> (0 - (k - x * log2e)) * (L1 + L2) - x * (log2e * (L1 + L2) - 1) + k * L2;
"""


def exp_polynomial(s: Sources, fused: bool) -> str:
    last = len(s.exp) - 1
    return f"""{NOTE}# exp_core's polynomial, {how(fused)}, on any binary64 that the reduction may give; P without roundings.
@D = float<ieee_64, ne>;
r = D(r_);
{evaluation(s.exp, "r", fused)}

{{ |r| <= 0.34658 -> |p{last} - P{last}| <= 0x1.2p-52 }}
"""


def tanh_series(s: Sources, fused: bool) -> str:
    last = len(s.tanh) - 1
    return f"""{NOTE}# tanh_core below 1/4, {how(fused)}: z, the square of a binary32, is exact, and so is the start of what remains,
# series = x + x * zp. P: without roundings.
@D = float<ieee_64, ne>;
@S = float<ieee_32, ne>;
x = S(x_);
square = D(x * x);
z = D(z_);
{evaluation(s.tanh, "z", fused)}
zp = D(z * p{last});

{{ (|x| in [1b-149, 0.25] -> square - x * x in [0, 0])
   /\\ (z in [0, 0.0625] -> |zp - z * P{last}| <= 0x1p-57 /\\ zp in [-0.0209, 0]) }}
"""


def tanh_quotient(_: Sources) -> str:
    return f"""{NOTE}# tanh_core from 1/4 on: e is exp_core(2 x), E the real exponential.
@D = float<ieee_64, ne>;
e = D(e_);
quotient = D(D(e - 1) / D(e + 1));
near = (e - 1) / (e + 1);
Quotient = (E - 1) / (E + 1);

{{ E in [1.64, 5b26] /\\ |(e - E) / E| <= {EXP_ERROR} ->
   |(quotient - near) / near| <= 0x1.9p-52 /\\ |(near - Quotient) / Quotient| <= {QUOTIENT_ERROR} }}

(near - Quotient) / Quotient -> ((e - E) / E) * (2 / ((e + 1) * (1 - 1 / E))) {{ E <> 0, E - 1 <> 0, E + 1 <> 0, e + 1 <> 0 }};
$ E in (1.7, 1.8, 2, 2.5, 4, 16);
"""


def tanh_sollya(s: Sources) -> str:
    """Below 1/4: the series against tanh, relative. supnorm certifies."""
    text = f"({s.tanh[0]})"
    for c in s.tanh[1:]:
        text = f"({text} * x^2 + ({c}))"
    return f"""prec = 200!;
series = x + x * (x^2 * {text});
norm = supnorm(series, tanh(x), [0; 1/4], relative, 2^(-10));
if (sup(norm) < 2^(-47.9)) then print("series: within 2^-47.9 of tanh") else print("series: NOT within 2^-47.9 of tanh", norm);
quit;
"""


# Relative errors: of exp_core as Approximation.v concludes, of the quotient as Gappa concludes from it.
EXP_ERROR = "0x1.6bp-47"
QUOTIENT_ERROR = "0x1.6cp-46"


def coefficients_v(s: Sources) -> str:
    def horner_of(coefficients: list[str], x: str) -> str:
        text = rational(coefficients[0])
        for c in coefficients[1:]:
            text = f"({text} * {x} + {rational(c)})"
        return text

    return f"""(* Made by generate.py from optimized/kernels/scalar.cpp. *)
From Coq Require Import Reals.
Open Scope R_scope.

Definition exp_polynomial (r : R) : R :=
  {horner_of(s.exp, "r")}.
Definition tanh_polynomial (z : R) : R :=
  {horner_of(s.tanh, "z")}.
Definition ln2_high : R := {rational(s.ln2_high)}.
Definition ln2_low : R := {rational(s.ln2_low)}.
Definition exp_margin : R := {rational(s.margin["exp"])}.
Definition tanh_margin : R := {rational(s.margin["tanh"])}.
"""


def files(s: Sources) -> dict[str, str]:
    return {"exp_reduction.g": exp_reduction(s, False), "exp_reduction_fma.g": exp_reduction(s, True),
            "exp_polynomial.g": exp_polynomial(s, False), "exp_polynomial_fma.g": exp_polynomial(s, True),
            "tanh_series.g": tanh_series(s, False), "tanh_series_fma.g": tanh_series(s, True),
            "tanh_quotient.g": tanh_quotient(s), "tanh_series.sollya": tanh_sollya(s), "Coefficients.v": coefficients_v(s)}


def main() -> int:
    folder, root = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    wrong = 0
    for name, text in files(Sources(root)).items():
        if "--write" in sys.argv:
            (folder / name).write_text(text)
        if (folder / name).read_text() != text:
            print(f"generate: {name} is not what the sources give")
            wrong += 1
    if wrong == 0:
        print("generate: 9 files are what the sources give")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main())
