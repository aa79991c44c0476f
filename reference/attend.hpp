// The operator: softmax attention of one query head, written once.
//
// The text is a template over its numbers. Run on Exact it is the mathematics; run on Binary32 it is the canonical
// bits, because every operation is spelled out in the order in which it is to be rounded (docs/arithmetic.md).
//
// Sources. Attention: Vaswani et al. 2017, eq. 1. Query heads that share a KV head: Ainslie et al. 2023 (GQA). A sink,
// one more column of the softmax that has no value: gpt-oss. The soft cap: Gemma 2.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace kvcert::reference {

/// The rows of one KV head, and which of them are visible: first ≤ p < end. No other row is read.
struct VisibleRows {
  std::span<const float> keys;    ///< [stored × head_dim]
  std::span<const float> values;  ///< [stored × head_dim]
  std::size_t head_dim;
  std::size_t first;
  std::size_t end;

  std::size_t count() const { return end - first; }
  std::span<const float> key(std::size_t p) const { return keys.subspan(p * head_dim, head_dim); }
  std::span<const float> value(std::size_t p) const { return values.subspan(p * head_dim, head_dim); }
};

/// What one query head asks.
struct HeadQuery {
  std::span<const float> q;  ///< [head_dim]
  float scale;
  std::optional<float> softcap;  ///< absent = off
  std::optional<float> sink;     ///< absent = no sink
};

/// What it is told.
template <class Real>
struct HeadAnswer {
  std::vector<Real> output;         ///< [head_dim]
  std::vector<Real> probabilities;  ///< [visible rows], ascending
};

/// Sixteen partial sums, so that vector units of any width up to 16 add in the same order: term i is for lane i mod 16.
template <class Real>
class Lanes {
 public:
  Real& operator[](std::size_t i) { return lane_[i % width]; }

  /// The upper half is added to the lower half until one lane is left. All lanes take part, those still +0 as well.
  Real fold() {
    for (std::size_t half = width / 2; half != 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) lane_[i] = lane_[i] + lane_[i + half];
    }
    return lane_[0];
  }

 private:
  static constexpr std::size_t width = 16;
  std::array<Real, width> lane_{};  // +0
};

/// ⟨a, b⟩ of a [n] and b [n].
template <class Real>
Real dot(std::span<const Real> a, std::span<const float> b) {
  Lanes<Real> sum;
  for (std::size_t j = 0; j < a.size(); ++j) sum[j] = fma(a[j], Real::of(b[j]), sum[j]);
  return sum.fold();
}

/// One query head over the visible rows of its KV head: out = Σ_p P_p · v_p, P the softmax of scores and sink.
/// Needs at least one visible row.
template <class Real>
HeadAnswer<Real> attend(const HeadQuery& query, const VisibleRows& rows) {
  const std::size_t first = rows.first;
  const std::vector<Real> q = [&] {  // [head_dim]
    std::vector<Real> loaded;
    for (const float element : query.q) loaded.push_back(Real::of(element));
    return loaded;
  }();

  // 1. Scores [visible]: s_p = scale · ⟨q, k_p⟩, then softly capped: s_p = c · tanh(s_p / c).
  std::vector<Real> scores;
  for (std::size_t p = first; p < rows.end; ++p) {
    Real s = dot<Real>(q, rows.key(p)) * Real::of(query.scale);
    if (query.softcap) {
      const Real c = Real::of(*query.softcap);
      s = c * tanh(s / c);
    }
    scores.push_back(s);
  }

  // 2. Their maximum m, the sink among them. Subtracted from all it changes no probability, and nothing overflows.
  Real m = Real::minus_infinity();
  for (const Real& s : scores) m = maximum(m, s);
  if (query.sink) m = maximum(m, Real::of(*query.sink));

  // 3. Weights [visible]: e_p = exp(s_p − m).
  std::vector<Real> weights;
  for (const Real& s : scores) weights.push_back(exp(s - m));

  // 4. Their sum, by lanes of the row's own index: a hidden row is one that adds nothing to its lane. The sink adds its
  //    weight here and nowhere else: it takes probability away from the rows and has no value to give.
  Lanes<Real> sum;
  for (std::size_t p = first; p < rows.end; ++p) sum[p] = sum[p] + weights[p - first];
  Real denominator = sum.fold();
  if (query.sink) denominator = denominator + exp(Real::of(*query.sink) - m);

  // 5. Probabilities [visible]: P_p = e_p / Σ.
  std::vector<Real> probabilities;
  for (const Real& e : weights) probabilities.push_back(e / denominator);

  // 6. Output [head_dim]: Σ_p P_p · v_p, rows ascending.
  std::vector<Real> output(rows.head_dim);  // +0
  for (std::size_t p = first; p < rows.end; ++p) {
    const Real& probability = probabilities[p - first];
    if (!contributes(probability)) continue;
    const std::span<const float> v = rows.value(p);
    for (std::size_t d = 0; d < rows.head_dim; ++d) output[d] = fma(probability, Real::of(v[d]), output[d]);
  }
  return {output, probabilities};
}

/// The scale models use, in the two roundings it is made of: RN(1 / RN(√head_dim)). `round` rounds to binary32.
template <class Real, class Round>
Real default_scale(std::size_t head_dim, Round round) {
  return round(Real::one() / round(Real::root_of(head_dim)));
}

}  // namespace kvcert::reference
