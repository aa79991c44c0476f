// NEON kernels of int8 rows: integers become floats in registers, on their way to the fma.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/kernels/neon_lanes.hpp"

namespace kvcert::optimized::kernels {
namespace {

/// Four integers at p as floats.
inline float32x4_t floats_at(const std::int8_t* p) {
  std::uint32_t four;
  __builtin_memcpy(&four, p, 4);
  const int16x8_t wide = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}

// --- Scores ----------------------------------------------------------------------------------------------------------

/// The dot of a group of 32 channels, all in memory. A lane takes two elements: an fma onto +0 and one onto that.
inline float group_dot(const float* q, const float32x4_t (&row)[8]) {
  float32x4_t lane[quarters];
  KVCERT_UNROLL for (int i = 0; i < quarters; ++i)
      lane[i] = vfmaq_f32(vfmaq_f32(vdupq_n_f32(0), vld1q_f32(q + 4 * i), row[i]), vld1q_f32(q + 16 + 4 * i), row[i + 4]);
  return fold(lane);
}

void scores(const float* q, std::size_t heads, const std::int8_t* k, std::size_t rows, std::size_t head_dim,
            const float* scales, float scale, float* out, std::size_t stride) {
  count_call();
  const std::size_t groups = (head_dim - 1) / int8_group + 1;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t h = 0; h < heads; ++h) out[h * stride + r] = 0;
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t begin = g * int8_group, n = smaller(int8_group, head_dim - begin);
      const std::int8_t* group = k + r * head_dim + begin;
      // A short group is filled up with 0: fma(0, 0, lane) is the lane, for none is −0 (an fma of an integer onto +0
      // does not underflow).
      std::int8_t some[int8_group] = {};
      if (n < int8_group) {
        __builtin_memcpy(some, group, n);
        group = some;
      }
      float32x4_t row[8];
      KVCERT_UNROLL for (int i = 0; i < 8; ++i) row[i] = floats_at(group + 4 * i);
      for (std::size_t h = 0; h < heads; ++h) {
        const float* query = q + h * head_dim + begin;
        float filled[int8_group] = {};
        if (n < int8_group) {
          __builtin_memcpy(filled, query, n * sizeof(float));
          query = filled;
        }
        float& sum = out[h * stride + r];
        sum = __builtin_fmaf(group_dot(query, row), scales[r * groups + g], sum);
      }
    }
    for (std::size_t h = 0; h < heads; ++h) out[h * stride + r] *= scale;
  }
}

// --- Weighted sum ----------------------------------------------------------------------------------------------------

constexpr std::size_t block_rows = 32;  // of V, which stay in the first-level cache while the dimensions are walked

void weighted_sum(const float* p, std::size_t heads, std::size_t stride, const std::int8_t* v, std::size_t rows,
                  std::size_t head_dim, float* out) {
  count_call();
  for (std::size_t r = 0; r < rows; r += block_rows)
    sum_rows<true>(p + r, heads, stride, v + r * head_dim, static_cast<std::ptrdiff_t>(head_dim),
                   smaller(rows - r, block_rows), head_dim, out, [](const std::int8_t* at) { return floats_at(at); });
}

// --- Rows to int8 ----------------------------------------------------------------------------------------------------

/// x / columns from i on, four, or the n − i < 4 that there are; the lanes behind them are 0.
inline float32x4_t quotient(const float* x, const float* columns, std::size_t i, std::size_t n) {
  if (n - i >= width) {
    const float32x4_t value = vld1q_f32(x + i);
    return columns == nullptr ? value : vdivq_f32(value, vld1q_f32(columns + i));
  }
  float some[width] = {};
  for (std::size_t j = i; j < n; ++j) some[j - i] = columns == nullptr ? x[j] : x[j] / columns[j];
  return vld1q_f32(some);
}

bool quantizable(const float* x, const float* columns, std::size_t n) {
  count_call();
  const uint32x4_t exponent = vdupq_n_u32(0x7F800000);
  uint32x4_t bad = vdupq_n_u32(0);
  const auto look_at = [&](float32x4_t r) {
    bad = vorrq_u32(bad, vceqq_u32(vandq_u32(vreinterpretq_u32_f32(r), exponent), exponent));
  };
  for (std::size_t i = 0; i < n; i += width) {
    look_at(quotient(x, nullptr, i, n));
    if (columns != nullptr) look_at(quotient(x, columns, i, n));
  }
  return vmaxvq_u32(bad) == 0;
}

/// Halves away from zero, clamped to ±127; FRINTA rounds so.
inline int32x4_t rounded(float32x4_t x) {
  const float32x4_t clamped = vmaxq_f32(vminq_f32(x, vdupq_n_f32(127)), vdupq_n_f32(-127));
  return vcvtq_s32_f32(vrndaq_f32(clamped));
}

void quantize_row(const float* x, const float* columns, std::size_t n, std::size_t group, std::int8_t* q,
                  float* scales) {
  count_call();
  constexpr float smallest_scale = __builtin_bit_cast(float, 0x2B8CBCCC);  // 1e-12
  for (std::size_t begin = 0; begin < n; begin += smaller(group, n - begin)) {
    const std::size_t count = smaller(group, n - begin);
    const float* from = x + begin;
    const float* column = columns == nullptr ? nullptr : columns + begin;
    float32x4_t size = vdupq_n_f32(0);
    for (std::size_t i = 0; i < count; i += width) size = vmaxq_f32(size, vabsq_f32(quotient(from, column, i, count)));
    const float step = vmaxvq_f32(size) / 127.0F;
    const float scale = step > smallest_scale ? step : smallest_scale;
    const float32x4_t all = vdupq_n_f32(scale);
    for (std::size_t i = 0; i < count; i += width) {
      const int16x4_t narrow = vmovn_s32(rounded(vdivq_f32(quotient(from, column, i, count), all)));
      const std::uint32_t bytes = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(narrow, narrow))), 0);
      __builtin_memcpy(q + begin + i, &bytes, smaller(width, count - i));
    }
    *scales++ = scale;
  }
}

}  // namespace

constinit const Int8Kernels neon_int8{scores, weighted_sum, quantizable, quantize_row, calls};

}  // namespace kvcert::optimized::kernels
