// exp, correctly rounded to binary64.
#pragma once

namespace kvcert::optimized {

/// RN(e^x), to nearest even, subnormals kept. In integers: the floating-point environment does not matter. A NaN gives
/// a quiet NaN.
double exp_binary64(double x);

}  // namespace kvcert::optimized
