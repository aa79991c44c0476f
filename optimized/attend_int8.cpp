#include "optimized/attend_int8.hpp"

#include <algorithm>
#include <cstdint>

#include "kvcert/storage.hpp"
#include "optimized/fused.hpp"

namespace kvcert::optimized {
namespace {

constexpr std::size_t score_block = 64;    // rows of one key group that become floats together
constexpr std::size_t sum_floats = 8192;   // of a block of value rows, unless one row is longer

std::size_t sum_block(std::size_t head_dim) { return std::max<std::size_t>(1, sum_floats / head_dim); }

/// `rows` pieces of n values, `from` each from_stride apart, densely.
void to_floats(const std::int8_t* from, std::size_t from_stride, std::size_t rows, std::size_t n, float* to) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < n; ++i) to[r * n + i] = static_cast<float>(from[r * from_stride + i]);
}

}  // namespace

std::size_t int8_score_floats(std::size_t queries, std::size_t head_dim) {
  return queries * head_dim + score_block * q8_key_group + queries * score_block;
}

std::size_t int8_sum_floats(std::size_t head_dim) { return sum_block(head_dim) * head_dim; }

void int8_scores(const kernels::Table& kernel, const float* q, std::size_t queries, const StoredRows& keys,
                 std::size_t first, std::size_t rows, std::size_t head_dim, float scale, float* out, std::size_t stride,
                 float* scratch) {
  const std::size_t groups = (head_dim - 1) / q8_key_group + 1;
  float* query = scratch;                                // [groups][queries × group]: q · columns, once for all rows
  float* block = query + queries * head_dim;             // [score_block × group]
  float* dots = block + score_block * q8_key_group;      // [queries × score_block]
  for (std::size_t d = 0; d < head_dim; ++d) {
    const std::size_t begin = d / q8_key_group * q8_key_group;
    const std::size_t width = std::min(q8_key_group, head_dim - begin);
    for (std::size_t u = 0; u < queries; ++u) {
      const float x = q[u * head_dim + d];
      query[begin * queries + u * width + (d - begin)] = keys.columns == nullptr ? x : x * keys.columns[d];
    }
  }
  for (std::size_t r = 0; r < rows; r += score_block) {
    const std::size_t count = std::min(score_block, rows - r);
    for (std::size_t u = 0; u < queries; ++u) std::fill_n(out + u * stride + r, count, 0.0F);
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t begin = g * q8_key_group;
      const std::size_t width = std::min(q8_key_group, head_dim - begin);
      to_floats(keys.q8 + (first + r) * head_dim + begin, head_dim, count, width, block);
      // · 1 changes nothing.
      kernel.scores(query + begin * queries, queries, block, count, width, 1.0F, dots, score_block);
      const float* scales = keys.scales + (first + r) * groups + g;
      for (std::size_t u = 0; u < queries; ++u)
        for (std::size_t i = 0; i < count; ++i) {
          float& sum = out[u * stride + r + i];
          sum = fused(dots[u * score_block + i], scales[i * groups], sum);
        }
    }
    for (std::size_t u = 0; u < queries; ++u)
      for (std::size_t i = 0; i < count; ++i) out[u * stride + r + i] *= scale;
  }
}

void int8_weighted_sum(const kernels::Table& kernel, float* p, std::size_t queries, std::size_t stride,
                       const StoredRows& values, std::size_t first, std::size_t rows, std::size_t head_dim, float* out,
                       float* scratch) {
  const std::size_t block = sum_block(head_dim);
  for (std::size_t r = 0; r < rows; r += block) {
    const std::size_t count = std::min(block, rows - r);
    for (std::size_t u = 0; u < queries; ++u)
      for (std::size_t i = 0; i < count; ++i) p[u * stride + r + i] *= values.scales[first + r + i];
    to_floats(values.q8 + (first + r) * head_dim, head_dim, count, head_dim, scratch);
    kernel.weighted_sum(p + r, queries, stride, scratch, count, head_dim, out);
  }
  if (values.columns == nullptr) return;
  for (std::size_t u = 0; u < queries; ++u)
    for (std::size_t d = 0; d < head_dim; ++d) out[u * head_dim + d] *= values.columns[d];
}

}  // namespace kvcert::optimized
