// How rows are kept: as they are, in binary16 or bfloat16, or as int8 with a scale per row and head.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/broken/engine.hpp"

namespace broken {
namespace {

float bf16_round(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return x;
  return std::bit_cast<float>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) & 0xFFFF0000U);
}

void store_int8(const float* from, float* to, std::size_t dim, bool key, const float* first_row) {
  // Keys in groups of 32 channels, values in one group of all of them.
  const std::size_t width = key ? 32 : dim;
  float scale = 0;
  for (std::size_t at = 0; at < dim; at += width) {
    const std::size_t end = std::min(at + width, dim);
    const float* measured = is(Fault::int8_scale_of_first_row) ? first_row : from;
    const bool tail = is(Fault::int8_group_tail) && key && at != 0 && end - at < width;
    if (!tail) {
      scale = 0;
      for (std::size_t d = at; d < end; ++d) scale = std::max(scale, std::fabs(measured[d]));
      scale /= 127.0F;
    }
    if (scale == 0 && !is(Fault::int8_zero_row_nan)) {
      std::fill(to + at, to + end, 0.0F);
      continue;
    }
    for (std::size_t d = at; d < end; ++d) {
      const float q = std::isnan(from[d] / scale) ? from[d] / scale : std::clamp(std::round(from[d] / scale), -127.0F, 127.0F);
      to[d] = q * scale;
      if (is(Fault::int8_scale_missing) && !key) to[d] = q;
      if (is(Fault::int8_key_scale_twice) && key) to[d] *= scale;
    }
  }
}

}  // namespace

float f16_round(float x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const float magnitude = std::fabs(x);
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f · 2^exponent, ½ ≤ f < 1
  const int unit = std::max(exponent - 11, -24);
  const float units = std::ldexp(magnitude, -unit);
  float rounded = is(Fault::f16_truncates) ? std::trunc(units) : std::nearbyint(units);
  if (is(Fault::f16_carry_lost) && exponent - 11 >= -24 && rounded >= 2048) rounded = 1024;  // the fraction, without its carry
  const float result = std::ldexp(rounded, unit);
  return std::copysign(result > 65504.0F ? INFINITY : result, x);
}

void store(const float* from, float* to, std::size_t dim, bool key, const float* first_row) {
  if (kind == Kind::int8) return store_int8(from, to, dim, key, first_row);
  for (std::size_t d = 0; d < dim; ++d) {
    to[d] = kind == Kind::f16 ? f16_round(from[d]) : kind == Kind::bf16 ? bf16_round(from[d]) : from[d];
  }
  if (is(Fault::last_channel_dropped) && dim % 2 != 0 && dim > 1) to[dim - 1] = 0;
}

}  // namespace broken
