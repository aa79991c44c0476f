// Everything a caller can see of a layer, as bits.
#pragma once

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "certify/bits.hpp"
#include "kvcert/layer_cache.hpp"

namespace kvcert::certify {

/// What export_wire answered: the record, or why there is none.
struct Exported {
  std::vector<std::uint8_t> bytes;
  std::optional<Error> error;
  friend bool operator==(const Exported& a, const Exported& b) {
    if (a.bytes != b.bytes || a.error.has_value() != b.error.has_value()) return false;
    if (!a.error) return true;
    // The wire fixes the values of its own errors; those of a cache call are for reading.
    return a.error->code == ErrorCode::not_describable ? a.error->code == b.error->code : same_verdict(*a.error, *b.error);
  }
};

struct Observed {
  Geometry geometry;
  KvMode mode{};
  WireKind kind{};
  std::uint32_t layer = 0;
  std::uint64_t identity = 0;
  bool linear_wire_allowed = false;
  std::vector<std::uint32_t> sinks;

  std::uint64_t seq_len = 0;
  std::optional<std::vector<std::uint8_t>> alive;
  std::vector<std::vector<std::uint32_t>> keys, values;
  std::vector<std::size_t> lengths;
  std::vector<std::uint32_t> importance, linear_state;
  std::uint64_t memory_bytes = 0;
  Exported f32, f16;

