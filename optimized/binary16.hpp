// binary16 ↔ binary32, on bit patterns, in integers.
#pragma once

#include <bit>
#include <cstdint>

namespace kvcert::optimized {

/// The largest finite binary16, 65504, as binary32; and the smallest magnitude that rounds to infinity, 65520: the tie
/// with the next number there would be, and ties go to the even one.
inline constexpr std::uint32_t binary16_largest = 0x477FE000;
inline constexpr std::uint32_t binary16_overflow = 0x477FF000;

/// A finite value that binary16 cannot hold.
constexpr bool overflows_binary16(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  return magnitude >= binary16_overflow && magnitude < 0x7F800000;
}

/// To nearest, ties to even, subnormals included. A NaN keeps sign and the top 10 fraction bits; if those are 0 it
/// becomes sign | 0x7E00. A finite value that does not fit becomes infinite.
constexpr std::uint16_t to_binary16(std::uint32_t bits) {
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) {
    const std::uint32_t fraction = magnitude >> 13 & 0x3FF;
    return static_cast<std::uint16_t>(sign | (fraction == 0 ? 0x7E00 : 0x7C00 | fraction));
  }
  if (magnitude >= binary16_overflow) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (magnitude >= 0x38800000) {  // 2^-14, normal: rebias, drop 13 bits; a carry into the exponent is right as it is
    const std::uint32_t rebased = magnitude - (std::uint32_t{127 - 15} << 23);
    return static_cast<std::uint16_t>(sign | (rebased + 0xFFF + (rebased >> 13 & 1)) >> 13);
  }
  const std::uint32_t exponent = magnitude >> 23;
  if (exponent < 102) return static_cast<std::uint16_t>(sign);  // below 2^-25, half the smallest subnormal
  const std::uint32_t significand = (magnitude & 0x7FFFFF) | 0x800000;
  const std::uint32_t shift = 126 - exponent;  // 14 … 24: from units of the significand to units of 2^-24
  const std::uint32_t half = std::uint32_t{1} << (shift - 1);
  const std::uint32_t rest = significand & (2 * half - 1);
  std::uint32_t rounded = significand >> shift;
  if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
  return static_cast<std::uint16_t>(sign | rounded);
}

/// Exact; NaN payload and signalling bit stay.
constexpr std::uint32_t from_binary16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1F;
  const std::uint32_t fraction = half & 0x3FF;
  if (exponent == 0x1F) return sign | 0x7F800000 | fraction << 13;
  if (exponent != 0) return sign | (exponent + 127 - 15) << 23 | fraction << 13;
  if (fraction == 0) return sign;
  // fraction · 2^-24, with its leading bit moved to bit 23.
  const auto shift = static_cast<std::uint32_t>(std::countl_zero(fraction)) - 8;
  return sign | (126 - shift) << 23 | (fraction << shift & 0x7FFFFF);
}

}  // namespace kvcert::optimized
