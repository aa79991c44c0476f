// binary16 arrays by AArch64's conversions, which are right but for NaN: they make every NaN quiet. Those go through
// integers.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

constexpr std::size_t width = 4;

inline bool any(uint32x4_t mask) { return vmaxvq_u32(mask) != 0; }
inline uint32x4_t is_nan(float32x4_t x) { return vmvnq_u32(vceqq_f32(x, x)); }

/// A NaN keeps sign and the top 10 fraction bits, or becomes 0x7E00 where those are 0.
inline uint16x4_t narrow_four(float32x4_t x, uint32x4_t& overflow) {
  const float32x4_t size = vabsq_f32(x);
  // From 65520 on; the comparisons are false for a NaN.
  overflow = vorrq_u32(overflow, vandq_u32(vcgeq_f32(size, vdupq_n_f32(65520)),
                                           vcltq_f32(size, vdupq_n_f32(__builtin_inff()))));
  uint16x4_t half = vreinterpret_u16_f16(vcvt_f16_f32(x));
  if (any(is_nan(x))) [[unlikely]] {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t fraction = vandq_u32(vshrq_n_u32(bits, 13), vdupq_n_u32(0x3FF));
    const uint32x4_t sign = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(0x8000));
    const uint32x4_t kept = vbslq_u32(vceqzq_u32(fraction), vdupq_n_u32(0x7E00), vorrq_u32(fraction, vdupq_n_u32(0x7C00)));
    half = vbsl_u16(vmovn_u32(is_nan(x)), vmovn_u32(vorrq_u32(sign, kept)), half);
  }
  return half;
}

bool narrow(const float* in, unsigned char* out, std::size_t n) {
  count_call();
  uint32x4_t overflow = vdupq_n_u32(0);
  for (std::size_t i = 0; i < n; i += width) {
    const std::size_t count = n - i < width ? n - i : width;
    float some[width] = {};
    __builtin_memcpy(some, in + i, count * sizeof(float));
    const uint16x4_t half = narrow_four(vld1q_f32(some), overflow);
    __builtin_memcpy(out + 2 * i, &half, 2 * count);
  }
  return any(overflow);
}

inline uint32x4_t widen_four(uint16x4_t half) {
  const float32x4_t x = vcvt_f32_f16(vreinterpret_f16_u16(half));
  const uint32x4_t bits = vmovl_u16(half);
  const uint32x4_t sign = vshlq_n_u32(vandq_u32(bits, vdupq_n_u32(0x8000)), 16);
  const uint32x4_t fraction = vshlq_n_u32(vandq_u32(bits, vdupq_n_u32(0x3FF)), 13);
  const uint32x4_t kept = vorrq_u32(vorrq_u32(sign, fraction), vdupq_n_u32(0x7F800000));
  return vbslq_u32(is_nan(x), kept, vreinterpretq_u32_f32(x));
}

void widen(const unsigned char* in, float* out, std::size_t n) {
  count_call();
  for (std::size_t i = 0; i < n; i += width) {
    const std::size_t count = n - i < width ? n - i : width;
    uint16x4_t half = vdup_n_u16(0);
    __builtin_memcpy(&half, in + 2 * i, 2 * count);
    const uint32x4_t bits = widen_four(half);
    __builtin_memcpy(out + i, &bits, count * sizeof(float));
  }
}

}  // namespace

constinit const Binary16Kernels neon_binary16{narrow, widen, calls};

}  // namespace kvcert::optimized::kernels