  LayerState state{};
  bool frozen = false;
  std::vector<std::uint32_t> int8_storage;  ///< values, scales and columns of every head, keys then values
  std::optional<std::vector<std::uint32_t>> scratch;
  std::size_t window = 0, undo_rows = 0;
  std::uint64_t ring_bytes = 0, o1_bytes = 0;
  std::vector<std::uint32_t> ring;
  std::size_t trace = 0;
  std::optional<std::vector<std::uint32_t>> o1;  ///< every span and count of every group
};

inline void add_bits(std::vector<std::uint32_t>& to, std::span<const float> numbers) {
  to.push_back(static_cast<std::uint32_t>(numbers.size()));
  for (float x : numbers) to.push_back(bits(x));
}

inline void add_bits(std::vector<std::uint32_t>& to, const Q8Rows& rows) {
  for (std::int8_t x : rows.values) to.push_back(static_cast<std::uint32_t>(x));
  add_bits(to, rows.scales);
  add_bits(to, rows.columns);
}

inline void add_bits(std::vector<std::uint32_t>& to, const O1GroupView& view) {
  for (auto span : {view.sink_keys, view.sink_values, view.ring_keys, view.ring_values, view.K_tilde}) add_bits(to, span);
  for (const O1HeadView& head : view.heads) {
    for (auto span : {head.T, head.Z, head.mu, head.Q_tilde, head.M}) add_bits(to, span);
  }
  for (std::uint64_t count : {std::uint64_t{view.ring_length}, std::uint64_t{view.ring_head}, std::uint64_t{view.m_eff},
                              std::uint64_t{view.window}, std::uint64_t{view.sink}, std::uint64_t{view.head_dim}, view.far_count}) {
    to.push_back(static_cast<std::uint32_t>(count));
  }
  to.push_back(bits(view.scale));
  to.push_back(static_cast<std::uint32_t>(view.rect));
}

template <LayerCache Cache>
Observed observe(const Cache& layer) {
  Observed seen;
  seen.geometry = layer.geometry();
  seen.mode = layer.mode();
  seen.kind = layer.wire_kind();
  seen.layer = layer.wire_layer();
  seen.identity = layer.wire_identity();
  seen.linear_wire_allowed = layer.linear_wire_allowed();
  seen.sinks = bits(layer.sinks());
  seen.seq_len = layer.seq_len();
  if (const auto alive = layer.alive()) seen.alive.emplace(alive->begin(), alive->end());
  for (const auto rows : layer.k_heads()) seen.keys.push_back(bits(rows));
  for (const auto rows : layer.v_heads()) seen.values.push_back(bits(rows));
  for (std::size_t head = 0; head < seen.geometry.num_kv_heads; ++head) {
    seen.lengths.push_back(layer.head_len(head).value_or(~std::size_t{0}));
  }
  seen.importance = bits(layer.importance());
  seen.linear_state = bits(layer.linear_state());
  seen.memory_bytes = layer.memory_bytes();
  for (auto [exported, format] : {std::pair{&seen.f32, WireFormat::f32}, std::pair{&seen.f16, WireFormat::f16}}) {
    auto record = layer.export_wire(format);
    if (record) {
      exported->bytes = std::move(*record);
    } else {
      exported->error = record.error();
    }
  }
  seen.state = layer.state();
  seen.frozen = layer.frozen();
  for (std::size_t head = 0; head < seen.geometry.num_kv_heads; ++head) {
    add_bits(seen.int8_storage, layer.head_q8_keys(head).value_or(Q8Rows{}));
    add_bits(seen.int8_storage, layer.head_q8_values(head).value_or(Q8Rows{}));
  }
  if (const auto scratch = layer.linear_scratch()) seen.scratch = bits(*scratch);
  seen.window = layer.bounded_window();
  seen.undo_rows = layer.bounded_undo_rows();
  seen.ring_bytes = layer.bounded_state_bytes();
  add_bits(seen.ring, layer.bounded_keys());
  add_bits(seen.ring, layer.bounded_values());
  seen.trace = layer.o1_trace_positions();
  seen.o1_bytes = layer.o1_memory_bytes();
  if (const auto views = layer.o1_views()) {
    seen.o1.emplace();
    for (const O1GroupView& view : *views) add_bits(*seen.o1, view);
  }
  return seen;
}

/// The name of the first observable in which two layers differ.
inline std::optional<std::string> difference(const Observed& a, const Observed& b) {
  if (a.geometry != b.geometry) return "geometry";
  if (a.mode != b.mode) return "mode";
  if (a.kind != b.kind) return "wire kind";
  if (a.layer != b.layer || a.identity != b.identity || a.linear_wire_allowed != b.linear_wire_allowed) {
    return "wire configuration";
  }
  if (a.sinks != b.sinks) return "sinks";
  if (a.seq_len != b.seq_len) return fmt::format("seq_len ({} and {})", a.seq_len, b.seq_len);
  if (a.alive != b.alive) return "liveness";
  if (a.keys != b.keys) return "keys";
  if (a.values != b.values) return "values";
  if (a.lengths != b.lengths) return "head_len";
  if (a.importance != b.importance) return "importance";
  if (a.linear_state != b.linear_state) return "linear_state";
  if (a.memory_bytes != b.memory_bytes) return fmt::format("memory_bytes ({} and {})", a.memory_bytes, b.memory_bytes);
  if (!(a.f32 == b.f32)) return "f32 record";
  if (!(a.f16 == b.f16)) return "f16 record";
  if (a.state != b.state) return "state";
  if (a.frozen != b.frozen) return "frozen";
  if (a.int8_storage != b.int8_storage) return "int8 storage";
  if (a.scratch != b.scratch) return "scratch";
  if (a.window != b.window || a.ring != b.ring) return "ring";
  if (a.undo_rows != b.undo_rows) return fmt::format("rollback rows ({} and {})", a.undo_rows, b.undo_rows);
  if (a.ring_bytes != b.ring_bytes) return "bounded_state_bytes";
  if (a.trace != b.trace) return "query trace";
  if (a.o1_bytes != b.o1_bytes) return "o1_memory_bytes";
  if (a.o1 != b.o1) return "O(1) state";
  return std::nullopt;
}

/// Views must tell one story: head_keys(h) is k_heads()[h], lengths fit seq_len, storage and liveness, and memory_bytes is
/// the sum of what is stored. Nothing, or what is wrong.
template <LayerCache Cache>
std::optional<std::string> incoherence(const Cache& layer) {
  const auto [heads, dim] = layer.geometry();
  const auto keys = layer.k_heads();
  const auto values = layer.v_heads();
  if (keys.size() != heads || values.size() != heads) return "k_heads() and v_heads() do not have one span per head";
  const LayerState state = layer.state();
  const bool has_rows = state == LayerState::plain || state == LayerState::collecting;
  if (has_rows && layer.alive().has_value() != (layer.seq_len() > 0)) return "liveness is decided exactly when seq_len > 0";
  if (layer.importance().size() != (has_rows ? layer.seq_len() : 0)) return "importance does not have one number per row";
  const KvMode mode = layer.mode();
  const bool int8_keys = mode == KvMode::q8 || mode == KvMode::q8_keys;
  const bool int8_values = mode == KvMode::q8 || mode == KvMode::q8_values;
  std::uint64_t bytes = 4 * layer.linear_state().size() + layer.o1_memory_bytes() + layer.bounded_state_bytes();
  for (std::size_t head = 0; head < heads; ++head) {
    const bool alive = has_rows && layer.alive() && (*layer.alive())[head] != 0;
    const std::size_t rows = alive ? layer.seq_len() : 0;
    if (layer.head_len(head).value_or(~rows) != rows) return fmt::format("head_len({}) is not {}", head, rows);
    const auto k = layer.head_keys(head);
    const auto v = layer.head_values(head);
    if (!k || !v || k->data() != keys[head].data() || v->data() != values[head].data()) return "head views and layer views differ";
    if (k->size() != (int8_keys ? 0 : rows * dim) || v->size() != (int8_values ? 0 : rows * dim) ||
        keys[head].size() != k->size() || values[head].size() != v->size()) {
      return fmt::format("the views of head {} do not show {} rows", head, rows);
    }
    const Q8Rows qk = layer.head_q8_keys(head).value_or(Q8Rows{});
    const Q8Rows qv = layer.head_q8_values(head).value_or(Q8Rows{});
    const std::size_t groups = (dim + q8_key_group - 1) / q8_key_group;
    if (qk.values.size() != (int8_keys ? rows * dim : 0) || qk.scales.size() != (int8_keys ? rows * groups : 0) ||
        qv.values.size() != (int8_values ? rows * dim : 0) || qv.scales.size() != (int8_values ? rows : 0)) {
      return fmt::format("the int8 views of head {} do not show {} rows", head, rows);
    }
    bytes += 4 * (k->size() + v->size() + qk.scales.size() + qk.columns.size() + qv.scales.size() + qv.columns.size()) +
             qk.values.size() + qv.values.size();
  }
  if (layer.memory_bytes() != bytes) return fmt::format("memory_bytes is {}, and {} are stored", layer.memory_bytes(), bytes);
  std::ostringstream printed;
  printed << layer;
  if (printed.str().empty() || printed.str().find('\n') != std::string::npos) return "it does not print on one line";
  return std::nullopt;
}

}  // namespace kvcert::certify
