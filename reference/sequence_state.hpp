// What a full f32 layer remembers of a sequence: everything that snapshots copy and records carry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvcert::reference {

/// One KV head's rows, [position][head_dim] each. Both empty in a dead head.
struct HeadRows {
  std::vector<float> keys;
  std::vector<float> values;
};

struct SequenceState {
  std::uint64_t seq_len = 0;         ///< T, positions appended and not taken back
  std::vector<std::uint8_t> alive;   ///< [num_kv_heads] of 0 and 1; means nothing while T = 0
  std::vector<HeadRows> heads;       ///< [num_kv_heads]
  std::vector<float> importance;     ///< [T], attention mass per position
  std::vector<float> linear_state;   ///< the recurrent vector, any length; has no positions
};

/// A fresh sequence. Throws std::bad_alloc, or std::length_error for more heads than a vector may hold.
inline SequenceState empty_state(std::size_t num_kv_heads) {
  SequenceState state;
  state.heads.resize(num_kv_heads);
  state.alive.resize(num_kv_heads, 1);
  return state;
}

}  // namespace kvcert::reference
