// The key/value cache of one transformer layer, fast.
//
// It keeps the contract of kvcert/layer_cache.hpp, where every member below is specified with its shapes and errors,
// and gives the canonical bits of docs/arithmetic.md on every ISA. What is particular here:
//
//   * Rows live in 64-byte aligned blocks, [live head][capacity][width]; capacity doubles, so appending is amortized
//     O(1). clear() and truncate_last() keep the memory for the next rows; copies and snapshots are compact.
//   * Attention streams K once and V once for all heads and positions of a tile of 64 queries, and allocates nothing
//     once the thread's scratch (optimized/attend.hpp) has grown to the largest need met so far.
//   * Calls that compute floats run in the default floating-point environment and put the caller's back, sticky
//     exception flags included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string_view>
#include <vector>

#include "kvcert/layer_cache.hpp"
#include "optimized/buffer.hpp"
#include "optimized/dispatch.hpp"
#include "optimized/layer_data.hpp"
#include "optimized/o1_group.hpp"
#include "optimized/ring.hpp"
#include "optimized/rope.hpp"

namespace kvcert::optimized {

class LayerKvCache {
 public:
  using Rope = optimized::Rope;
  using RingSnapshot = optimized::RingSnapshot;
  using O1Group = optimized::O1Group;

  /// All sequence state. Shares no memory with a layer.
  class Snapshot {
   public:
    Geometry geometry() const { return geometry_; }
    std::uint64_t seq_len() const { return data_.length(); }

   private:
    friend class LayerKvCache;
    Snapshot(Geometry geometry, const LayerData& data) : geometry_(geometry), data_(data) {}
    Geometry geometry_;
    LayerData data_;
  };

  // --- Construction and configuration
  // ---------------------------------------------------------------------------------

  /// With the kernels of default_isa(), which reads KVCERT_ISA. Errors: as the contract says, and invalid_argument for
  /// a KVCERT_ISA that is unknown or unavailable.
  static Result<LayerKvCache> create(Geometry geometry, KvMode mode = KvMode::f32);
  /// With these kernels; reads no environment. Errors: as above; invalid_argument where isa is not available.
  static Result<LayerKvCache> create(Geometry geometry, Isa isa) { return create(geometry, KvMode::f32, isa); }
  static Result<LayerKvCache> create(Geometry geometry, KvMode mode, Isa isa);
  static float default_scale(std::size_t head_dim);

  Geometry geometry() const { return geometry_; }
  KvMode mode() const { return data_.rows.mode(); }
  WireKind wire_kind() const { return data_.kind; }
  LayerState state() const { return data_.state(); }
  /// Whose kernels this layer runs; copies and restored layers keep theirs.
  Isa isa() const { return isa_; }

  Result<void> set_mode(KvMode mode);
  Result<void> set_wire_kind(WireKind kind);
  Result<void> set_sinks(std::span<const float> sinks);
  void clear_sinks() { sinks_ = {}; }
  std::span<const float> sinks() const { return sinks_.view(); }
  void set_wire_layer(std::uint32_t layer) { wire_layer_ = layer; }
  std::uint32_t wire_layer() const { return wire_layer_; }
  void set_wire_identity(std::uint64_t identity) { wire_identity_ = identity; }
  std::uint64_t wire_identity() const { return wire_identity_; }
  void set_linear_wire_allowed(bool allowed) { linear_wire_allowed_ = allowed; }
  bool linear_wire_allowed() const { return linear_wire_allowed_; }

  // --- Rows
  // -------------------------------------------------------------------------------------------------------------

  Result<void> append(std::span<const float> k, std::span<const float> v, Alive alive = {});
  Result<void> append_chunk(std::span<const float> k, std::span<const float> v, std::size_t n, Alive alive = {});

  Result<Attended> attend(std::span<const float> q, std::size_t kv_head) const;
  Result<void> attend_group(const Query& query, std::span<float> out, std::span<float> acc) const;
  Result<void> attend_group_upto(const Query& query, std::size_t upto, std::span<float> out,
                                 std::span<float> acc) const;
  Result<void> attend_chunk(const Query& query, std::size_t positions, std::size_t s0, std::size_t window,
                            std::span<float> out, std::span<float> acc) const;
  Result<void> accumulate_imp(std::span<const float> probabilities);

  Result<void> truncate_last(std::size_t n);
  Result<std::size_t> evict_recent(std::size_t keep);
  Result<std::size_t> evict_by_mass(std::size_t keep, std::size_t sink, std::size_t recent);
  void clear();
  Result<Snapshot> snapshot() const;
  Result<void> restore(const Snapshot& saved);

