// exp and tanh on 8 lanes: a part of avx2.cpp, included nowhere else, with internal linkage throughout.
//
// The evaluation is that of scalar.cpp with fma where it multiplies and adds. An fma rounds once where two operations
// round twice, so the error bounds derived there hold here with the same constants.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/avx2_lanes.hpp"
#include "optimized/kernels/correct_rounding.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

/// result, canonical_nan where x is a NaN.
inline __m256 canonical_where_nan(__m256 x, __m256 result) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(canonical_nan)));
  return _mm256_blendv_ps(result, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

inline __m256 canonical(__m256 x) { return canonical_where_nan(x, x); }

/// Each x becomes e^x, |x| ≤ 104, four lanes; relative error below 2^-46.5 (scalar.cpp, exp_core). Anything for a NaN.
/// Several at once hide the latency of fma and share the loads of the constants.
template <int N>
inline void exp4(__m256d (&x)[N]) {
  const __m256d round_to_integer = _mm256_set1_pd(0x1.8p52);
  __m256d shifted[N];
  __m256d r[N];
  __m256d p[N];
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    shifted[i] = _mm256_fmadd_pd(x[i], _mm256_set1_pd(0x1.71547652b82fep+0), round_to_integer);
    const __m256d k = _mm256_sub_pd(shifted[i], round_to_integer);
    r[i] = _mm256_fnmadd_pd(k, _mm256_set1_pd(0x1.62e42feep-1), x[i]);
    r[i] = _mm256_fnmadd_pd(k, _mm256_set1_pd(0x1.a39ef35793c76p-33), r[i]);
    p[i] = _mm256_set1_pd(0x1.ae64567f544e4p-26);  // 1/11!
  }
  const auto then = [&](double coefficient) {
    const __m256d c = _mm256_set1_pd(coefficient);
    KVCERT_UNROLL for (int i = 0; i < N; ++i) p[i] = _mm256_fmadd_pd(p[i], r[i], c);
  };
  then(0x1.27e4fb7789f5cp-22);
  then(0x1.71de3a556c734p-19);
  then(0x1.a01a01a01a01ap-16);
  then(0x1.a01a01a01a01ap-13);
  then(0x1.6c16c16c16c17p-10);
  then(0x1.1111111111111p-7);
  then(0x1.5555555555555p-5);
  then(0x1.5555555555555p-3);
  then(0.5);
  then(1);
  then(1);
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    const __m256i exponent = _mm256_slli_epi64(_mm256_castpd_si256(shifted[i]), 52);
    x[i] = _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(p[i]), exponent));
  }
}

/// tanh x, 0 ≤ x ≤ 10, four lanes; relative error below 2^-45 (scalar.cpp, tanh_core). Anything for a NaN.
inline __m256d tanh4(__m256d x) {
  const __m256d one = _mm256_set1_pd(1);
  const __m256d z = _mm256_mul_pd(x, x);
  __m256d p = _mm256_set1_pd(0x1.3558248036744p-11);
  p = _mm256_fmadd_pd(p, z, _mm256_set1_pd(-0x1.7da36452b75e3p-10));
  p = _mm256_fmadd_pd(p, z, _mm256_set1_pd(0x1.d6d3d0e157de0p-9));
  p = _mm256_fmadd_pd(p, z, _mm256_set1_pd(-0x1.226e355e6c23dp-7));
  p = _mm256_fmadd_pd(p, z, _mm256_set1_pd(0x1.664f4882c10fap-6));
  p = _mm256_fmadd_pd(p, z, _mm256_set1_pd(-0x1.ba1ba1ba1ba1cp-5));
  p = _mm256_fmadd_pd(p, z, _mm256_set1_pd(0x1.1111111111111p-3));
  p = _mm256_fmadd_pd(p, z, _mm256_set1_pd(-0x1.5555555555555p-2));
  const __m256d series = _mm256_fmadd_pd(x, _mm256_mul_pd(z, p), x);
  __m256d e[1] = {_mm256_add_pd(x, x)};
  exp4(e);
  const __m256d quotient = _mm256_div_pd(_mm256_sub_pd(e[0], one), _mm256_add_pd(e[0], one));
  return _mm256_blendv_pd(quotient, series, _mm256_cmp_pd(x, _mm256_set1_pd(0.25), _CMP_LT_OQ));
}

