// exp and tanh on 8 lanes: a part of avx2.cpp, included nowhere else, with internal linkage throughout.
//
// The evaluation is that of scalar.cpp with fma where it multiplies and adds. An fma rounds once where two operations
// round twice, so the error bounds derived there hold here with the same constants.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/correct_rounding.hpp"
#include "optimized/kernels/kernels.hpp"

// Loops over registers must vanish, or g++ keeps the registers in memory.
#define KVCERT_UNROLL _Pragma("GCC unroll 8")

namespace kvcert::optimized::kernels {
namespace {

/// Every NaN becomes canonical_nan.
inline __m256 canonical(__m256 x) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(canonical_nan)));
  return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

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

/// Each x becomes exp(x), correctly rounded, a NaN canonical.
template <int N>
inline void exp_all(__m256 (&x)[N]) {
  __m256d e[2 * N];
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    // Clamped, the results stay: exp(89) > 2^128, exp(−104) < 2^-150. A NaN passes as the second operand.
    const __m256 c = _mm256_min_ps(_mm256_set1_ps(89), _mm256_max_ps(_mm256_set1_ps(-104), x[i]));
    e[2 * i] = _mm256_cvtps_pd(_mm256_castps256_ps128(c));
    e[2 * i + 1] = _mm256_cvtps_pd(_mm256_extractf128_ps(c, 1));
  }
  exp4(e);
  __m256 result[N];
  unsigned which[N];
  unsigned any = 0;
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    const Ends ends = round_ends(e[2 * i], e[2 * i + 1], 0x1p-45);  // against an error of 2^-46.5
    result[i] = ends.low;
    which[i] = undecided(ends);
    any |= which[i];
  }
  if (any != 0) [[unlikely]] {
    KVCERT_UNROLL for (int i = 0; i < N; ++i) result[i] = decide(x[i], result[i], which[i], exp_slow);
  }
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(canonical_nan)));
    x[i] = _mm256_blendv_ps(result[i], nan, _mm256_cmp_ps(x[i], x[i], _CMP_UNORD_Q));
  }
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
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(canonical_nan)));
  return _mm256_blendv_ps(result, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

}  // namespace
}  // namespace kvcert::optimized::kernels
