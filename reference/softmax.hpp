// From scores to probabilities: the part that every attention here shares.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "reference/lanes.hpp"

namespace kvcert::reference {

/// P_i = e^(s_i) / (Σ_r e^(s_r) + e^σ) for scores [n]. scores[0] belongs to index `first`. A sink σ is one more column
/// that has no probability to report.
template <class Real>
std::vector<Real> softmax(const std::vector<Real>& scores, std::size_t first, const std::optional<float>& sink) {
  // 2. The maximum m, the sink among them. Subtracted from all it changes no probability, and nothing overflows.
  Real m = Real::minus_infinity();
  for (const Real& s : scores) m = maximum(m, s);
  if (sink) m = maximum(m, Real::of(*sink));

  // 3. Weights [n]: e_p = exp(s_p − m).
  std::vector<Real> weights;
  for (const Real& s : scores) weights.push_back(exp(s - m));

  // 4. Their sum, by lanes of the row's own index, so that it does not depend on where the window starts. The sink adds
  //    its weight here and nowhere else: it takes probability away from the rows and has no value to give.
  Lanes<Real> sum;
  for (std::size_t i = 0; i < weights.size(); ++i) sum[first + i] = sum[first + i] + weights[i];
  Real denominator = sum.fold();
  if (sink) denominator = denominator + exp(Real::of(*sink) - m);

  // 5. Probabilities [n]: P_p = e_p / Σ.
  std::vector<Real> probabilities;
  for (const Real& e : weights) probabilities.push_back(e / denominator);
  return probabilities;
}

/// sum [head_dim] += P · v. A row that does not contribute is skipped, for there 0 · ∞ would be NaN.
template <class Real>
void add_row(std::vector<Real>& sum, const Real& probability, std::span<const float> v) {
  if (!contributes(probability)) return;
  for (std::size_t d = 0; d < sum.size(); ++d) sum[d] = fma(probability, Real::of(v[d]), sum[d]);
}

}  // namespace kvcert::reference