/// y · (1 ∓ error), both rounded to binary32: low and high end of where the exact value lies.
struct Ends {
  __m256 low;
  __m256 high;
};

inline Ends round_ends(__m256d first, __m256d second, double error) {
  const __m256d e = _mm256_set1_pd(error);
  return {_mm256_set_m128(_mm256_cvtpd_ps(_mm256_fnmadd_pd(second, e, second)),
                          _mm256_cvtpd_ps(_mm256_fnmadd_pd(first, e, first))),
          _mm256_set_m128(_mm256_cvtpd_ps(_mm256_fmadd_pd(second, e, second)),
                          _mm256_cvtpd_ps(_mm256_fmadd_pd(first, e, first)))};
}

/// Lanes on which the ends differ, as bits. A NaN is its own equal here: it needs no slow path.
inline unsigned undecided(Ends ends) {
  const __m256i same = _mm256_cmpeq_epi32(_mm256_castps_si256(ends.low), _mm256_castps_si256(ends.high));
  return ~static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(same))) & 0xFF;
}

/// result with those lanes that are set in `which` replaced by slow(x).
__attribute__((noinline)) __m256 decide(__m256 x, __m256 result, unsigned which, float (*slow)(float)) {
  alignas(32) float in[8];
  alignas(32) float out[8];
  _mm256_store_ps(in, x);
  _mm256_store_ps(out, result);
  for (unsigned i = 0; i < 8; ++i)
    if ((which >> i & 1) != 0) out[i] = slow(in[i]);
  return _mm256_load_ps(out);
}

/// Each x becomes exp(x), correctly rounded, a NaN canonical: whatever the arguments, and however close to a midpoint.
template <int N>
__attribute__((noinline)) void exp_with_care(__m256 (&x)[N]) {
  for (__m256& each : x) {
    // Clamped, the results stay: exp(89) > 2^128, exp(−104) < 2^-150. A NaN passes as the second operand.
    const __m256 c = _mm256_min_ps(_mm256_set1_ps(89), _mm256_max_ps(_mm256_set1_ps(-104), each));
    __m256d e[2] = {_mm256_cvtps_pd(_mm256_castps256_ps128(c)), _mm256_cvtps_pd(_mm256_extractf128_ps(c, 1))};
    exp4(e);
    const Ends ends = round_ends(e[0], e[1], 0x1p-45);  // against an error of 2^-46.5
    __m256 result = ends.low;
    if (const unsigned which = undecided(ends); which != 0) [[unlikely]] result = decide(each, result, which, exp_slow);
    each = canonical_where_nan(each, result);
  }
}

/// e^x in binary64 for |x| ≤ 87, a binary32 number; relative error below 2^-39:
///   * k = x / ln 2 to the nearest integer, |k| ≤ 126; r = x − k·ln 2 in one fma. RN(ln 2) is off by less than 2^-55, times
///     k 2^-48; |r| ≤ 0.3466 = a.
///   * the polynomial of degree 8 that meets e^r at the nine Chebyshev nodes of [−a, a]: off by at most
///     e^a · a^9 / (9! · 2^8), relative to e^r at most e^(2a) · that < 2^-39.2 (Cauchy's remainder).
///   * its coefficients rounded, and Horner: 2^-51.
template <int N>
inline void exp4_fast(__m256d (&x)[N]) {
  const __m256d round_to_integer = _mm256_set1_pd(0x1.8p52);
  __m256d shifted[N];
  __m256d r[N];
  __m256d p[N];
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    shifted[i] = _mm256_fmadd_pd(x[i], _mm256_set1_pd(0x1.71547652b82fep+0), round_to_integer);
    const __m256d k = _mm256_sub_pd(shifted[i], round_to_integer);
    r[i] = _mm256_fnmadd_pd(k, _mm256_set1_pd(0x1.62e42fefa39efp-1), x[i]);
    p[i] = _mm256_set1_pd(0x1.a15a5c1c9c231p-16);
  }
  const auto then = [&](double coefficient) {
    const __m256d c = _mm256_set1_pd(coefficient);
    KVCERT_UNROLL for (int i = 0; i < N; ++i) p[i] = _mm256_fmadd_pd(p[i], r[i], c);
  };
  then(0x1.a1aa8ebb09119p-13);
  then(0x1.6c164deb3edc9p-10);
  then(0x1.111080a2be539p-7);
  then(0x1.555555742c758p-5);
  then(0x1.555555a276f61p-3);
  then(0x1.fffffffff71b9p-2);
  then(0x1.ffffffffd3852p-1);
  then(1);
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    const __m256i exponent = _mm256_slli_epi64(_mm256_castpd_si256(shifted[i]), 52);
    x[i] = _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(p[i]), exponent));
  }
}

