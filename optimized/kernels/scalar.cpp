// Portable kernels: plain C++, no ISA flags, no libm, no fused multiply-add hardware. Also the ones to read first.
#include <cstddef>
#include <cstdint>

#include "optimized/fused.hpp"
#include "optimized/kernels/correct_rounding.hpp"
#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

constexpr float nan = __builtin_bit_cast(float, canonical_nan);
constexpr float infinity = __builtin_bit_cast(float, 0x7F800000);

float canonical(float x) { return x != x ? nan : x; }

float fold(float (&lane)[lanes]) {
  for (std::size_t half = lanes / 2; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

float dot(const float* a, const float* b, std::size_t n) {
  float lane[lanes] = {};
  std::size_t j = 0;
  for (; j + lanes <= n; j += lanes)
    for (std::size_t i = 0; i < lanes; ++i) lane[i] = fused(a[j + i], b[j + i], lane[i]);
  for (std::size_t i = 0; j < n; ++i, ++j) lane[i] = fused(a[j], b[j], lane[i]);
  return fold(lane);
}

/// e^x in binary64 for |x| ≤ 104, x a binary32 number or twice one; relative error below 2^-46.5:
///   * k = x / ln 2 to the nearest integer up to 2^-40, so |k| ≤ 151 and |r| ≤ 0.34658 for r = x − k·ln 2. The first part
///     of ln 2 has 32 bits: where k ≠ 0, x is a multiple of 2^-25, k·ln2_high of 2^-32, both below 2^8, so their
///     difference is exact. The second part brings 2^-78, the last subtraction 2^-55.
///   * Taylor's series to r^11/11!: the rest is r^12/12! · e^ξ, relative to e^r at most 0.34658^12/12! · e^0.34658 < 2^-46.6.
///   * Horner: every step rounds a product and a sum below 2, |r| times of it reaches the next: 2^-51 in all.
double exp_core(double x) {
  constexpr double log2_e = 0x1.71547652b82fep+0;
  constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
  constexpr double round_to_integer = 0x1.8p52;
  const double shifted = x * log2_e + round_to_integer;  // k is in its low bits
  const double k = shifted - round_to_integer;
  const double r = (x - k * ln2_high) - k * ln2_low;
  double p = 0x1.ae64567f544e4p-26;      // 1/11!, to nearest like all the others
  p = p * r + 0x1.27e4fb7789f5cp-22;     // 1/10!
  p = p * r + 0x1.71de3a556c734p-19;     // 1/9!
  p = p * r + 0x1.a01a01a01a01ap-16;     // 1/8!
  p = p * r + 0x1.a01a01a01a01ap-13;     // 1/7!
  p = p * r + 0x1.6c16c16c16c17p-10;     // 1/6!
  p = p * r + 0x1.1111111111111p-7;      // 1/5!
  p = p * r + 0x1.5555555555555p-5;      // 1/4!
  p = p * r + 0x1.5555555555555p-3;      // 1/3!
  p = (p * r + 0.5) * r + 1;
  p = p * r + 1;
  const std::uint64_t exponent = __builtin_bit_cast(std::uint64_t, shifted) << 52;  // k; its upper bits fall out
  return __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, p) + exponent);
}

/// Both ends of the interval that the error bound leaves round to the same number: then so does what lies between. The
/// ends are computed with another 2^-52, for which the callers' bounds leave room. Subnormal results are rounded where
/// they are, overflow too.
bool rounds_safely(double y, double error, float& result) {
  result = static_cast<float>(y - y * error);
  return result == static_cast<float>(y + y * error);
}

float exp_rounded(float x) {
  if (x != x) return nan;
  // Clamped, the results stay: exp(89) > 2^128 and exp(−104) < 2^-150.
  const float clamped = x > 89.0F ? 89.0F : x < -104.0F ? -104.0F : x;
  float result;
  // 2^-45 against an error of 2^-46.5.
  return rounds_safely(exp_core(static_cast<double>(clamped)), 0x1p-45, result) ? result : exp_slow(x);
}

