// exp and tanh on 16 lanes: a part of avx512.cpp, included nowhere else, with internal linkage throughout.
//
// The evaluations, and the error bounds that their tests rely on, are those of avx2_elementary.hpp (fast) and scalar.cpp
// (with care), with fma where the latter multiplies and adds.
#pragma once

#include "optimized/kernels/avx512_lanes.hpp"  // first: it says how immintrin.h is to be taken

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/correct_rounding.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

/// result, canonical_nan where x is a NaN.
inline __m512 canonical_where_nan(__m512 x, __m512 result) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(canonical_nan)));
  return _mm512_mask_mov_ps(result, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
}

inline __m512 canonical(__m512 x) { return canonical_where_nan(x, x); }

inline __m256 low_half(__m512 x) { return _mm512_castps512_ps256(x); }
inline __m256 high_half(__m512 x) { return _mm512_extractf32x8_ps(x, 1); }
inline __m512 join(__m256 low, __m256 high) { return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1); }

/// Steps of Horner's rule for N registers at a time, which hides the latency of fma.
template <int N>
inline void horner(__m512d (&p)[N], const __m512d (&r)[N], double coefficient) {
  const __m512d c = _mm512_set1_pd(coefficient);
  KVCERT_UNROLL for (int i = 0; i < N; ++i) p[i] = _mm512_fmadd_pd(p[i], r[i], c);
}

/// p · 2^k, k in the low bits of `shifted`, for a normal result.
inline __m512d scale_by(__m512d p, __m512d shifted) {
  const __m512i exponent = _mm512_slli_epi64(_mm512_castpd_si512(shifted), 52);
  return _mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(p), exponent));
}

/// e^x, |x| ≤ 104, eight lanes; relative error below 2^-46.5 (scalar.cpp, exp_core). Anything for a NaN.
inline __m512d exp8_careful(__m512d x) {
  const __m512d round_to_integer = _mm512_set1_pd(0x1.8p52);
  const __m512d shifted = _mm512_fmadd_pd(x, _mm512_set1_pd(0x1.71547652b82fep+0), round_to_integer);
  const __m512d k = _mm512_sub_pd(shifted, round_to_integer);
  const __m512d r[1] = {_mm512_fnmadd_pd(k, _mm512_set1_pd(0x1.a39ef35793c76p-33),
                                         _mm512_fnmadd_pd(k, _mm512_set1_pd(0x1.62e42feep-1), x))};
  __m512d p[1] = {_mm512_set1_pd(0x1.ae64567f544e4p-26)};  // 1/11!
  horner(p, r, 0x1.27e4fb7789f5cp-22);
  horner(p, r, 0x1.71de3a556c734p-19);
  horner(p, r, 0x1.a01a01a01a01ap-16);
  horner(p, r, 0x1.a01a01a01a01ap-13);
  horner(p, r, 0x1.6c16c16c16c17p-10);
  horner(p, r, 0x1.1111111111111p-7);
  horner(p, r, 0x1.5555555555555p-5);
  horner(p, r, 0x1.5555555555555p-3);
  horner(p, r, 0.5);
  horner(p, r, 1);
  horner(p, r, 1);
  return scale_by(p[0], shifted);
}

/// tanh x, 0 ≤ x ≤ 10, eight lanes; relative error below 2^-45 (scalar.cpp, tanh_core). Anything for a NaN.
inline __m512d tanh8_careful(__m512d x) {
  const __m512d one = _mm512_set1_pd(1);
  const __m512d z[1] = {_mm512_mul_pd(x, x)};
  __m512d p[1] = {_mm512_set1_pd(0x1.3558248036744p-11)};
  horner(p, z, -0x1.7da36452b75e3p-10);
  horner(p, z, 0x1.d6d3d0e157de0p-9);
  horner(p, z, -0x1.226e355e6c23dp-7);
  horner(p, z, 0x1.664f4882c10fap-6);
  horner(p, z, -0x1.ba1ba1ba1ba1cp-5);
  horner(p, z, 0x1.1111111111111p-3);
  horner(p, z, -0x1.5555555555555p-2);
  const __m512d series = _mm512_fmadd_pd(x, _mm512_mul_pd(z[0], p[0]), x);
  const __m512d e = exp8_careful(_mm512_add_pd(x, x));
  const __m512d quotient = _mm512_div_pd(_mm512_sub_pd(e, one), _mm512_add_pd(e, one));
  return _mm512_mask_mov_pd(quotient, _mm512_cmp_pd_mask(x, _mm512_set1_pd(0.25), _CMP_LT_OQ), series);
}

/// Both ends of where the exact value lies, y · (1 ∓ error), rounded to binary32; lanes on which they differ, by bits. A
/// NaN is its own equal: it needs no slow path.
inline unsigned round_both(__m512d first, __m512d second, double error, __m512& result) {
  const __m512d e = _mm512_set1_pd(error);
  result = join(_mm512_cvtpd_ps(_mm512_fnmadd_pd(first, e, first)), _mm512_cvtpd_ps(_mm512_fnmadd_pd(second, e, second)));
  const __m512 high =
      join(_mm512_cvtpd_ps(_mm512_fmadd_pd(first, e, first)), _mm512_cvtpd_ps(_mm512_fmadd_pd(second, e, second)));
  return _mm512_cmpneq_epi32_mask(_mm512_castps_si512(result), _mm512_castps_si512(high));
}

