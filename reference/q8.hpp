// Attending int8 rows without making them f32 first: the scale of a group leaves the sum, and so does the column field.
//
// A stored element is x̂_d = q_d · s_group · col_d, so ⟨query, x̂⟩ = Σ_groups s_g · ⟨(query ⊙ col)_g, q_g⟩ and
// Σ_p P_p · x̂_p = col ⊙ Σ_p (P_p · s_p) q_p. Quantizing, and why a column field: q8_store.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kvcert/storage.hpp"
#include "reference/lanes.hpp"

namespace kvcert::reference {

/// x ⊙ col; x itself before columns are frozen, when each of them is 1.
template <class Real>
std::vector<Real> times_columns(std::vector<Real> x, std::span<const float> columns) {
  for (std::size_t d = 0; d < columns.size(); ++d) x[d] = x[d] * Real::of(columns[d]);
  return x;
}

/// Σ_groups s_g · ⟨q_g, k_g⟩ for int8 row p. q [head_dim] is the query times the columns.
template <class Real>
Real q8_product(std::span<const Real> q, const Q8Rows& keys, std::size_t p) {
  const std::size_t head_dim = q.size();
  const std::size_t groups = (head_dim + q8_key_group - 1) / q8_key_group;
  const auto row = keys.values.subspan(p * head_dim, head_dim);
  const auto scales = keys.scales.subspan(p * groups, groups);
  Real sum;  // +0
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t from = g * q8_key_group;
    const std::size_t size = std::min(q8_key_group, head_dim - from);
    sum = fma(dot<Real>(q.subspan(from, size), row.subspan(from, size)), Real::of(scales[g]), sum);
  }
  return sum;
}

/// sum [head_dim] += P · s_p · (int8 row p), the columns still to come.
template <class Real>
void add_q8_row(std::vector<Real>& sum, const Real& probability, const Q8Rows& values, std::size_t p) {
  const Real weight = probability * Real::of(values.scales[p]);
  if (!contributes(weight)) return;
  const auto row = values.values.subspan(p * sum.size(), sum.size());
  for (std::size_t d = 0; d < sum.size(); ++d) sum[d] = fma(weight, Real::integer(row[d]), sum[d]);
}

}  // namespace kvcert::reference
