// Everything a caller can see of a layer in one number, without copying any of it: what certify::observe shows, except the
// records, which are functions of the rest. Two implementations give the same number for the same state.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "kvcert/layer_cache.hpp"

namespace kvcert::fuzz {

/// Order matters; any one changed bit changes the result (each step is a bijection of the state), and 2^-64 is the hope
/// for everything else.
class Digest {
 public:
  void add(std::uint64_t value) {
    state_ ^= value;
    state_ *= 0x9E3779B97F4A7C15ULL;
    state_ ^= state_ >> 32U;
  }
  void add(std::span<const float> numbers) { add_raw(numbers.data(), numbers.size_bytes()); }
  void add(std::span<const std::int8_t> numbers) { add_raw(numbers.data(), numbers.size_bytes()); }
  void add(std::span<const std::uint8_t> bytes) { add_raw(bytes.data(), bytes.size_bytes()); }
  std::uint64_t value() const { return state_; }

 private:
  void add_raw(const void* data, std::size_t size) {
    add(size);
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (; size >= 8; size -= 8, bytes += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes, 8);
      add(word);
    }
    if (size == 0) return;
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, size);
    add(word);
  }
  std::uint64_t state_ = 0x243F6A8885A308D3ULL;
};

inline void add_view(Digest& digest, const O1GroupView& view) {
  for (auto span : {view.sink_keys, view.sink_values, view.ring_keys, view.ring_values, view.K_tilde}) digest.add(span);
  for (const O1HeadView& head : view.heads) {
    for (auto span : {head.T, head.Z, head.mu, head.Q_tilde, head.M}) digest.add(span);
  }
  for (std::uint64_t count : {std::uint64_t{view.ring_length}, std::uint64_t{view.ring_head}, std::uint64_t{view.m_eff},
                              std::uint64_t{view.window}, std::uint64_t{view.sink}, std::uint64_t{view.head_dim}, view.far_count}) {
    digest.add(count);
  }
  digest.add(std::bit_cast<std::uint32_t>(view.scale));
  digest.add(static_cast<std::uint64_t>(view.rect));
}

inline void add_rows(Digest& digest, const Result<Q8Rows>& rows) {
  if (!rows) return digest.add(std::uint64_t{1});
  digest.add(rows->values);
  digest.add(rows->scales);
  digest.add(rows->columns);
}

template <LayerCache Cache>
std::uint64_t digest_of(const Cache& layer) {
  Digest digest;
  const auto [heads, dim] = layer.geometry();
  for (std::uint64_t value : {std::uint64_t{heads}, std::uint64_t{dim}, static_cast<std::uint64_t>(layer.mode()),
                              static_cast<std::uint64_t>(layer.wire_kind()), std::uint64_t{layer.wire_layer()},
                              layer.wire_identity(), std::uint64_t{layer.linear_wire_allowed()}, layer.seq_len(),
                              static_cast<std::uint64_t>(layer.state()), std::uint64_t{layer.frozen()}, layer.memory_bytes(),
                              std::uint64_t{layer.bounded_window()}, std::uint64_t{layer.bounded_undo_rows()},
                              layer.bounded_state_bytes(), std::uint64_t{layer.o1_trace_positions()}, layer.o1_memory_bytes()}) {
    digest.add(value);
  }
  digest.add(layer.sinks());
  const auto alive = layer.alive();
  digest.add(std::uint64_t{alive.has_value()});
  if (alive) digest.add(*alive);
  for (std::size_t head = 0; head < heads; ++head) {
    digest.add(layer.head_len(head).value_or(~std::size_t{0}));
    digest.add(layer.head_keys(head).value_or(std::span<const float>{}));
    digest.add(layer.head_values(head).value_or(std::span<const float>{}));
    add_rows(digest, layer.head_q8_keys(head));
    add_rows(digest, layer.head_q8_values(head));
  }
  digest.add(layer.importance());
  digest.add(layer.linear_state());
  const auto scratch = layer.linear_scratch();
  digest.add(std::uint64_t{scratch.has_value()});
  if (scratch) digest.add(*scratch);
  digest.add(layer.bounded_keys());
  digest.add(layer.bounded_values());
  if (layer.o1_sealed()) {
    if (const auto views = layer.o1_views()) {
      for (const O1GroupView& view : *views) add_view(digest, view);
    }
  }
  return digest.value();
}

}  // namespace kvcert::fuzz