/// result with those lanes that are set in `which` replaced by slow(x).
__attribute__((noinline)) __m512 decide(__m512 x, __m512 result, unsigned which, float (*slow)(float)) {
  alignas(64) float in[16];
  alignas(64) float out[16];
  _mm512_store_ps(in, x);
  _mm512_store_ps(out, result);
  for (unsigned i = 0; i < 16; ++i)
    if ((which >> i & 1) != 0) out[i] = slow(in[i]);
  return _mm512_load_ps(out);
}

/// exp(x), correctly rounded, a NaN canonical: whatever the arguments, and however close to a midpoint.
__attribute__((noinline)) __m512 exp_with_care(__m512 x) {
  // Clamped, the results stay: exp(89) > 2^128, exp(−104) < 2^-150. A NaN passes as the second operand.
  const __m512 c = _mm512_min_ps(_mm512_set1_ps(89), _mm512_max_ps(_mm512_set1_ps(-104), x));
  __m512 result;
  const unsigned which = round_both(exp8_careful(_mm512_cvtps_pd(low_half(c))),
                                    exp8_careful(_mm512_cvtps_pd(high_half(c))), 0x1p-45, result);
  if (which != 0) [[unlikely]] result = decide(x, result, which, exp_slow);
  return canonical_where_nan(x, result);
}

/// Each x becomes e^x for |x| ≤ 87, eight lanes; relative error below 2^-39 (avx2_elementary.hpp, exp4_fast).
template <int N>
inline void exp8_fast(__m512d (&x)[N]) {
  const __m512d round_to_integer = _mm512_set1_pd(0x1.8p52);
  __m512d shifted[N];
  __m512d r[N];
  __m512d p[N];
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    shifted[i] = _mm512_fmadd_pd(x[i], _mm512_set1_pd(0x1.71547652b82fep+0), round_to_integer);
    const __m512d k = _mm512_sub_pd(shifted[i], round_to_integer);
    r[i] = _mm512_fnmadd_pd(k, _mm512_set1_pd(0x1.62e42fefa39efp-1), x[i]);
    p[i] = _mm512_set1_pd(0x1.a15a5c1c9c231p-16);
  }
  horner(p, r, 0x1.a1aa8ebb09119p-13);
  horner(p, r, 0x1.6c164deb3edc9p-10);
  horner(p, r, 0x1.111080a2be539p-7);
  horner(p, r, 0x1.555555742c758p-5);
  horner(p, r, 0x1.555555a276f61p-3);
  horner(p, r, 0x1.fffffffff71b9p-2);
  horner(p, r, 0x1.ffffffffd3852p-1);
  horner(p, r, 1);
  KVCERT_UNROLL for (int i = 0; i < N; ++i) x[i] = scale_by(p[i], shifted[i]);
}

/// Each x becomes exp(x), correctly rounded, a NaN canonical; how, avx2_elementary.hpp (exp_all) says.
template <int N>
inline void exp_all(__m512 (&x)[N]) {
  constexpr int reach = 1 << 14;
  __m512d e[2 * N];
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    e[2 * i] = _mm512_cvtps_pd(low_half(x[i]));
    e[2 * i + 1] = _mm512_cvtps_pd(high_half(x[i]));
  }
  exp8_fast(e);
  unsigned doubtful = 0;
  KVCERT_UNROLL for (int i = 0; i < N; ++i) {
    const __mmask16 far = _mm512_cmp_ps_mask(_mm512_abs_ps(x[i]), _mm512_set1_ps(87), _CMP_NLE_UQ);
    // the low words of 16 results, in some order; last 29 bits of 2^28 − reach become the least 32-bit integer
    const __m512i low = _mm512_castps_si512(
        _mm512_shuffle_ps(_mm512_castpd_ps(e[2 * i]), _mm512_castpd_ps(e[2 * i + 1]), 0x88));
    const __m512i place = _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(reach)), 3);
    const __mmask16 near =
        _mm512_cmplt_epi32_mask(place, _mm512_set1_epi32(static_cast<int>(0x80000000U + 16U * reach)));
    doubtful |= static_cast<unsigned>(far) | static_cast<unsigned>(near);
  }
  if (doubtful != 0) [[unlikely]] {
    KVCERT_UNROLL for (int i = 0; i < N; ++i) x[i] = exp_with_care(x[i]);
    return;
  }
  KVCERT_UNROLL for (int i = 0; i < N; ++i) x[i] = join(_mm512_cvtpd_ps(e[2 * i]), _mm512_cvtpd_ps(e[2 * i + 1]));
}

inline __m512 exp16(__m512 x) {
  __m512 one[1] = {x};
  exp_all(one);
  return one[0];
}

/// tanh, correctly rounded, a NaN canonical.
inline __m512 tanh16(__m512 x) {
  const __m512 sign = _mm512_set1_ps(-0.0F);
  const __m512 c = _mm512_min_ps(_mm512_set1_ps(10), _mm512_abs_ps(x));  // tanh(10) rounds to 1
  __m512 result;
  const unsigned which = round_both(tanh8_careful(_mm512_cvtps_pd(low_half(c))),
                                    tanh8_careful(_mm512_cvtps_pd(high_half(c))), 0x1p-44, result);  // against 2^-45
  result = _mm512_or_ps(result, _mm512_and_ps(sign, x));
  if (which != 0) [[unlikely]] result = decide(x, result, which, tanh_slow);
  return canonical_where_nan(x, result);
}

}  // namespace
}  // namespace kvcert::optimized::kernels
