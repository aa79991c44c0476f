// The operator over plain spans, once in each arithmetic: what a judge compares an engine's answer with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvcert/geometry.hpp"
#include "kvcert/query.hpp"
#include "kvcert/storage.hpp"
#include "reference/attend.hpp"
#include "reference/bounded.hpp"

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
/// keys, values [stored × head_dim] of query.kv_head's rows, each f32 or int8 (whose values, scales and columns are what is
/// given; the exact value is that of the real numbers they stand for); rows = min(stored, upto). Arguments are as a LayerCache
/// would accept them (query.kv_head is not looked at); what does not fit is cut short and never read past: a partial
/// row or query head does not count, and heads without a sink logit have no sink. Throws std::bad_alloc.
GroupAnswer canonical_attend_group(const Query& query, const Rows& keys, const Rows& values, std::size_t head_dim,
                                   std::size_t upto);
GroupAnswer canonical_attend_group(const Query& query, std::span<const float> keys, std::span<const float> values,
                                   std::size_t head_dim, std::size_t upto);

/// The real numbers, each rounded to binary32 once; an exact 0 is +0. Same shapes.
///
/// nullopt outside the exact domain: q, scale, softcap (≥ 0) and visible k and v (int8: their scales, and the columns)
/// finite, sinks finite or −∞ (= absent). Hidden rows may hold anything. Throws std::bad_alloc.
std::optional<GroupAnswer> exact_attend_group(const Query& query, const Rows& keys, const Rows& values,
                                              std::size_t head_dim, std::size_t upto);
std::optional<GroupAnswer> exact_attend_group(const Query& query, std::span<const float> keys,
                                              std::span<const float> values, std::size_t head_dim, std::size_t upto);

/// The scale models use, RN(1 / RN(√head_dim)) in binary32; +∞ for 0. It is this number in both arithmetics.
/// canonical_: both roundings by Binary32. exact_: both by enclosing the real number until its rounding is decided.
float canonical_default_scale(std::size_t head_dim);
float exact_default_scale(std::size_t head_dim);

/// The output of some query heads, without probabilities.
struct OutputAnswer {
  std::vector<float> output;  ///< [heads × head_dim]
  std::uint64_t ties = 0;     ///< as GroupAnswer's
};

// --- The bounded anchor (evaluate_bounded.cpp) ------------------------------------------------------------------------

/// A bounded layer's ring as it stands after the step's row was written.
struct BoundedWindow {
  Geometry geometry;
  std::size_t window = 0;           ///< W
  std::uint64_t position = 0;       ///< T after the step: position T − 1 is the newest row
  std::span<const float> keys{};    ///< [KVH][W][HD]
  std::span<const float> values{};  ///< [KVH][W][HD]
};

/// What its query heads ask.
struct BoundedQuery {
  std::span<const float> q{};  ///< [NH × HD]
  std::size_t query_heads = 0;
  BoundedSinks sinks{};
  RopeEntries rope{};
  float scale = 1.0F;
};

/// Every query head over the sinks and the last min(T, W) rows. Arguments are as bounded_step accepts them; anything else
/// gets an empty answer. Exact: entries of the rope table are given numbers; nullopt unless q, scale, the entries, sinks and
/// visible rows are finite.
OutputAnswer canonical_bounded(const BoundedQuery& query, const BoundedWindow& ring);
std::optional<OutputAnswer> exact_bounded(const BoundedQuery& query, const BoundedWindow& ring);

// --- The O(1) overlay (evaluate_o1.cpp) --------------------------------------------------------------------------------

/// One group's query heads, q [HPK × HD], over the state after this step's row was inserted (and another absorbed). As many
/// heads answer as both have. A view that contradicts itself gets an empty answer.
///
/// Exact: the state is given numbers, and the far field is dropped where its real mass is not positive, so outside
/// exact-only mode it is shown for readers and no judge of an engine: the canonical mass may have the other sign. nullopt
/// unless q, scale and all that is read are finite, or where 2048 bits do not tell the sign.
OutputAnswer canonical_o1_decode(std::span<const float> q, const O1GroupView& after);
std::optional<OutputAnswer> exact_o1_decode(std::span<const float> q, const O1GroupView& after);

/// The view of an exact-only group: keys, values [t × head_dim] in sequence order, `heads` query heads, default scale.
O1GroupView exact_only_view(std::span<const float> keys, std::span<const float> values, std::size_t head_dim,
                            std::size_t heads);

/// How well a sealed head's M solves (AᵀA + λI)·M = Aᵀ.
struct SealResidual {
  double residual = 0;  ///< |(AᵀA + λI)M − Aᵀ| at the entry where it is largest against its bound, rounded up
  double bound = 0;     ///< what rounding explains there: docs/arithmetic.md derives it
  int retries = 0;      ///< how often λ grew tenfold, as far as M tells: the number that fits best
  bool within = false;  ///< every entry is within its bound, decided on enclosures
};

/// Judges query head `head` of a group sealed from keys [t × HD] and that head's queries [t × HD]: A and λ from these as
/// real numbers (intervals of 513 bits), M as the view has it. nullopt for inputs that are not finite, for M not finite,
/// and where shapes do not fit.
std::optional<SealResidual> seal_residual(std::span<const float> keys, std::span<const float> queries,
                                          const O1GroupView& view, std::size_t head);

}  // namespace kvcert::reference
