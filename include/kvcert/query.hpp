// One question to a layer: some query heads of one KV group.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kvcert {

/// The inputs of attend_group and attend_group_upto. n = q_group.size() / head_dim query heads; n = 0 asks nothing.
struct Query {
  std::span<const float> q_group{};  ///< [n × head_dim], any bits
  std::size_t kv_head = 0;         ///< the KV head that these query heads share, < num_kv_heads
  float scale = 1.0F;              ///< finite; LayerCache::default_scale(head_dim) is what models use
  std::size_t first = 0;           ///< earliest visible row; clamped so that a non-empty head always shows a row
  float softcap = 0.0F;            ///< 0 or −0 = off, else finite > 0: s ← softcap · tanh(s / softcap)
  std::span<const float> sinks{};  ///< empty, or n logits, any bits: a column without a value, not soft-capped
};

/// What attend returns for one query head.
struct Attended {
  std::vector<float> output;         ///< [head_dim]
  std::vector<float> probabilities;  ///< [rows stored in this head]
};

}  // namespace kvcert
