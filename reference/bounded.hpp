// The bounded anchor's attention: trained sink keys, then a window of rows, each met by the query turned by its distance.
//
// Only distances enter, so keys are stored as they came and a ring never has to turn them again. Sources: Xiao et al. 2023
// (sinks and a window), Su et al. 2021 (rotation).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reference/lanes.hpp"
#include "reference/softmax.hpp"

namespace kvcert::reference {

/// cos(Δ·f)·scale² and sin(Δ·f)·scale² for Δ in [0, window): given numbers, in both arithmetics.
struct RopeEntries {
  std::size_t half = 0;
  std::span<const float> cos{};  ///< [window × half]
  std::span<const float> sin{};  ///< [window × half]
};

/// What one query head of a bounded layer sees.
struct BoundedHead {
  std::span<const float> q;            ///< [HD]
  std::span<const float> sink_keys;    ///< [S × HD]
  std::span<const float> sink_values;  ///< [S × HD]
  std::vector<std::span<const float>> keys;    ///< [HD] each; entry Δ is the row at distance Δ, so the newest is first
  std::vector<std::span<const float>> values;  ///< [HD] each, likewise
  RopeEntries rope;
  float scale;
};

/// x turned by distance Δ: dimension i < half is paired with i + half; dimensions past 2·half stay.
template <class Real>
std::vector<Real> rotated(const std::vector<Real>& x, const RopeEntries& rope, std::size_t delta) {
  std::vector<Real> turned = x;
  for (std::size_t i = 0; i < rope.half; ++i) {
    const Real c = Real::of(rope.cos[delta * rope.half + i]);
    const Real s = Real::of(rope.sin[delta * rope.half + i]);
    const Real x0 = x[i];
    const Real x1 = x[i + rope.half];
    turned[i] = x0 * c - x1 * s;
    turned[i + rope.half] = x0 * s + x1 * c;
  }
  return turned;
}

/// out [HD] = Σ P · value over sinks and window, one softmax over both. Needs at least one sink or row.
template <class Real>
std::vector<Real> attend_bounded(const BoundedHead& head) {
  const std::size_t head_dim = head.q.size();
  const std::size_t sinks = head.sink_keys.size() / head_dim;
  const std::vector<Real> q = loaded<Real>(head.q);
  const Real scale = Real::of(head.scale);

  // 1. Scores [S + window]: sinks meet the query as it is, the row at distance Δ the query turned by Δ.
  std::vector<Real> scores;
  for (std::size_t i = 0; i < sinks; ++i) {
    scores.push_back(dot<Real>(q, head.sink_keys.subspan(i * head_dim, head_dim)) * scale);
  }
  for (std::size_t delta = 0; delta < head.keys.size(); ++delta) {
    scores.push_back(dot<Real>(rotated(q, head.rope, delta), head.keys[delta]) * scale);
  }

  // 2.–5. Probabilities, by the same index: sinks, then newest first.
  const std::vector<Real> probabilities = softmax(scores, 0, std::nullopt);

  // 6. Output.
  std::vector<Real> output(head_dim);  // +0
  for (std::size_t i = 0; i < sinks; ++i) {
    add_row(output, probabilities[i], head.sink_values.subspan(i * head_dim, head_dim));
  }
  for (std::size_t delta = 0; delta < head.values.size(); ++delta) {
    add_row(output, probabilities[sinks + delta], head.values[delta]);
  }
  return output;
}

}  // namespace kvcert::reference
