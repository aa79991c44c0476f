// exp and tanh, correctly rounded, for the rare arguments on which a kernel's own evaluation cannot decide the
// rounding.
//
// Plain functions in a translation unit without ISA flags: every ISA's kernels call the same ones.
#pragma once

namespace kvcert::optimized::kernels {

/// exp(x) and tanh(x) rounded to binary32, to nearest even. Any x; a NaN gives canonical_nan. About a microsecond:
/// double- double arithmetic with relative error below 2^-80, where no binary32 argument comes closer to a midpoint
/// than 2^-60 (proofs/exhaustive compares both with MPFR wherever a kernel calls them). Default floating-point
/// environment.
float exp_slow(float x);
float tanh_slow(float x);

}  // namespace kvcert::optimized::kernels
