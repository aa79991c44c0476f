// The operator over plain spans, once in each arithmetic: what a judge compares an engine's answer with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvcert/query.hpp"

namespace kvcert::reference {

/// What n query heads of one KV group get. The floats only carry bit patterns; no hardware operation made them.
struct GroupAnswer {
  std::vector<float> output;         ///< [n × head_dim]; +0 where no row is visible
  std::vector<float> probabilities;  ///< [n × visible], visible = rows − first, rows ascending
  std::size_t first = 0;             ///< visible rows are [first, rows)
  std::size_t rows = 0;
  std::uint64_t ties = 0;  ///< exact only: entries that no precision decided, taken as the midpoint, to even
};

/// The canonical bits (docs/arithmetic.md): every operation rounded to binary32. Any bits are welcome anywhere.
///
/// keys, values [stored × head_dim] of query.kv_head's rows; rows = min(stored, upto). Arguments are as a LayerCache
/// would accept them (query.kv_head is not looked at); what does not fit is cut short and never read past: a partial
/// row or query head does not count, and heads without a sink logit have no sink. Throws std::bad_alloc.
GroupAnswer canonical_attend_group(const Query& query, std::span<const float> keys, std::span<const float> values,
                                   std::size_t head_dim, std::size_t upto);

/// The real numbers, each rounded to binary32 once; an exact 0 is +0. Same shapes.
///
/// nullopt outside the exact domain: q, scale, softcap and visible k and v finite (softcap ≥ 0), sinks finite or −∞
/// (= absent). Hidden rows may hold anything. Throws std::bad_alloc.
std::optional<GroupAnswer> exact_attend_group(const Query& query, std::span<const float> keys,
                                              std::span<const float> values, std::size_t head_dim, std::size_t upto);

/// The scale models use, RN(1 / RN(√head_dim)) in binary32; +∞ for 0. It is this number in both arithmetics.
/// canonical_: both roundings by Binary32. exact_: both by enclosing the real number until its rounding is decided.
float canonical_default_scale(std::size_t head_dim);
float exact_default_scale(std::size_t head_dim);

}  // namespace kvcert::reference
