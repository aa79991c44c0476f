// The key/value cache of one transformer layer, fast: kind full, storage f32.
//
// It keeps the contract of kvcert/layer_cache.hpp, where every member below is specified with its shapes and errors,
// and gives the canonical bits of docs/arithmetic.md on every ISA. What is particular here:
//
//   * Rows live in two 64-byte aligned blocks, [live head][capacity][head_dim]; capacity doubles, so appending is
//     amortized O(1). clear() and truncate_last() keep the memory for the next rows; copies and snapshots are compact.
//   * attend_group streams K once and V once for all heads of the group, and allocates nothing once the thread's
//     scratch (optimized/attend.hpp) has grown to the largest number of visible rows × heads met so far.
//   * Calls that compute floats run in the default floating-point environment and put the caller's back, sticky
//     exception flags included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <vector>

#include "kvcert/layer_cache.hpp"
#include "optimized/buffer.hpp"
#include "optimized/dispatch.hpp"
#include "optimized/sequence.hpp"

namespace kvcert::optimized {

class LayerKvCache {
 public:
  /// All sequence state. Shares no memory with a layer.
  class Snapshot {
   public:
    Geometry geometry() const { return geometry_; }
    std::uint64_t seq_len() const { return sequence_.length(); }

   private:
    friend class LayerKvCache;
    Snapshot(Geometry geometry, WireKind kind, const Sequence& sequence)
        : geometry_(geometry), kind_(kind), sequence_(sequence) {}
    Geometry geometry_;
    WireKind kind_;
    Sequence sequence_;
  };

  /// With the kernels of default_isa(), which reads KVCERT_ISA. Errors: as the contract says, and invalid_argument for
  /// a KVCERT_ISA that is unknown or unavailable.
  static Result<LayerKvCache> create(Geometry geometry);
  /// With these kernels; reads no environment. Errors: as above; invalid_argument where isa is not available.
  static Result<LayerKvCache> create(Geometry geometry, Isa isa);
  static float default_scale(std::size_t head_dim);

  Geometry geometry() const { return geometry_; }
  KvMode mode() const { return KvMode::f32; }
  WireKind wire_kind() const { return WireKind::full; }
  /// Whose kernels this layer runs; copies and restored layers keep theirs.
  Isa isa() const { return isa_; }

  Result<void> set_sinks(std::span<const float> sinks);
  void clear_sinks() { sinks_ = {}; }
  std::span<const float> sinks() const { return sinks_.view(); }
  void set_wire_layer(std::uint32_t layer) { wire_layer_ = layer; }
  std::uint32_t wire_layer() const { return wire_layer_; }
  void set_wire_identity(std::uint64_t identity) { wire_identity_ = identity; }
  std::uint64_t wire_identity() const { return wire_identity_; }
  void set_linear_wire_allowed(bool allowed) { linear_wire_allowed_ = allowed; }
  bool linear_wire_allowed() const { return linear_wire_allowed_; }

  Result<void> append(std::span<const float> k, std::span<const float> v, Alive alive = {});
  Result<void> append_chunk(std::span<const float> k, std::span<const float> v, std::size_t n, Alive alive = {});

  Result<Attended> attend(std::span<const float> q, std::size_t kv_head) const;
  Result<void> attend_group(const Query& query, std::span<float> out, std::span<float> acc) const;
  Result<void> attend_group_upto(const Query& query, std::size_t upto, std::span<float> out,
                                 std::span<float> acc) const;
  Result<void> accumulate_imp(std::span<const float> probabilities);

  Result<void> truncate_last(std::size_t n);
  void clear() { sequence_.clear(); }
  Result<Snapshot> snapshot() const;
  Result<void> restore(const Snapshot& saved);

  std::uint64_t seq_len() const { return sequence_.length(); }
  std::optional<std::span<const std::uint8_t>> alive() const;
  std::vector<std::span<const float>> k_heads() const;
  std::vector<std::span<const float>> v_heads() const;
  Result<std::span<const float>> head_keys(std::size_t kv_head) const;
  Result<std::span<const float>> head_values(std::size_t kv_head) const;
  Result<std::size_t> head_len(std::size_t kv_head) const;
  std::span<const float> importance() const { return sequence_.importance(); }
  std::span<const float> linear_state() const { return sequence_.linear(); }
  std::uint64_t memory_bytes() const;
  friend std::ostream& operator<<(std::ostream& stream, const LayerKvCache& layer);

  Result<std::vector<std::uint8_t>> export_wire(WireFormat format) const;
  Result<void> import_wire(std::span<const std::uint8_t> bytes);
  static Result<std::uint64_t> wire_bytes(Geometry geometry, std::uint64_t seq_len, std::size_t live_heads,
                                          std::uint64_t recurrent_floats, WireFormat format);

 private:
  LayerKvCache(Geometry geometry, Isa isa, const kernels::Table* kernels)
      : geometry_(geometry), isa_(isa), kernels_(kernels), sequence_(geometry) {}
  /// shape_mismatch and invalid_argument of a query, in the contract's order.
  Result<void> check(const Query& query, std::span<const float> out, std::span<const float> acc) const;
  bool overlaps_layer(std::span<const float> output) const;

  Geometry geometry_;
  Isa isa_;
  const kernels::Table* kernels_;
  std::uint32_t wire_layer_ = 0;
  std::uint64_t wire_identity_ = 0;
  bool linear_wire_allowed_ = true;
  Buffer<float> sinks_;
  Sequence sequence_;
};

static_assert(LayerCache<LayerKvCache>);

}  // namespace kvcert::optimized
