// Portable kernels of the ring and of the O(1) state.
#include <cstddef>
#include <cstdint>

#include "optimized/fused.hpp"
#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

/// Element j of q, turned.
float turned(const float* q, const float* cos, const float* sin, std::size_t half, std::size_t j) {
  if (j < half) return q[j] * cos[j] - q[j + half] * sin[j];
  if (j < 2 * half) return q[j - half] * sin[j - half] + q[j] * cos[j - half];
  return q[j];
}

void rotated_scores(const float* q, std::size_t heads, const float* k, std::ptrdiff_t step, std::size_t rows,
                    std::size_t head_dim, Rotation rotation, float scale, float* out, std::size_t stride) {
  count_call();
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = k + static_cast<std::ptrdiff_t>(r) * step;
    const float* cos = rotation.cos + r * rotation.half;
    const float* sin = rotation.sin + r * rotation.half;
    for (std::size_t h = 0; h < heads; ++h) {
      float lane[lanes] = {};
      for (std::size_t j = 0; j < head_dim; ++j)
        lane[j % lanes] = fused(turned(q + h * head_dim, cos, sin, rotation.half, j), row[j], lane[j % lanes]);
      for (std::size_t half = lanes / 2; half != 0; half /= 2)
        for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
      out[h * stride + r] = lane[0] * scale;
    }
  }
}

void stepped_sum(const float* p, std::size_t heads, std::size_t stride, const float* v, std::ptrdiff_t step,
                 std::size_t rows, std::size_t head_dim, float* out) {
  count_call();
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = v + static_cast<std::ptrdiff_t>(r) * step;
    for (std::size_t h = 0; h < heads; ++h) {
      const float weight = p[h * stride + r];
      if (weight == 0) continue;
      float* sum = out + h * head_dim;
      for (std::size_t d = 0; d < head_dim; ++d) sum[d] = fused(weight, row[d], sum[d]);
    }
  }
}

void fma_rows(const float* w, const float* row, std::size_t rows, std::size_t n, float* sum) {
  count_call();
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t d = 0; d < n; ++d) sum[d] = fused(w[r], row[r * n + d], sum[d]);
}

}  // namespace

constinit const StateKernels scalar_state{rotated_scores, stepped_sum, fma_rows, calls};

}  // namespace kvcert::optimized::kernels
