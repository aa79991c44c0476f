// The accuracy bound for int8 rows and for the bounded anchor: the terms that docs/arithmetic.md adds for them, with the
// parameters of the canonical order. bound.hpp has the bound of f32 attention, for engines of any parameters.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "certify/bound.hpp"
#include "kvcert/storage.hpp"

namespace kvcert::certify {

/// One tensor's visible rows: int8 with scales and columns where `int8` is given, else f32 [n × HD].
struct StoredRows {
  std::span<const float> f32{};
  std::optional<Q8Rows> int8{};
};

/// One query head over its visible rows, keys or values or both int8. All numbers are taken as given.
struct Int8Input {
  std::span<const float> q;  ///< [HD]
  StoredRows keys, values;   ///< visible rows only
  float scale = 1, softcap = 0;
  std::optional<float> sink{};  ///< −∞ counts as absent
};

/// One query head of a bounded layer. Entry Δ of keys and values is the row at distance Δ, so the newest is first.
struct BoundedInput {
  std::span<const float> q;                         ///< [HD]
  std::span<const float> sink_keys, sink_values;    ///< [S × HD]
  std::vector<std::span<const float>> keys, values; ///< [HD] each
  std::span<const float> cos, sin;                  ///< the rope's table, [window × half]
  std::size_t half = 0;
  float scale = 1;
};

/// As evaluate_bound. Not covered too: a case in which an operation that int8 storage adds, or a weight, may be subnormal,
/// because the derivation has no terms for that.
HeadBound evaluate_int8_bound(const Int8Input& input, std::span<const float> output = {});
HeadBound evaluate_bounded_bound(const BoundedInput& input, std::span<const float> output = {});

}  // namespace kvcert::certify
