// exp and tanh, correctly rounded to binary32: what every kernel computes, one value at a time.
#pragma once

namespace kvcert::optimized {

/// RN(e^x) and RN(tanh x), to nearest even, subnormals kept, whatever the caller's floating-point environment. Every x
/// has a result: e^−∞ = +0, e^+∞ and overflow = +∞, tanh ±∞ = ±1, tanh −0 = −0; a NaN gives 0x7FC00000. Rows of values,
/// per ISA: kernels::Table::exp_row and tanh_row.
float exp_correctly_rounded(float x);
float tanh_correctly_rounded(float x);

}  // namespace kvcert::optimized