/// tanh of |x| in [0, 10]; relative error below 2^-45:
///   * below 1/4 by Taylor's series, alternating with falling terms, so the rest is below the first term left out,
///     0.00023913 · x^18 relative to x: 2^-48; roundings 2^-51.
///   * else (e − 1) / (e + 1) with e = exp(2x) ≥ 1.64: the error of e is multiplied by 2e / (e² − 1) ≤ 1.92, giving
///     2^-45.5; three roundings 2^-51.
double tanh_core(double x) {
  if (x < 0.25) {
    const double z = x * x;                // exact: 48 bits
    double p = 0x1.3558248036744p-11;      // Taylor coefficients of tanh (DLMF 4.33.3), to nearest: x^17
    p = p * z - 0x1.7da36452b75e3p-10;     // 929569/638512875
    p = p * z + 0x1.d6d3d0e157de0p-9;      // 21844/6081075
    p = p * z - 0x1.226e355e6c23dp-7;      // 1382/155925
    p = p * z + 0x1.664f4882c10fap-6;      // 62/2835
    p = p * z - 0x1.ba1ba1ba1ba1cp-5;      // 17/315
    p = p * z + 0x1.1111111111111p-3;      // 2/15
    p = p * z - 0x1.5555555555555p-2;      // 1/3
    return x + x * (z * p);
  }
  const double e = exp_core(2 * x);
  return (e - 1) / (e + 1);
}

float tanh_rounded(float x) {
  if (x != x) return nan;
  const float magnitude = __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x) & 0x7FFFFFFF);
  const double clamped = static_cast<double>(magnitude > 10.0F ? 10.0F : magnitude);  // tanh(10) rounds to 1
  float result;
  if (!rounds_safely(tanh_core(clamped), 0x1p-44, result)) return tanh_slow(x);  // 2^-44 against 2^-45
  const std::uint32_t sign = __builtin_bit_cast(std::uint32_t, x) & 0x80000000;
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, result) | sign);
}

// --- The table ----------------------------------------------------------------------------------------------------------

void scores(const float* q, std::size_t heads, const float* k, std::size_t rows, std::size_t head_dim, float scale,
            float* out, std::size_t stride) {
  count_call();
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t h = 0; h < heads; ++h)
      out[h * stride + r] = dot(q + h * head_dim, k + r * head_dim, head_dim) * scale;
}

void softcap_row(float* row, std::size_t n, float cap) {
  count_call();
  for (std::size_t i = 0; i < n; ++i) row[i] = cap * tanh_rounded(row[i] / cap);
}

void softmax_row(float* row, std::size_t n, std::size_t first_lane, const float* sink) {
  float m = -infinity;
  for (std::size_t i = 0; i < n; ++i) m = row[i] > m ? row[i] : m;  // false for a NaN
  if (sink != nullptr && *sink > m) m = *sink;

  float lane[lanes] = {};
  for (std::size_t i = 0; i < n; ++i) {
    row[i] = exp_rounded(row[i] - m);
    lane[(first_lane + i) % lanes] += row[i];
  }
  float denominator = fold(lane);
  if (sink != nullptr) denominator += exp_rounded(*sink - m);

  for (std::size_t i = 0; i < n; ++i) row[i] = canonical(row[i] / denominator);
}

void softmax_rows(float* p, std::size_t heads, std::size_t stride, std::size_t n, std::size_t first_lane,
                  const float* sinks, const void*, std::size_t) {
  count_call();
  for (std::size_t h = 0; h < heads; ++h)
    softmax_row(p + h * stride, n, first_lane, sinks == nullptr ? nullptr : sinks + h);
}

void weighted_sum(const float* p, std::size_t heads, std::size_t stride, const float* v, std::size_t rows,
                  std::size_t head_dim, float* out) {
  count_call();
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t h = 0; h < heads; ++h) {
      const float weight = p[h * stride + r];
      if (weight == 0) continue;
      const float* row = v + r * head_dim;
      float* sum = out + h * head_dim;
      for (std::size_t d = 0; d < head_dim; ++d) sum[d] = fused(weight, row[d], sum[d]);
    }
  }
}

void add_row(float* acc, const float* row, std::size_t n) {
  count_call();
  for (std::size_t i = 0; i < n; ++i) acc[i] = canonical(acc[i] + row[i]);
}

void canonicalize_row(float* row, std::size_t n) {
  count_call();
  for (std::size_t i = 0; i < n; ++i) row[i] = canonical(row[i]);
}

void exp_row(const float* in, float* out, std::size_t n) {
  count_call();
  for (std::size_t i = 0; i < n; ++i) out[i] = exp_rounded(in[i]);
}

void tanh_row(const float* in, float* out, std::size_t n) {
  count_call();
  for (std::size_t i = 0; i < n; ++i) out[i] = tanh_rounded(in[i]);
}

}  // namespace

constinit const Table scalar_table{scores, softcap_row, softmax_rows, weighted_sum, add_row, canonicalize_row,
                                   exp_row, tanh_row, calls, &scalar_int8, &scalar_binary16, &scalar_state};

}  // namespace kvcert::optimized::kernels
