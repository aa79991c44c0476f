// The reference cache of one layer: plain vectors, canonical arithmetic, every rule of the contract in the open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "kvcert/layer_cache.hpp"
#include "reference/sequence_state.hpp"

namespace kvcert::reference {

/// Shapes, errors and their order are the concept's: include/kvcert/layer_cache.hpp and docs/contract.md.
class LayerKvCache {
 public:
  /// All sequence state of one layer at one moment. It shares nothing with a live layer; copies of a snapshot share
  /// the one state, which never changes. A default or moved-from snapshot fits no layer.
  class Snapshot {
    friend class LayerKvCache;
    Geometry geometry_;
    std::shared_ptr<const SequenceState> state_;
  };

  /// Moving copies: a layer that was moved from would have no heads. A failed assignment changes nothing.
  LayerKvCache(const LayerKvCache&) = default;
  LayerKvCache& operator=(const LayerKvCache& other);
  ~LayerKvCache() = default;

  // Construction and configuration.
  static Result<LayerKvCache> create(Geometry geometry);
  static float default_scale(std::size_t head_dim);
  Geometry geometry() const { return geometry_; }
  KvMode mode() const { return KvMode::f32; }
  WireKind wire_kind() const { return WireKind::full; }
  Result<void> set_sinks(std::span<const float> sinks);
  void clear_sinks() { sinks_.clear(); }
  std::span<const float> sinks() const { return sinks_; }
  void set_wire_layer(std::uint32_t layer) { wire_layer_ = layer; }
  std::uint32_t wire_layer() const { return wire_layer_; }
  void set_wire_identity(std::uint64_t identity) { wire_identity_ = identity; }
  std::uint64_t wire_identity() const { return wire_identity_; }
  void set_linear_wire_allowed(bool allowed) { linear_wire_allowed_ = allowed; }
  bool linear_wire_allowed() const { return linear_wire_allowed_; }

  // Appending.
  Result<void> append(std::span<const float> k, std::span<const float> v, Alive alive = {});
  Result<void> append_chunk(std::span<const float> k, std::span<const float> v, std::size_t n, Alive alive = {});

  // Attending.
  Result<Attended> attend(std::span<const float> q, std::size_t kv_head) const;
  Result<void> attend_group(const Query& query, std::span<float> out, std::span<float> acc) const;
  Result<void> attend_group_upto(const Query& query, std::size_t upto, std::span<float> out,
                                 std::span<float> acc) const;
  Result<void> accumulate_imp(std::span<const float> probabilities);

  // Taking back.
  Result<void> truncate_last(std::size_t n);
  void clear();
  Result<Snapshot> snapshot() const;
  Result<void> restore(const Snapshot& saved);

  // Views.
  std::uint64_t seq_len() const { return state_.seq_len; }
  std::optional<std::span<const std::uint8_t>> alive() const;
  std::vector<std::span<const float>> k_heads() const;
  std::vector<std::span<const float>> v_heads() const;
  Result<std::span<const float>> head_keys(std::size_t kv_head) const;
  Result<std::span<const float>> head_values(std::size_t kv_head) const;
  Result<std::size_t> head_len(std::size_t kv_head) const;
  std::span<const float> importance() const { return state_.importance; }
  std::span<const float> linear_state() const { return state_.linear_state; }
  std::uint64_t memory_bytes() const;
  friend std::ostream& operator<<(std::ostream& stream, const LayerKvCache& layer);

  // The wire.
  Result<std::vector<std::uint8_t>> export_wire(WireFormat format) const;
  Result<void> import_wire(std::span<const std::uint8_t> bytes);
  static Result<std::uint64_t> wire_bytes(Geometry geometry, std::uint64_t seq_len, std::size_t live_heads,
                                          std::uint64_t linear_len, WireFormat format);

 private:
  LayerKvCache(Geometry geometry, SequenceState state) : geometry_(geometry), state_(std::move(state)) {}
  Result<void> check_append(std::span<const float> k, std::span<const float> v, std::size_t n, Alive alive) const;
  Result<void> check_query(const Query& query, std::span<float> out, std::span<float> acc) const;
  bool overlaps_layer(std::span<const float> output) const;

  // Weights and configuration: kept by clear, restore and import.
  Geometry geometry_;
  std::vector<float> sinks_;
  std::uint32_t wire_layer_ = 0;
  std::uint64_t wire_identity_ = 0;
  bool linear_wire_allowed_ = true;

  SequenceState state_;
};

static_assert(LayerCache<LayerKvCache>);

}  // namespace kvcert::reference
