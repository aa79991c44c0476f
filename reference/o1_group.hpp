// The O(1) overlay's state of one KV group: exact keys at both ends of the sequence, Nyström landmarks for the rest.
//
// Source: Xiong et al. 2021 (Nyströmformer) for landmarks as segment means; the first keys kept exact: Xiao et al. 2023
// (attention sinks). Order of operations: docs/arithmetic.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kvcert/error.hpp"
#include "kvcert/storage.hpp"

namespace kvcert::reference {

/// Rows 0 … sink−1 stay exact for good. Later rows pass through a ring of w rows; one that leaves it is absorbed, at that
/// very step, into every query head's far field. A snapshot is a copy, and restoring is assigning it.
///
/// A prefill of t ≤ w + sink + 8 rows makes a group that is exact-only: every key, later ones too, stays.
class O1Group {
 public:
  /// Moving copies: a group that was moved from would have no rows. A failed assignment changes nothing.
  O1Group(const O1Group&) = default;
  O1Group& operator=(const O1Group& other);
  ~O1Group() = default;

  /// keys, values [t × HD], queries [t][HPK × HD]. Errors: shape_mismatch, invalid_argument (head_dim or query_heads 0,
  /// landmarks < 4, window < 1, a product of sizes over 2^63 − 1), non_finite (A, the last pivot, M), out_of_memory.
  static Result<O1Group> prefill(const O1Config& config, std::size_t head_dim, std::size_t query_heads,
                                 std::span<const float> keys, std::span<const float> values,
                                 std::span<const float> queries);
  /// Inserts k, v [HD], then answers q [HPK × HD] into out [HPK × HD]. Inputs may be views of this group.
  /// Errors: shape_mismatch, invalid_argument (overlap), out_of_memory.
  Result<void> step(std::span<const float> q, std::span<const float> k, std::span<const float> v, std::span<float> out);

  bool exact_only() const { return state_.exact_only; }
  /// nullopt if exact-only.
  std::optional<O1GroupView> view() const;
  std::size_t query_heads() const { return state_.heads.size(); }
  /// All floats of view()'s spans; exact-only: all keys and values.
  std::uint64_t floats() const;
  bool overlaps(std::span<const float> output) const;

 private:
  struct Head {
    std::vector<float> T;        ///< [m_eff × HD]
    std::vector<float> Z;        ///< [m_eff]
    std::vector<float> mu;       ///< [m_eff]
    std::vector<float> Q_tilde;  ///< [m_eff × HD]
    std::vector<float> M;        ///< [m_eff × m_eff]
  };
  struct State {
    O1Config config;
    std::size_t head_dim = 0;
    float scale = 0;
    bool exact_only = true;
    std::vector<float> sink_keys, sink_values;  ///< [sink × HD]; exact-only: every row
    std::vector<float> ring_keys, ring_values;  ///< [w × HD]; exact-only: empty
    std::size_t ring_length = 0;
    std::size_t ring_head = 0;
    std::size_t m_eff = 0;
    std::vector<float> K_tilde;  ///< [m_eff × HD]
    std::vector<Head> heads;     ///< [HPK]
    std::uint64_t far_count = 0;
  };

  explicit O1Group(State state) : state_(std::move(state)) {}
  static Result<void> seal(State& state, std::span<const float> keys, std::span<const float> queries);
  static void insert(State& state, std::span<const float> k, std::span<const float> v);
  static void absorb(State& state, std::span<const float> k, std::span<const float> v);
  static O1GroupView view_of(const State& state);

  State state_;
};

}  // namespace kvcert::reference
