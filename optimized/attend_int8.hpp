// Scores and weighted sums over int8 rows: columns and scales of values here, the rest in the int8 kernels.
#pragma once

#include <cstddef>

#include "optimized/kernels/kernels.hpp"
#include "optimized/tensor_rows.hpp"

namespace kvcert::optimized {

/// Floats of scratch that the two functions below need.
std::size_t int8_score_floats(std::size_t queries, std::size_t head_dim);
std::size_t int8_sum_floats(std::size_t head_dim);

/// out[u · stride + r] = Σ_groups of dot(row r's group, that of q_u · columns) · scale_g, each an fma, · scale. As
/// kernels::Table::scores otherwise; rows begin at `first`.
void int8_scores(const kernels::Table& kernel, const float* q, std::size_t queries, const StoredRows& keys,
                 std::size_t first, std::size_t rows, std::size_t head_dim, float scale, float* out, std::size_t stride,
                 float* scratch);

/// p[u · stride + r] becomes p · scale_r; out_u += Σ_r of that weight · row r, by fma, weights of 0 skipped; then out_u
/// · columns. As kernels::Table::weighted_sum otherwise; out starts at +0, rows begin at `first`.
void int8_weighted_sum(const kernels::Table& kernel, float* p, std::size_t queries, std::size_t stride,
                       const StoredRows& values, std::size_t first, std::size_t rows, std::size_t head_dim, float* out,
                       float* scratch);

}  // namespace kvcert::optimized
