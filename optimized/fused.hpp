// fma without fma hardware and without a mathematical library. For translation units without ISA flags only: everything
// has internal linkage, but what a compiler makes of it here must run anywhere.
#pragma once

#include <cstdint>

namespace kvcert::optimized {
namespace {

/// fma in binary64 whose last rounding had to be done with care: round to odd, then to binary32 once. The error of the
/// sum is exact (Knuth's two-sum); rounding to odd keeps it as a sticky last bit, and 53 ≥ 24 + 2 bits make the second
/// rounding the right one, subnormal results included (Boldo, Melquiond 2008).
[[maybe_unused]] float fused_with_care(double product, double addend, double sum) {
  const double addend_part = sum - product;
  const double error = (product - (sum - addend_part)) + (addend - addend_part);
  std::uint64_t bits = __builtin_bit_cast(std::uint64_t, sum);
  if (error > 0 || error < 0) {  // else exact, or not a finite sum
    const bool away = (error > 0) == (sum > 0);  // a nonzero error means a nonzero sum
    bits = (away ? bits : bits - 1) | 1;
  }
  return static_cast<float>(__builtin_bit_cast(double, bits));
}

/// a · b + c with one rounding. The binary64 product is exact: 24 + 24 bits, exponents far inside. Rounding the sum to
/// binary64 and then to binary32 goes wrong only where the first lands on a midpoint of the second: both roundings are
/// monotone and midpoints are binary64 numbers, so any other sum stays on its side of every midpoint. Midpoints of
/// normal results end in 1 and 28 zeros; results below 2^-126 have others and always take the careful way.
[[maybe_unused]] inline float fused(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  const double sum = product + addend;
  const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, sum);
  constexpr std::uint64_t smallest_normal = std::uint64_t{1023 - 126} << 52;
  const bool midpoint = (bits & 0x1FFFFFFF) == 0x10000000;
  const bool subnormal = (bits & 0x7FFFFFFFFFFFFFFF) < smallest_normal;
  if (midpoint || subnormal) return fused_with_care(product, addend, sum);
  return static_cast<float>(sum);
}

}  // namespace
}  // namespace kvcert::optimized
