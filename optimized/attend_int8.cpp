#include "optimized/attend_int8.hpp"

#include <algorithm>

#include "kvcert/storage.hpp"

namespace kvcert::optimized {

static_assert(kernels::int8_group == q8_key_group);

std::size_t int8_score_floats(std::size_t queries, std::size_t head_dim) { return queries * head_dim; }

std::size_t int8_sum_floats(std::size_t) { return 0; }

void int8_scores(const kernels::Table& kernel, const float* q, std::size_t queries, const StoredRows& keys,
                 std::size_t first, std::size_t rows, std::size_t head_dim, float scale, float* out, std::size_t stride,
                 float* scratch) {
  const std::size_t groups = (head_dim - 1) / q8_key_group + 1;
  if (keys.columns != nullptr) {
    for (std::size_t u = 0; u < queries; ++u)
      for (std::size_t d = 0; d < head_dim; ++d) scratch[u * head_dim + d] = q[u * head_dim + d] * keys.columns[d];
    q = scratch;
  }
  kernel.int8->scores(q, queries, keys.q8 + first * head_dim, rows, head_dim, keys.scales + first * groups, scale, out,
                      stride);
}

void int8_weighted_sum(const kernels::Table& kernel, float* p, std::size_t queries, std::size_t stride,
                       const StoredRows& values, std::size_t first, std::size_t rows, std::size_t head_dim, float* out,
                       float*) {
  for (std::size_t u = 0; u < queries; ++u)
    for (std::size_t r = 0; r < rows; ++r) p[u * stride + r] *= values.scales[first + r];
  kernel.int8->weighted_sum(p, queries, stride, values.q8 + first * head_dim, rows, head_dim, out);
  if (values.columns == nullptr) return;
  for (std::size_t u = 0; u < queries; ++u)
    for (std::size_t d = 0; d < head_dim; ++d) out[u * head_dim + d] *= values.columns[d];
}

}  // namespace kvcert::optimized
