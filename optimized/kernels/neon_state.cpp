// NEON kernels of the ring and of the O(1) state.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/kernels/neon_lanes.hpp"

namespace kvcert::optimized::kernels {
namespace {

/// The turn that a query takes.
struct Turn {
  const float* cos;
  const float* sin;
  std::size_t half;
};

/// Element j of q, turned.
inline float turned_one(const float* q, Turn turn, std::size_t j) {
  const std::size_t i = j - turn.half;
  if (j < turn.half) return q[j] * turn.cos[j] - q[j + turn.half] * turn.sin[j];
  if (j < 2 * turn.half) return q[i] * turn.sin[i] + q[j] * turn.cos[i];
  return q[j];
}

/// Elements j … j + 3, j a multiple of 4, all in the row.
inline float32x4_t turned(const float* q, Turn turn, std::size_t j) {
  if (turn.half % width != 0) {
    float x[width];
    for (std::size_t i = 0; i < width; ++i) x[i] = turned_one(q, turn, j + i);
    return vld1q_f32(x);
  }
  const std::size_t i = j - turn.half;
  if (j < turn.half)
    return vsubq_f32(vmulq_f32(vld1q_f32(q + j), vld1q_f32(turn.cos + j)),
                     vmulq_f32(vld1q_f32(q + j + turn.half), vld1q_f32(turn.sin + j)));
  if (j < 2 * turn.half)
    return vaddq_f32(vmulq_f32(vld1q_f32(q + i), vld1q_f32(turn.sin + i)),
                     vmulq_f32(vld1q_f32(q + j), vld1q_f32(turn.cos + i)));
  return vld1q_f32(q + j);
}

inline float turned_dot(const float* q, Turn turn, const float* k, std::size_t head_dim) {
  float32x4_t lane[quarters];
  KVCERT_UNROLL for (int i = 0; i < quarters; ++i) lane[i] = vdupq_n_f32(0);
  std::size_t j = 0;
  for (; j + lanes <= head_dim; j += lanes)
    KVCERT_UNROLL for (std::size_t i = 0; i < quarters; ++i)
        lane[i] = vfmaq_f32(lane[i], turned(q, turn, j + 4 * i), vld1q_f32(k + j + 4 * i));
  if (j < head_dim) {
    float rest[lanes];
    for (std::size_t i = j; i < head_dim; ++i) rest[i - j] = turned_one(q, turn, i);
    fma_rest(rest, k + j, head_dim - j, lane);
  }
  return fold(lane);
}

void rotated_scores(const float* q, std::size_t heads, const float* k, std::ptrdiff_t step, std::size_t rows,
                    std::size_t head_dim, Rotation rotation, float scale, float* out, std::size_t stride) {
  count_call();
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = k + static_cast<std::ptrdiff_t>(r) * step;
    const Turn turn{rotation.cos + r * rotation.half, rotation.sin + r * rotation.half, rotation.half};
    for (std::size_t h = 0; h < heads; ++h)
      out[h * stride + r] = turned_dot(q + h * head_dim, turn, row, head_dim) * scale;
  }
}

void stepped_sum(const float* p, std::size_t heads, std::size_t stride, const float* v, std::ptrdiff_t step,
                 std::size_t rows, std::size_t head_dim, float* out) {
  count_call();
  sum_rows<true>(p, heads, stride, v, step, rows, head_dim, out, [](const float* at) { return floats_at(at); });
}

void fma_rows(const float* w, const float* row, std::size_t rows, std::size_t n, float* sum) {
  count_call();
  sum_rows<false>(w, 1, rows, row, static_cast<std::ptrdiff_t>(n), rows, n, sum,
                  [](const float* at) { return floats_at(at); });
}

}  // namespace

constinit const StateKernels neon_state{rotated_scores, stepped_sum, fma_rows, calls};

}  // namespace kvcert::optimized::kernels