  // --- Linear
  // -----------------------------------------------------------------------------------------------------------

  Result<void> linear_commit(std::span<const float> state, std::uint64_t positions);
  Result<void> linear_set_scratch(std::span<const float> scratch);
  Result<void> linear_accept_scratch();
  Result<void> discard_linear_scratch();
  std::optional<std::span<const float>> linear_scratch() const;
  std::span<const float> linear_state() const { return data_.recurrence.state.view(); }

  // --- Bounded
  // ----------------------------------------------------------------------------------------------------------

  Result<void> install_bounded(std::size_t window);
  Result<void> bounded_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                            const BoundedSinks& sinks, const Rope& rope, float scale, std::size_t num_heads,
                            std::span<float> out);
  Result<std::optional<RingSnapshot>> bounded_snapshot() const;
  Result<void> bounded_restore(const RingSnapshot& saved);
  std::size_t bounded_window() const { return data_.window(); }
  std::span<const float> bounded_keys() const;
  std::span<const float> bounded_values() const;
  std::size_t bounded_undo_rows() const { return data_.ring ? data_.ring->undo_rows() : 0; }
  std::uint64_t bounded_state_bytes() const;

  // --- O(1)
  // -------------------------------------------------------------------------------------------------------------

  Result<void> o1_begin(const O1Config& config);
  Result<void> o1_push_q(std::span<const float> q);
  std::size_t o1_trace_positions() const { return data_.o1.trace.positions; }
  Result<bool> o1_seal(std::size_t num_heads);
  bool o1_sealed() const { return state() == LayerState::sealed; }
  Result<std::vector<float>> o1_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                                     std::size_t num_heads);
  std::optional<std::vector<O1GroupView>> o1_views() const;
  std::uint64_t o1_memory_bytes() const;

  // --- Views
  // ------------------------------------------------------------------------------------------------------------

  std::uint64_t seq_len() const { return data_.length(); }
  bool frozen() const { return data_.rows.frozen(); }
  std::optional<std::span<const std::uint8_t>> alive() const;
  std::vector<std::span<const float>> k_heads() const;
  std::vector<std::span<const float>> v_heads() const;
  Result<std::span<const float>> head_keys(std::size_t kv_head) const;
  Result<std::span<const float>> head_values(std::size_t kv_head) const;
  Result<Q8Rows> head_q8_keys(std::size_t kv_head) const;
  Result<Q8Rows> head_q8_values(std::size_t kv_head) const;
  Result<std::size_t> head_len(std::size_t kv_head) const;
  std::span<const float> importance() const { return data_.rows.importance(); }
  std::uint64_t memory_bytes() const;
  friend std::ostream& operator<<(std::ostream& stream, const LayerKvCache& layer);

  // --- The wire
  // ---------------------------------------------------------------------------------------------------------

  Result<std::vector<std::uint8_t>> export_wire(WireFormat format) const;
  Result<void> import_wire(std::span<const std::uint8_t> bytes);
  static Result<std::uint64_t> wire_bytes(Geometry geometry, std::uint64_t seq_len, std::size_t live_heads,
                                          std::uint64_t recurrent_floats, WireFormat format);

 private:
  LayerKvCache(Geometry geometry, KvMode mode, Isa isa, const kernels::Table* kernels)
      : geometry_(geometry), isa_(isa), kernels_(kernels), data_(geometry, mode) {}

  /// wrong_state unless the layer holds rows (plain, collecting).
  Result<void> check_rows(std::string_view operation) const;
  /// wrong_state unless nothing has happened yet (install_bounded, o1_begin, set_mode).
  Result<void> check_pristine(std::string_view operation, bool needs_f32) const;
  Result<void> check_head(std::size_t kv_head) const;
  /// Everything about a query, out and acc but wrong_state, in the contract's order; positions and range for
  /// attend_chunk.
  Result<void> check_query(const Query& query, std::size_t positions, std::span<float> out, std::span<float> acc) const;
  Result<void> check_bounded_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                                  const BoundedSinks& sinks, const Rope& rope, float scale, std::size_t num_heads,
                                  std::span<float> out) const;
  Result<void> check_o1_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                             std::size_t num_heads) const;
  Result<void> check_seal(std::size_t num_heads) const;
  bool overlaps_layer(std::span<const float> memory) const;

  Geometry geometry_;
  Isa isa_;
  const kernels::Table* kernels_;
  std::uint32_t wire_layer_ = 0;
  std::uint64_t wire_identity_ = 0;
  bool linear_wire_allowed_ = true;
  Buffer<float> sinks_;
  LayerData data_;
};

static_assert(LayerCache<LayerKvCache>);

}  // namespace kvcert::optimized
