// The contract: what a key/value cache of one transformer layer does. Two implementations satisfy it,
// kvcert::reference::LayerKvCache (to be read) and kvcert::optimized::LayerKvCache (to be shipped).
//
// Layout is head-major: each KV head holds one contiguous run of rows [position][head_dim]. Notation:
//
//   KVH  num_kv_heads       HD  head_dim        T  seq_len, positions appended and not taken back
//   n    query heads of one call, all of the same KV group
//
// Every fallible call returns Result; a call that fails changes nothing, bit for bit. Nothing asserts, aborts or has
// undefined behaviour on any argument. Inputs may be views of the layer itself. An output overlaps neither another
// output, nor an input, nor the layer (invalid_argument). A mutating call invalidates views. Const calls may run on
// several threads at once. The bits of every result are fixed by docs/arithmetic.md.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <vector>

#include "kvcert/error.hpp"
#include "kvcert/geometry.hpp"
#include "kvcert/kv_mode.hpp"
#include "kvcert/query.hpp"
#include "kvcert/storage.hpp"
#include "kvcert/wire.hpp"

namespace kvcert {

/// One flag per KV head, nonzero = alive; or empty = all alive.
using Alive = std::span<const std::uint8_t>;

/// int8 storage (q8): keys in groups of 32 channels, values in one group per row, a column field from 64 rows on.
template <class C>
concept StoresInt8 = requires(C cache, const C layer, const Geometry geometry, KvMode mode, std::size_t n) {
  /// An empty layer of this storage. Errors: as create.
  { C::create(geometry, mode) } -> std::same_as<Result<C>>;
  /// Changes the storage of a layer without a sequence. Errors: wrong_state.
  { cache.set_mode(mode) } -> std::same_as<Result<void>>;
  /// A head's int8 rows; all spans empty where that tensor is stored as f32. Errors: head_out_of_range.
  { layer.head_q8_keys(n) } -> std::same_as<Result<Q8Rows>>;
  { layer.head_q8_values(n) } -> std::same_as<Result<Q8Rows>>;
  /// Whether the column field is frozen: one flag of the layer.
  { layer.frozen() } -> std::same_as<bool>;
};

/// Chunked attention and eviction.
template <class C>
concept HandlesChunks = requires(C cache, const C layer, const Query query, std::span<float> out, std::size_t n) {
  /// b query positions s0 … s0 + b − 1 of one KV group. query.q_group and out [b][heads][HD], heads = size / (b × HD);
  /// position i sees rows [max(0, s0 + i + 1 − window), s0 + i + 1), window 0 = all; query.first is not used. Bit for bit
  /// what b calls of attend_group_upto in order give, acc included. (query, b, s0, window, out, acc)
  /// Errors: wrong_state, head_out_of_range, shape_mismatch, invalid_argument (s0 + b > T among them), out_of_memory.
  { layer.attend_chunk(query, n, n, n, out, out) } -> std::same_as<Result<void>>;
  /// Keeps the last `keep` positions; how many went. Errors: wrong_state (aborted), out_of_memory.
  { cache.evict_recent(n) } -> std::same_as<Result<std::size_t>>;
  /// (keep, sink, recent): keeps, within the budget and in this order, the min(sink, keep) earliest, the latest of what is
  /// left up to recent, then the heaviest by importance; kept rows stay in order. Errors: as evict_recent.
  { cache.evict_by_mass(n, n, n) } -> std::same_as<Result<std::size_t>>;
};

/// Linear layers: a recurrent vector instead of rows.
template <class C>
concept KeepsRecurrence = requires(C cache, const C layer, std::span<const float> in, WireKind kind, std::uint64_t n) {
  /// full or linear, for a layer without a sequence; discards the scratch. Errors: wrong_state, invalid_argument (bounded).
  { cache.set_wire_kind(kind) } -> std::same_as<Result<void>>;
  /// The recurrent vector after `n` more positions. Errors: wrong_state, counter_exhausted, out_of_memory.
  { cache.linear_commit(in, n) } -> std::same_as<Result<void>>;
  /// A tentative vector, while a speculative step is unverified. Errors: wrong_state, out_of_memory.
  { cache.linear_set_scratch(in) } -> std::same_as<Result<void>>;
  /// The scratch becomes the state, T + 1. Errors: wrong_state (also without a scratch), counter_exhausted.
  { cache.linear_accept_scratch() } -> std::same_as<Result<void>>;
  { cache.discard_linear_scratch() } -> std::same_as<Result<void>>;  // wrong_state
  { layer.linear_scratch() } -> std::same_as<std::optional<std::span<const float>>>;
};

/// The bounded anchor: a ring of W rows per KV head beside trained sink keys.
template <class C>
concept KeepsRing = std::copyable<typename C::Rope> && std::copyable<typename C::RingSnapshot> &&
    requires(C cache, const C layer, const typename C::Rope rope, const typename C::RingSnapshot ring, const BoundedSinks sinks,
             std::span<const float> in, std::span<float> out, float scale, std::size_t n) {
      /// (window, inv_freq, scale): cos(Δ·f)·scale², sin(Δ·f)·scale² for Δ in [0, window), each correctly rounded.
      /// Errors: invalid_argument unless 1 ≤ window ≤ 2^20, half = inv_freq.size() ≥ 1, 0 ≤ f ≤ 1, scale finite > 0.
      { C::Rope::create(n, in, scale) } -> std::same_as<Result<typename C::Rope>>;
      { rope.window() } -> std::same_as<std::size_t>;
      { rope.half() } -> std::same_as<std::size_t>;
      { rope.cos() } -> std::same_as<std::span<const float>>;  // [window × half]
      { rope.sin() } -> std::same_as<std::span<const float>>;
      /// Sets kind bounded, with a ring of +0. Errors: wrong_state, invalid_argument (W = 0, KVH·W·HD over 2^63 − 1), OOM.
      { cache.install_bounded(n) } -> std::same_as<Result<void>>;
      /// (q [NH × HD], k, v [KVH × HD], sinks, rope, scale, NH, out [NH × HD]): writes the row, then every query head attends
      /// the sinks and the window. Errors: wrong_state, shape_mismatch (also rope.window ≠ W, 2·half > HD, NH no positive
      /// multiple of KVH), invalid_argument, counter_exhausted, out_of_memory.
      { cache.bounded_step(in, in, in, sinks, rope, scale, n, out) } -> std::same_as<Result<void>>;
      /// The ring and its counter alone; nullopt where there is no ring.
      { layer.bounded_snapshot() } -> std::same_as<Result<std::optional<typename C::RingSnapshot>>>;
      /// Errors: wrong_state, shape_mismatch (another geometry or ring size), out_of_memory. Drops the rollback rows.
      { cache.bounded_restore(ring) } -> std::same_as<Result<void>>;
      { layer.bounded_window() } -> std::same_as<std::size_t>;                 // 0 = no ring
      { layer.bounded_keys() } -> std::same_as<std::span<const float>>;        // [KVH][W][HD], +0 where never written
      { layer.bounded_values() } -> std::same_as<std::span<const float>>;
      { layer.bounded_undo_rows() } -> std::same_as<std::size_t>;              // positions truncate_last could take back
      { layer.bounded_state_bytes() } -> std::same_as<std::uint64_t>;          // 4 · ring floats + 8, else 0
    };

/// The O(1) Nyström overlay, and the state of one group as a value of its own.
template <class C>
concept KeepsO1 = std::copyable<typename C::O1Group> &&
    requires(C cache, const C layer, typename C::O1Group group, const typename C::O1Group saved, const O1Config config,
             std::span<const float> in, std::span<float> out, std::size_t n) {
      /// Errors: wrong_state, invalid_argument (landmarks < 4 or window < 1), out_of_memory.
      { cache.o1_begin(config) } -> std::same_as<Result<void>>;
      /// One position's rotated queries [NH × HD]; no-op unless collecting. Errors: wrong_state (linear never: no-op),
      /// shape_mismatch, out_of_memory.
      { cache.o1_push_q(in) } -> std::same_as<Result<void>>;
      { layer.o1_trace_positions() } -> std::same_as<std::size_t>;
      /// False below the boundary. Errors on malformed prerequisites, after which the layer is aborted.
      { cache.o1_seal(n) } -> std::same_as<Result<bool>>;
      { layer.o1_sealed() } -> std::same_as<bool>;
      /// (q [NH × HD], k, v [KVH × HD], NH) → [NH × HD]. Errors: wrong_state, shape_mismatch, counter_exhausted, OOM.
      { cache.o1_step(in, in, in, n) } -> std::same_as<Result<std::vector<float>>>;
      { layer.o1_views() } -> std::same_as<std::optional<std::vector<O1GroupView>>>;
      { layer.o1_memory_bytes() } -> std::same_as<std::uint64_t>;
      { layer.state() } -> std::same_as<LayerState>;

      /// (config, head_dim, HPK, keys [t × HD], values [t × HD], queries [t][HPK × HD]): exact-only while t ≤ w + sink + 8.
      { C::O1Group::prefill(config, n, n, in, in, in) } -> std::same_as<Result<typename C::O1Group>>;
      /// (q [HPK × HD], k [HD], v [HD], out [HPK × HD]).
      { group.step(in, in, in, out) } -> std::same_as<Result<void>>;
      { saved.exact_only() } -> std::same_as<bool>;
      { saved.view() } -> std::same_as<std::optional<O1GroupView>>;  // nullopt if exact-only
    };

/// A model of this concept is a copyable value; a copy is independent of its original. (Copying, k_heads() and v_heads()
/// throw std::bad_alloc as containers do, having no Result; snapshot() reports out_of_memory instead.)
template <class C>
concept LayerCache = StoresInt8<C> && HandlesChunks<C> && KeepsRecurrence<C> && KeepsRing<C> && KeepsO1<C> && std::copyable<C> && std::copyable<typename C::Snapshot> &&
    requires(C cache, const C layer, const typename C::Snapshot saved, const Geometry geometry, const Query query,
             std::span<const float> in, std::span<float> out, Alive alive, std::size_t n,
             std::span<const std::uint8_t> bytes, WireFormat format, std::ostream& stream) {
      // --- Construction and configuration ---------------------------------------------------------------------------

      /// An empty layer: kind full, storage f32, layer 0, identity 0, linear_wire_allowed, no sinks.
      /// Errors: invalid_argument (KVH or HD 0, KVH × HD over 2^63 − 1), out_of_memory.
      { C::create(geometry) } -> std::same_as<Result<C>>;
      /// The scale models use: RN(1 / RN(√HD)) in binary32, whatever the caller's rounding mode. HD ≥ 1; 0 gives +∞.
      { C::default_scale(n) } -> std::same_as<float>;

      { layer.geometry() } -> std::same_as<Geometry>;
      { layer.mode() } -> std::same_as<KvMode>;
      { layer.wire_kind() } -> std::same_as<WireKind>;

      /// Sink logits are kept as weights, for callers to pass in a query: length a positive multiple of KVH, any bits.
      /// Errors: shape_mismatch, out_of_memory.
      { cache.set_sinks(in) } -> std::same_as<Result<void>>;
      { cache.clear_sinks() } -> std::same_as<void>;
      { layer.sinks() } -> std::same_as<std::span<const float>>;  // empty = none

      { cache.set_wire_layer(std::uint32_t{}) } -> std::same_as<void>;
      { layer.wire_layer() } -> std::same_as<std::uint32_t>;
      { cache.set_wire_identity(std::uint64_t{}) } -> std::same_as<void>;
      { layer.wire_identity() } -> std::same_as<std::uint64_t>;
      { cache.set_linear_wire_allowed(bool{}) } -> std::same_as<void>;
      { layer.linear_wire_allowed() } -> std::same_as<bool>;

      // --- Appending ------------------------------------------------------------------------------------------------

      /// One position. k, v [KVH × HD], any bits. A dead head stores nothing and its values are not looked at; the
      /// first append of a sequence fixes which heads are alive. importance gains a +0 and T grows by one.
      /// Errors: shape_mismatch, alive_changed, counter_exhausted, out_of_memory.
      { cache.append(in, in, alive) } -> std::same_as<Result<void>>;
      /// n positions, k, v [n][KVH × HD]: equal to n appends, all or nothing. n = 0 checks its arguments and does
      /// nothing. Errors: as append, and invalid_argument (n × KVH × HD over 2^63 − 1).
      { cache.append_chunk(in, in, n, alive) } -> std::same_as<Result<void>>;

      // --- Attending ------------------------------------------------------------------------------------------------

      /// One query head, q [HD], default scale, all rows visible, no sink, no cap. A head without rows gives zeros and
      /// no probabilities. Errors: head_out_of_range, shape_mismatch, out_of_memory.
      { layer.attend(in, n) } -> std::same_as<Result<Attended>>;
      /// All query heads of one KV group. out [n × HD]. acc, any length: acc[p] += probability, heads ascending, for
      /// every visible row p inside acc; other entries are untouched. No rows: out = +0, acc untouched.
      /// Errors: head_out_of_range, shape_mismatch, invalid_argument, out_of_memory.
      { layer.attend_group(query, out, out) } -> std::same_as<Result<void>>;
      /// The same, as if only min(stored rows, upto) rows were stored. Visible: [min(first, rows − 1), rows).
      { layer.attend_group_upto(query, n, out, out) } -> std::same_as<Result<void>>;
      /// importance[p] += probabilities[p]. Errors: shape_mismatch (longer than T).
      { cache.accumulate_imp(in) } -> std::same_as<Result<void>>;

      // --- Taking back ----------------------------------------------------------------------------------------------

      /// Takes the last min(n, T) positions back; where T becomes 0, liveness is undecided again. The recurrent vector
      /// stays. Never fails for the storage of this version.
      { cache.truncate_last(n) } -> std::same_as<Result<void>>;
      /// As newly constructed, weights and configuration kept.
      { cache.clear() } -> std::same_as<void>;
      /// All sequence state, bit for bit. Errors: out_of_memory.
      { layer.snapshot() } -> std::same_as<Result<typename C::Snapshot>>;
      /// Back to a snapshot, of this layer or of another one. Weights and configuration stay.
      /// Errors: shape_mismatch (another geometry or kind), out_of_memory.
      { cache.restore(saved) } -> std::same_as<Result<void>>;

      // --- Views: no copies, valid until the next mutating call -------------------------------------------------------

      { layer.seq_len() } -> std::same_as<std::uint64_t>;
      /// KVH flags, 1 = alive; nullopt while undecided (T = 0).
      { layer.alive() } -> std::same_as<std::optional<std::span<const std::uint8_t>>>;
      /// All heads' rows, heads ascending; a dead head's span is empty.
      { layer.k_heads() } -> std::same_as<std::vector<std::span<const float>>>;
      { layer.v_heads() } -> std::same_as<std::vector<std::span<const float>>>;
      /// [head_len(h) × HD]. Errors: head_out_of_range.
      { layer.head_keys(n) } -> std::same_as<Result<std::span<const float>>>;
      { layer.head_values(n) } -> std::same_as<Result<std::span<const float>>>;
      /// Rows stored in head h. Errors: head_out_of_range.
      { layer.head_len(n) } -> std::same_as<Result<std::size_t>>;
      { layer.importance() } -> std::same_as<std::span<const float>>;    // [T], attention mass per position
      { layer.linear_state() } -> std::same_as<std::span<const float>>;  // recurrent vector; only a record brings one
      /// 4 · (K floats + V floats + recurrent floats).
      { layer.memory_bytes() } -> std::same_as<std::uint64_t>;
      /// Geometry, state and counts, on one line, for debugging.
      { stream << layer } -> std::same_as<std::ostream&>;

      // --- The wire ---------------------------------------------------------------------------------------------------

      /// The layer as a version-2 record. Errors: length_overflow, f16_overflow, out_of_memory.
      { layer.export_wire(format) } -> std::same_as<Result<std::vector<std::uint8_t>>>;
      /// Replaces the sequence state by the record's; the whole buffer is checked first. Takes version 2 and the
      /// unversioned body. Weights and configuration stay. Errors: every decoding code of this layer's kind.
      { cache.import_wire(bytes) } -> std::same_as<Result<void>>;
      /// Bytes of the kind-full record of a layer with these sizes: (geometry, seq_len, live heads, recurrent floats,
      /// format); live heads above KVH count as KVH. A pure function. Errors: length_overflow, by the first field in record
      /// order; invalid_argument (a total over 2^63 − 1).
      { C::wire_bytes(geometry, std::uint64_t{}, n, std::uint64_t{}, format) } -> std::same_as<Result<std::uint64_t>>;
    };

}  // namespace kvcert
