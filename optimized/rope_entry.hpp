// One entry of the rotation table, correctly rounded.
#pragma once

#include <cstddef>

namespace kvcert::optimized {

struct RopeEntry {
  float cos;
  float sin;
};

/// RN(cos(Δ·f)·scale²) and RN(sin(Δ·f)·scale²), one rounding of the real product each, to nearest even, subnormal and
/// overflowing results included; a zero is +0. Δ < 2^20, 0 ≤ f ≤ 1, scale finite and > 0. In integers: the
/// floating-point environment does not matter.
RopeEntry rope_entry(std::size_t distance, float inv_freq, float scale);

}  // namespace kvcert::optimized
