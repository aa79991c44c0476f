// What the NEON units share: a part of each of them, with internal linkage throughout, and of no other unit.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

// Loops over registers must vanish, or g++ keeps the registers in memory.
#define KVCERT_UNROLL _Pragma("GCC unroll 16")

namespace kvcert::optimized::kernels {
namespace {

constexpr std::size_t width = 4;  // floats in a register
constexpr int quarters = 4;       // registers for the 16 lanes

inline std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

/// Lane i += i+8, i+4, i+2, i+1.
inline float fold(const float32x4_t (&lane)[quarters]) {
  const float32x4_t four = vaddq_f32(vaddq_f32(lane[0], lane[2]), vaddq_f32(lane[1], lane[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/// Fewer than 16 elements at the row's end, lane by lane; a lane without one keeps its value.
inline void fma_rest(const float* q, const float* k, std::size_t n, float32x4_t (&lane)[quarters]) {
  float each[16];
  KVCERT_UNROLL for (int i = 0; i < quarters; ++i) vst1q_f32(each + 4 * i, lane[i]);
  for (std::size_t i = 0; i < n; ++i) each[i] = __builtin_fmaf(q[i], k[i], each[i]);
  KVCERT_UNROLL for (int i = 0; i < quarters; ++i) lane[i] = vld1q_f32(each + 4 * i);
}

/// W registers of dimensions for H heads over rows that lie `step` apart: values(p) loads one register. `skips` rows of
/// weight 0, head by head.
template <int H, int W, bool skips, class T, class Values>
inline void sum_strip(const float* p, std::size_t stride, const T* v, std::ptrdiff_t step, std::size_t rows,
                      std::size_t head_dim, float* out, Values values) {
  float32x4_t sum[H][W];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      sum[h][w] = vld1q_f32(out + static_cast<std::size_t>(h) * head_dim + w * 4);
  for (std::size_t r = 0; r < rows; ++r) {
    const T* row = v + static_cast<std::ptrdiff_t>(r) * step;
    float32x4_t value[W];
    KVCERT_UNROLL for (int w = 0; w < W; ++w) value[w] = values(row + w * 4);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const float weight = p[static_cast<std::size_t>(h) * stride + r];
      if (skips && weight == 0) continue;
      KVCERT_UNROLL for (int w = 0; w < W; ++w) sum[h][w] = vfmaq_n_f32(sum[h][w], value[w], weight);
    }
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      vst1q_f32(out + static_cast<std::size_t>(h) * head_dim + w * 4, sum[h][w]);
}

template <int H, bool skips, class T, class Values>
inline void sum_heads(const float* p, std::size_t stride, const T* v, std::ptrdiff_t step, std::size_t rows,
                      std::size_t head_dim, float* out, Values values) {
  std::size_t d = 0;
  for (; d + 16 <= head_dim; d += 16) sum_strip<H, 4, skips>(p, stride, v + d, step, rows, head_dim, out + d, values);
  for (; d < head_dim; ++d)
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t r = 0; r < rows; ++r) {
        const float weight = p[h * stride + r];
        if (skips && weight == 0) continue;
        float& sum = out[h * head_dim + d];
        sum = __builtin_fmaf(weight, static_cast<float>(v[static_cast<std::ptrdiff_t>(r) * step + static_cast<std::ptrdiff_t>(d)]), sum);
      }
}

/// All heads, in fours that share the loads of a row.
template <bool skips, class T, class Values>
inline void sum_rows(const float* p, std::size_t heads, std::size_t stride, const T* v, std::ptrdiff_t step,
                     std::size_t rows, std::size_t head_dim, float* out, Values values) {
  for (std::size_t h = 0; h < heads; h += 4) {
    const float* weights = p + h * stride;
    float* sums = out + h * head_dim;
    switch (heads - h) {
      case 1: sum_heads<1, skips>(weights, stride, v, step, rows, head_dim, sums, values); break;
      case 2: sum_heads<2, skips>(weights, stride, v, step, rows, head_dim, sums, values); break;
      case 3: sum_heads<3, skips>(weights, stride, v, step, rows, head_dim, sums, values); break;
      default: sum_heads<4, skips>(weights, stride, v, step, rows, head_dim, sums, values); break;
    }
  }
}

inline float32x4_t floats_at(const float* p) { return vld1q_f32(p); }

}  // namespace
}  // namespace kvcert::optimized::kernels
