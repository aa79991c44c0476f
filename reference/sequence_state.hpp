// What a layer remembers of a sequence: everything that snapshots copy, and more than records carry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvcert/geometry.hpp"
#include "reference/attend.hpp"
#include "reference/o1_group.hpp"
#include "reference/ring.hpp"

namespace kvcert::reference {

/// One KV head's keys, or its values. By the layer's mode rows are f32, or int8 with scales; the other vectors are empty.
struct StoredRows {
  std::vector<float> f32;          ///< [rows × HD]
  std::vector<std::int8_t> int8;   ///< [rows × HD]
  std::vector<float> scales;       ///< [rows × groups]
  std::vector<float> columns;      ///< [HD] once frozen; a head that was dead then has none, and every column is 1

  std::size_t elements() const { return f32.size() + int8.size(); }
  Q8Rows view() const { return {int8, scales, columns}; }
};

inline bool int8_keys(KvMode mode) { return mode == KvMode::q8 || mode == KvMode::q8_keys; }
inline bool int8_values(KvMode mode) { return mode == KvMode::q8 || mode == KvMode::q8_values; }

/// One KV head's rows, [position][head_dim] each. None in a dead head.
struct HeadRows {
  StoredRows keys;
  StoredRows values;
};

/// The O(1) overlay: first a trace of queries beside the exact rows, then one group per KV head in place of them.
struct O1Overlay {
  enum class Phase : std::uint8_t { none, collecting, sealed, aborted };
  Phase phase = Phase::none;
  O1Config config;
  std::size_t query_heads = 0;  ///< NH; 0 = undecided
  std::vector<float> trace;     ///< [positions][NH × HD], while collecting
  std::vector<O1Group> groups;  ///< [num_kv_heads], once sealed
};

struct SequenceState {
  std::uint64_t seq_len = 0;         ///< T, positions appended and not taken back
  std::vector<std::uint8_t> alive;   ///< [num_kv_heads] of 0 and 1; means nothing while T = 0
  std::vector<HeadRows> heads;       ///< [num_kv_heads]
  std::vector<float> importance;     ///< [T] in layers of kind full, attention mass per position
  KvMode mode = KvMode::f32;         ///< how rows are stored
  bool frozen = false;               ///< whether the column fields of int8 rows are fixed
  std::vector<float> linear_state;   ///< the recurrent vector, any length; has no positions
  std::optional<std::vector<float>> linear_scratch;  ///< its tentative successor
  O1Overlay o1;
  std::optional<Ring> ring;  ///< in layers of kind bounded
};

/// A fresh sequence. Throws std::bad_alloc, or std::length_error for more heads than a vector may hold.
inline SequenceState empty_state(std::size_t num_kv_heads) {
  SequenceState state;
  state.heads.resize(num_kv_heads);
  state.alive.resize(num_kv_heads, 1);
  return state;
}

}  // namespace kvcert::reference
