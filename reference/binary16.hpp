// IEEE 754 binary16 to binary32 and back, in integers. A number is significand × 2^exponent throughout.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace kvcert::reference {

/// The largest finite binary16, as binary32: 65504.
inline constexpr std::uint32_t largest_binary16 = 0x477FE000;

/// Exact; a NaN keeps its payload, and stays signalling if it was.
constexpr std::uint32_t binary32_from_binary16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half >> 15) << 31;
  const std::uint32_t exponent = (half >> 10) & 0x1F;
  const std::uint32_t fraction = half & 0x3FF;
  if (exponent == 0x1F) return sign | 0x7F800000 | fraction << 13;              // infinity, NaN
  if (exponent != 0) return sign | (exponent - 15 + 127) << 23 | fraction << 13;
  if (fraction == 0) return sign;
  // Subnormal: fraction × 2^−24. Shifted until its leading bit is bit 23, binary32's implicit one.
  const int shift = std::countl_zero(fraction) - 8;
  const auto biased = static_cast<std::uint32_t>(127 + 23 - 24 - shift);
  return sign | biased << 23 | (fraction << shift & 0x7FFFFF);
}

/// To nearest, ties to even, subnormals included; magnitudes of 65520 and above become infinite. A NaN keeps its sign
/// and the top 10 bits of its fraction, and where those are 0, which would be an infinity, it becomes sign | 0x7E00.
constexpr std::uint16_t binary16_from_binary32(std::uint32_t bits) {
  const std::uint32_t sign = bits >> 31 << 15;
  const int biased = static_cast<int>(bits >> 23 & 0xFF);
  const std::uint32_t fraction = bits & 0x7FFFFF;
  if (biased == 0xFF) {
    const std::uint32_t kept = fraction >> 13;
    if (fraction == 0 || kept != 0) return static_cast<std::uint16_t>(sign | 0x7C00 | kept);
    return static_cast<std::uint16_t>(sign | 0x7E00);
  }
  // The magnitude is significand × 2^exponent, below 2^(exponent + 24).
  const std::uint32_t significand = biased == 0 ? fraction : fraction | 0x800000;
  const int exponent = std::max(biased, 1) - 127 - 23;
  if (exponent + 23 > 15) return static_cast<std::uint16_t>(sign | 0x7C00);  // 2^16 or more
  // The neighbours in binary16 are 2^unit apart: 11 significant bits, but never finer than 2^−24.
  const int unit = std::max(exponent + 13, -24);
  const int dropped = unit - exponent;  // bits of the significand below the unit, at least 13
  if (dropped > 24) return static_cast<std::uint16_t>(sign);  // less than half a unit in all
  std::uint32_t units = significand >> dropped;
  const std::uint32_t rest = significand & ((std::uint32_t{1} << dropped) - 1);
  const std::uint32_t half = std::uint32_t{1} << (dropped - 1);
  if (rest > half || (rest == half && (units & 1) != 0)) ++units;
  // Each binade above the first has 1024 units more in its exponent field. A carry out of the fraction moves into that
  // field by itself: to the next binade, from subnormal to normal, and from 65504 + half a unit to infinity.
  return static_cast<std::uint16_t>(sign | (static_cast<std::uint32_t>(unit + 24) * 1024 + units));
}

}  // namespace kvcert::reference