/// Each x becomes exp(x), correctly rounded, a NaN canonical. Where all are at most 87 in magnitude, so that no result is
/// subnormal, and none of the results lies within the error of a midpoint, the fast evaluation will do. A midpoint of
/// two binary32 numbers is a binary64 number whose last 29 bits are 2^28; the error is below 2^-39 · 2 · 2^52 = 2^14 of
/// the last of them.
template <int N>
inline void exp_all(__m256 (&x)[N]) {
  constexpr int reach = 1 << 14;
  __m256d e[2 * N];
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    e[2 * i] = _mm256_cvtps_pd(_mm256_castps256_ps128(x[i]));
    e[2 * i + 1] = _mm256_cvtps_pd(_mm256_extractf128_ps(x[i], 1));
  }
  exp4_fast(e);
  __m256i doubtful = _mm256_setzero_si256();
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    const __m256i magnitude =
        _mm256_and_si256(_mm256_castps_si256(x[i]), _mm256_set1_epi32(0x7FFFFFFF));  // a NaN's is large
    const __m256i far = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x42AE0000));  // 87
    // the low words of eight results, in some order; last 29 bits of 2^28 − reach become the least 32-bit integer
    const __m256i low = _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castpd_ps(e[2 * i]), _mm256_castpd_ps(e[2 * i + 1]), 0x88));
    const __m256i place = _mm256_slli_epi32(_mm256_add_epi32(low, _mm256_set1_epi32(reach)), 3);
    const __m256i near = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(0x80000000U + 16U * reach)), place);
    doubtful = _mm256_or_si256(doubtful, _mm256_or_si256(far, near));
  }
  if (_mm256_testz_si256(doubtful, doubtful) == 0) [[unlikely]] {
    exp_with_care(x);
    return;
  }
  KVCERT_UNROLL for (int i = 0; i < N; ++i)
    x[i] = _mm256_set_m128(_mm256_cvtpd_ps(e[2 * i + 1]), _mm256_cvtpd_ps(e[2 * i]));
}

inline __m256 exp8(__m256 x) {
  __m256 one[1] = {x};
  exp_all(one);
  return one[0];
}

/// tanh, correctly rounded, a NaN canonical.
inline __m256 tanh8(__m256 x) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const __m256 c = _mm256_min_ps(_mm256_set1_ps(10), _mm256_andnot_ps(sign, x));  // tanh(10) rounds to 1
  const __m256d first = tanh4(_mm256_cvtps_pd(_mm256_castps256_ps128(c)));
  const __m256d second = tanh4(_mm256_cvtps_pd(_mm256_extractf128_ps(c, 1)));
  const Ends ends = round_ends(first, second, 0x1p-44);  // against an error of 2^-45
  __m256 result = _mm256_or_ps(ends.low, _mm256_and_ps(sign, x));
  if (const unsigned which = undecided(ends); which != 0) [[unlikely]] result = decide(x, result, which, tanh_slow);
  return canonical_where_nan(x, result);
}

}  // namespace
}  // namespace kvcert::optimized::kernels
