// The reference cache of one layer: plain vectors, canonical arithmetic, every rule of the contract in the open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "kvcert/layer_cache.hpp"
#include "reference/checks.hpp"
#include "reference/o1_group.hpp"
#include "reference/ring.hpp"
#include "reference/rope.hpp"
#include "reference/sequence_state.hpp"
#include "reference/wire.hpp"

namespace kvcert::reference {

/// Shapes, errors and their order are the concept's: include/kvcert/layer_cache.hpp and docs/contract.md.
class LayerKvCache {
 public:
  /// All sequence state of one layer at one moment. It shares nothing with a live layer; copies of a snapshot share
  /// the one state, which never changes. A default or moved-from snapshot fits no layer.
  class Snapshot {
    friend class LayerKvCache;
    Geometry geometry_;
    WireKind kind_ = WireKind::full;
    std::shared_ptr<const SequenceState> state_;
  };
  /// The ring of a bounded layer and its counter; else as Snapshot.
  class RingSnapshot {
    friend class LayerKvCache;
    std::uint64_t seq_len_ = 0;
    std::shared_ptr<const Ring> ring_;
  };
  using Rope = BoundedRope;
  using O1Group = reference::O1Group;

  /// Moving copies: a layer that was moved from would have no heads. A failed assignment changes nothing.
  LayerKvCache(const LayerKvCache&) = default;
  LayerKvCache& operator=(const LayerKvCache& other);
  ~LayerKvCache() = default;

  // Construction and configuration.
  static Result<LayerKvCache> create(Geometry geometry, KvMode mode = KvMode::f32);
  static float default_scale(std::size_t head_dim);
  Geometry geometry() const { return geometry_; }
  Result<void> set_mode(KvMode mode);
  KvMode mode() const { return state_.mode; }
  Result<void> set_wire_kind(WireKind kind);
  WireKind wire_kind() const { return kind_; }
  LayerState state() const;
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
  Result<void> attend_chunk(const Query& query, std::size_t b, std::size_t s0, std::size_t window, std::span<float> out,
                            std::span<float> acc) const;
  Result<void> accumulate_imp(std::span<const float> probabilities);

  // Taking back, and letting go.
  Result<void> truncate_last(std::size_t n);
  Result<std::size_t> evict_recent(std::size_t keep);
  Result<std::size_t> evict_by_mass(std::size_t keep, std::size_t sink, std::size_t recent);
  void clear();
  Result<Snapshot> snapshot() const;
  Result<void> restore(const Snapshot& saved);

  // Linear layers.
  Result<void> linear_commit(std::span<const float> state, std::uint64_t positions);
  Result<void> linear_set_scratch(std::span<const float> scratch);
  Result<void> linear_accept_scratch();
  Result<void> discard_linear_scratch();
  std::optional<std::span<const float>> linear_scratch() const { return state_.linear_scratch; }

  // The bounded anchor.
  Result<void> install_bounded(std::size_t window);
  Result<void> bounded_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                            const BoundedSinks& sinks, const Rope& rope, float scale, std::size_t query_heads,
                            std::span<float> out);
  Result<std::optional<RingSnapshot>> bounded_snapshot() const;
  Result<void> bounded_restore(const RingSnapshot& saved);
  std::size_t bounded_window() const { return state_.ring ? state_.ring->window() : 0; }
  std::span<const float> bounded_keys() const;
  std::span<const float> bounded_values() const;
  std::size_t bounded_undo_rows() const { return state_.ring ? state_.ring->undo_rows() : 0; }
  std::uint64_t bounded_state_bytes() const;

  // The O(1) overlay.
  Result<void> o1_begin(const O1Config& config);
  Result<void> o1_push_q(std::span<const float> q_all);
  std::size_t o1_trace_positions() const;
  Result<bool> o1_seal(std::size_t query_heads);
  bool o1_sealed() const { return state_.o1.phase == O1Overlay::Phase::sealed; }
  Result<std::vector<float>> o1_step(std::span<const float> q_all, std::span<const float> k, std::span<const float> v,
                                     std::size_t query_heads);
  std::optional<std::vector<O1GroupView>> o1_views() const;
  std::uint64_t o1_memory_bytes() const;

  // Views.
  std::uint64_t seq_len() const { return state_.seq_len; }
  std::optional<std::span<const std::uint8_t>> alive() const;
  std::vector<std::span<const float>> k_heads() const;
  std::vector<std::span<const float>> v_heads() const;
  Result<std::span<const float>> head_keys(std::size_t kv_head) const;
  Result<std::span<const float>> head_values(std::size_t kv_head) const;
  Result<std::size_t> head_len(std::size_t kv_head) const;
  Result<Q8Rows> head_q8_keys(std::size_t kv_head) const;
  Result<Q8Rows> head_q8_values(std::size_t kv_head) const;
  bool frozen() const { return state_.frozen; }
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

  /// wrong_state unless the layer is in one of these states.
  Result<void> check_state(const char* call, std::initializer_list<LayerState> allowed) const;
  /// wrong_state unless plain, T = 0, no recurrent vector, and storage f32 where that is asked for.
  Result<void> check_unused(const char* call, bool f32_only) const;
  Result<void> check_append(std::span<const float> k, std::span<const float> v, std::size_t n, Alive alive) const;
  Result<void> check_query(const Query& query, std::size_t positions, std::span<float> out) const;
  Result<void> check_query_overlap(const Query& query, std::span<float> out, std::span<float> acc) const;
  Result<void> check_bounded_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                                  const BoundedSinks& sinks, const Rope& rope, float scale, std::size_t query_heads,
                                  std::span<const float> out) const;
  bool overlaps_layer(std::span<const float> output) const;
  /// A view into one head. Errors: head_out_of_range.
  template <class View, class Look>
  Result<View> of_head(std::size_t kv_head, Look look) const {
    return or_out_of_memory([&]() -> Result<View> {
      if (auto exists = check_head(kv_head, geometry_); !exists) return handed_on(exists);
      return look(state_.heads[kv_head]);
    });
  }
  VisibleRows stored_rows(std::size_t kv_head) const;
  template <class Choose>
  Result<std::size_t> evict(const char* call, std::size_t keep, Choose choose);
  Result<std::vector<O1Group>> sealed_groups(std::size_t query_heads) const;
  void release_rows();
  WireLayer wire() const;

  // Weights and configuration: kept by clear, restore and import. (Storage mode and ring are in the state.)
  Geometry geometry_;
  WireKind kind_ = WireKind::full;
  std::vector<float> sinks_;
  std::uint32_t wire_layer_ = 0;
  std::uint64_t wire_identity_ = 0;
  bool linear_wire_allowed_ = true;

  SequenceState state_;
};

static_assert(LayerCache<LayerKvCache>);

}  // namespace kvcert::reference
