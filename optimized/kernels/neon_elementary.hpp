// exp and tanh on 4 lanes: a part of neon.cpp, included nowhere else, with internal linkage throughout.
//
// The evaluation is that of scalar.cpp with fma where it multiplies and adds. An fma rounds once where two operations
// round twice, so the error bounds derived there hold here with the same constants.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/correct_rounding.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

inline uint32x4_t is_nan(float32x4_t x) { return vmvnq_u32(vceqq_f32(x, x)); }

/// Every NaN becomes canonical_nan.
inline float32x4_t canonical(float32x4_t x) {
  return vbslq_f32(is_nan(x), vreinterpretq_f32_u32(vdupq_n_u32(canonical_nan)), x);
}

/// e^x, |x| ≤ 104, two lanes; relative error below 2^-46.5 (scalar.cpp, exp_core). Anything for a NaN.
inline float64x2_t exp2lanes(float64x2_t x) {
  const float64x2_t round_to_integer = vdupq_n_f64(0x1.8p52);
  const float64x2_t shifted = vfmaq_f64(round_to_integer, x, vdupq_n_f64(0x1.71547652b82fep+0));
  const float64x2_t k = vsubq_f64(shifted, round_to_integer);
  float64x2_t r = vfmsq_f64(x, k, vdupq_n_f64(0x1.62e42feep-1));
  r = vfmsq_f64(r, k, vdupq_n_f64(0x1.a39ef35793c76p-33));
  float64x2_t p = vdupq_n_f64(0x1.ae64567f544e4p-26);  // 1/11!
  const auto then = [&](double coefficient) { p = vfmaq_f64(vdupq_n_f64(coefficient), p, r); };
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
  const int64x2_t exponent = vshlq_n_s64(vreinterpretq_s64_f64(shifted), 52);
  return vreinterpretq_f64_s64(vaddq_s64(vreinterpretq_s64_f64(p), exponent));
}

/// tanh x, 0 ≤ x ≤ 10, two lanes; relative error below 2^-45 (scalar.cpp, tanh_core). Anything for a NaN.
inline float64x2_t tanh2lanes(float64x2_t x) {
  const float64x2_t one = vdupq_n_f64(1);
  const float64x2_t z = vmulq_f64(x, x);
  float64x2_t p = vdupq_n_f64(0x1.3558248036744p-11);
  const auto then = [&](double coefficient) { p = vfmaq_f64(vdupq_n_f64(coefficient), p, z); };
  then(-0x1.7da36452b75e3p-10);
  then(0x1.d6d3d0e157de0p-9);
  then(-0x1.226e355e6c23dp-7);
  then(0x1.664f4882c10fap-6);
  then(-0x1.ba1ba1ba1ba1cp-5);
  then(0x1.1111111111111p-3);
  then(-0x1.5555555555555p-2);
  const float64x2_t series = vfmaq_f64(x, x, vmulq_f64(z, p));
  const float64x2_t e = exp2lanes(vaddq_f64(x, x));
  const float64x2_t quotient = vdivq_f64(vsubq_f64(e, one), vaddq_f64(e, one));
  return vbslq_f64(vcltq_f64(x, vdupq_n_f64(0.25)), series, quotient);
}

/// result with slow(x) in those lanes on which y · (1 ∓ error) round apart: the exact value lies between.
inline float32x4_t decided(float32x4_t x, float64x2_t first, float64x2_t second, double error, float32x4_t sign,
                           float (*slow)(float)) {
  const float64x2_t e = vdupq_n_f64(error);
  const float32x4_t low = vcombine_f32(vcvt_f32_f64(vfmsq_f64(first, first, e)), vcvt_f32_f64(vfmsq_f64(second, second, e)));
  const float32x4_t high = vcombine_f32(vcvt_f32_f64(vfmaq_f64(first, first, e)), vcvt_f32_f64(vfmaq_f64(second, second, e)));
  const uint32x4_t same = vorrq_u32(vceqq_u32(vreinterpretq_u32_f32(low), vreinterpretq_u32_f32(high)), is_nan(x));
  const float32x4_t result =
      vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(low), vreinterpretq_u32_f32(sign)));
  if (vminvq_u32(same) == 0) [[unlikely]] {
    float in[4], out[4];
    std::uint32_t known[4];
    vst1q_f32(in, x);
    vst1q_f32(out, result);
    vst1q_u32(known, same);
    for (int i = 0; i < 4; ++i)
      if (known[i] == 0) out[i] = slow(in[i]);
    return vld1q_f32(out);
  }
  return result;
}

/// exp, correctly rounded, a NaN canonical.
inline float32x4_t exp4(float32x4_t x) {
  // Clamped, the results stay: exp(89) > 2^128, exp(−104) < 2^-150.
  const float32x4_t c = vminq_f32(vdupq_n_f32(89), vmaxq_f32(vdupq_n_f32(-104), x));
  const float64x2_t first = exp2lanes(vcvt_f64_f32(vget_low_f32(c)));
  const float64x2_t second = exp2lanes(vcvt_high_f64_f32(c));
  const float32x4_t result = decided(x, first, second, 0x1p-45, vdupq_n_f32(0), exp_slow);  // against 2^-46.5
  return vbslq_f32(is_nan(x), vreinterpretq_f32_u32(vdupq_n_u32(canonical_nan)), result);
}

/// tanh, correctly rounded, a NaN canonical.
inline float32x4_t tanh4(float32x4_t x) {
  const float32x4_t c = vminq_f32(vdupq_n_f32(10), vabsq_f32(x));  // tanh(10) rounds to 1
  const float32x4_t sign =
      vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x80000000)));
  const float64x2_t first = tanh2lanes(vcvt_f64_f32(vget_low_f32(c)));
  const float64x2_t second = tanh2lanes(vcvt_high_f64_f32(c));
  const float32x4_t result = decided(x, first, second, 0x1p-44, sign, tanh_slow);  // against 2^-45
  return vbslq_f32(is_nan(x), vreinterpretq_f32_u32(vdupq_n_u32(canonical_nan)), result);
}

}  // namespace
}  // namespace kvcert::optimized::kernels
