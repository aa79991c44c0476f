// The scale that models use.
#pragma once

#include <cstdint>

namespace kvcert::optimized {

/// RN(1 / RN(√head_dim)) in binary32; +∞ for 0. Computed in integers, so that no rounding mode and no compiler has a
/// say.
float default_scale(std::uint64_t head_dim);

}  // namespace kvcert::optimized
