// The operator: softmax attention of one query head, written once.
//
// The text is a template over its numbers. Run on Exact it is the mathematics; run on Binary32 it is the canonical
// bits, because every operation is spelled out in the order in which it is to be rounded (docs/arithmetic.md).
//
// Sources. Attention: Vaswani et al. 2017, eq. 1. Query heads that share a KV head: Ainslie et al. 2023 (GQA). A sink,
// one more column of the softmax that has no value: gpt-oss. The soft cap: Gemma 2.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "kvcert/storage.hpp"
#include "reference/lanes.hpp"
#include "reference/q8.hpp"
#include "reference/softmax.hpp"

namespace kvcert::reference {

/// One KV head's keys, or its values: f32 rows, or int8 rows with their scales and columns.
struct Rows {
  std::span<const float> f32{};        ///< [stored × head_dim]; not looked at beside int8
  std::optional<Q8Rows> int8{};
};

/// The rows of one KV head, and which of them are visible: first ≤ p < end. No other row is read.
struct VisibleRows {
  Rows keys;
  Rows values;
  std::size_t head_dim;
  std::size_t first;
  std::size_t end;

  std::size_t count() const { return end - first; }
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

/// One query head over the visible rows of its KV head: out = Σ_p P_p · v_p, P the softmax of scores and sink.
/// Needs at least one visible row.
template <class Real>
HeadAnswer<Real> attend(const HeadQuery& query, const VisibleRows& rows) {
  const auto& [keys, values, head_dim, first, end] = rows;
  std::vector<Real> q = loaded<Real>(query.q);  // [head_dim]
  if (keys.int8) q = times_columns(std::move(q), keys.int8->columns);

  // 1. Scores [visible]: s_p = scale · ⟨q, k_p⟩, then softly capped: s_p = c · tanh(s_p / c).
  std::vector<Real> scores;
  for (std::size_t p = first; p < end; ++p) {
    const Real product = keys.int8 ? q8_product<Real>(q, *keys.int8, p)
                                   : dot<Real>(q, keys.f32.subspan(p * head_dim, head_dim));
    Real s = product * Real::of(query.scale);
    if (query.softcap) {
      const Real c = Real::of(*query.softcap);
      s = c * tanh(s / c);
    }
    scores.push_back(s);
  }

  // 2.–5. Probabilities [visible]: P = softmax(s), with the sink as one more column.
  std::vector<Real> probabilities = softmax(scores, first, query.sink);

  // 6. Output [head_dim]: Σ_p P_p · v_p, rows ascending.
  std::vector<Real> output(head_dim);  // +0
  for (std::size_t p = first; p < end; ++p) {
    if (values.int8) {
      add_q8_row(output, probabilities[p - first], *values.int8, p);
    } else {
      add_row(output, probabilities[p - first], values.f32.subspan(p * head_dim, head_dim));
    }
  }
  if (values.int8) output = times_columns(std::move(output), values.int8->columns);
  return {std::move(output), std::move(probabilities)};
}

/// The scale models use, in the two roundings it is made of: RN(1 / RN(√head_dim)). `round` rounds to binary32.
template <class Real, class Round>
Real default_scale(std::size_t head_dim, Round round) {
  return round(Real::one() / round(Real::root_of(head_dim)));
}

}  // namespace kvcert::reference
