#include "optimized/kernels/correct_rounding.hpp"

#include <bit>
#include <cstdint>
#include <limits>

#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

/// The unevaluated sum high + low, |low| ≤ half an ulp of high: 106 bits. u = 2^-53.
struct DoubleDouble {
  double high;
  double low;
};

/// Exact: a + b = high + low (Knuth, TAOCP 2, 4.2.2).
DoubleDouble two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// Exact where |a| ≥ |b| (Dekker 1971).
DoubleDouble fast_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// Exact: a · b = high + low, by splitting factors into halves of 26 bits (Dekker 1971); no operand here nears overflow
/// or underflow. No fma: a baseline CPU has none.
DoubleDouble two_product(double a, double b) {
  constexpr double splitter = 0x1p27 + 1;
  const double a_scaled = splitter * a;
  const double a_high = a_scaled - (a_scaled - a);
  const double a_low = a - a_high;
  const double b_scaled = splitter * b;
  const double b_high = b_scaled - (b_scaled - b);
  const double b_low = b - b_high;
  const double product = a * b;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

// Relative errors of a few u² (Joldes, Muller, Popescu 2017, table 1: at most 16 u² = 2^-102 for those used here).

DoubleDouble add(double a, DoubleDouble b) {
  const DoubleDouble sum = two_sum(a, b.high);
  return fast_two_sum(sum.high, sum.low + b.low);
}

DoubleDouble multiply(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble product = two_product(a.high, b.high);
  return fast_two_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

DoubleDouble divide(DoubleDouble a, DoubleDouble b) {
  const double quotient = a.high / b.high;
  const DoubleDouble back = two_product(quotient, b.high);
  const double remainder = ((a.high - back.high) - back.low) + a.low - quotient * b.low;
  return fast_two_sum(quotient, remainder / b.high);
}

/// e^x = 2^exponent · mantissa.
struct Scaled {
  DoubleDouble mantissa;
  int exponent;
};

/// e^x for binary32 x or twice that, |x| ≤ 104. Relative error below 2^-97:
///   * k = x / ln 2 to the nearest integer, |k| ≤ 151. ln 2 = L1 + L2 + L3 with 32, 32 and 53 bits, error 2^-119. Where
///     k ≠ 0, x is a multiple of 2^-25 and k·L1 of 2^-32, both below 2^8: x − k·L1 is exact, k·L2 too, k·L3 is off by
///     less than 2^-57 · 2^-53. So r = x − k·ln 2 is off by less than 2^-109.
///   * |r| ≤ 0.3466: the series ends after r^24/24!, the rest is below 0.3466^25 / 25! · 1.42 < 2^-121.
///   * Horner, p = 1 + r·p/n for n = 24 … 1: each step adds at most 3 · 2^-102 · |r·p/n| + 2^-102, of which the next
///     step keeps a factor |r|/n: 2^-99 in all, on a result of at least 0.7.
Scaled exp_double_double(double x) {
  constexpr double log2_e = 0x1.71547652b82fep+0;
  constexpr double L1 = 0x1.62e42feep-1, L2 = 0x1.a39ef356p-33, L3 = 0x1.93c7673007e5fp-65;
  constexpr double round_to_integer = 0x1.8p52;
  const double k = (x * log2_e + round_to_integer) - round_to_integer;
  DoubleDouble r = two_sum(x - k * L1, -(k * L2));
  r = fast_two_sum(r.high, r.low - k * L3);
  DoubleDouble p{1, 0};
  for (int n = 24; n >= 1; --n) p = add(1, divide(multiply(r, p), {static_cast<double>(n), 0}));
  return {p, static_cast<int>(k)};
}

/// high + low > 0, rounded once to binary32 after scaling by 2^exponent. high is first rounded to odd, which remembers
/// in its last bit that something follows; then one rounding to far fewer bits is the right one (Boldo, Melquiond
/// 2008), subnormal and overflowing results included. The scaling is exact: results lie between 2^-151 and 2^129.
float round_once(DoubleDouble value, int exponent) {
  std::uint64_t bits = std::bit_cast<std::uint64_t>(value.high);
  if (value.low > 0) bits |= 1;
  if (value.low < 0) bits = (bits - 1) | 1;
  bits += static_cast<std::uint64_t>(static_cast<std::int64_t>(exponent)) << 52;
  return static_cast<float>(std::bit_cast<double>(bits));
}

}  // namespace

float exp_slow(float x) {
  if (x != x) return std::bit_cast<float>(canonical_nan);
  if (x > 89.0F) return std::numeric_limits<float>::infinity();  // above ln(2^128)
  if (x < -104.0F) return 0.0F;                                  // below ln(2^-150)
  const Scaled result = exp_double_double(static_cast<double>(x));
  return round_once(result.mantissa, result.exponent);
}

float tanh_slow(float x) {
  if (x != x) return std::bit_cast<float>(canonical_nan);
  const float magnitude = x < 0 ? -x : x;
  // |x| − tanh|x| < |x|³/3 < 2^-27 |x|: less than half the distance to any neighbour of x, which is at least 2^-25 |x|.
  if (magnitude < 0x1p-13F) return x;
  // 1 − tanh|x| < 2 e^-20 < 2^-25, half the distance from 1 down to its neighbour.
  if (magnitude > 10.0F) return x < 0 ? -1.0F : 1.0F;
  // (e − 1) / (e + 1) with e = exp(2|x|) ≥ 1 + 2^-12, so that e − 1 loses at most 13 bits: relative error below 2^-83.
  const Scaled power = exp_double_double(2 * static_cast<double>(magnitude));
  const double scale = std::bit_cast<double>((std::uint64_t{1023} + static_cast<std::uint64_t>(power.exponent)) << 52);
  const DoubleDouble e{power.mantissa.high * scale, power.mantissa.low * scale};
  const float result = round_once(divide(add(-1, e), add(1, e)), 0);
  return x < 0 ? -result : result;
}

}  // namespace kvcert::optimized::kernels
