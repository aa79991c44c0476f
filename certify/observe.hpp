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
    return a.bytes == b.bytes && a.error.has_value() == b.error.has_value() &&
           (!a.error || same_verdict(*a.error, *b.error));
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
};

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
  return std::nullopt;
}

/// Views must tell one story: head_keys(h) is k_heads()[h], lengths fit seq_len and liveness. Nothing, or what is wrong.
template <LayerCache Cache>
std::optional<std::string> incoherence(const Cache& layer) {
  const auto [heads, dim] = layer.geometry();
  const auto keys = layer.k_heads();
  const auto values = layer.v_heads();
  if (keys.size() != heads || values.size() != heads) return "k_heads() and v_heads() do not have one span per head";
  if (layer.alive().has_value() != (layer.seq_len() > 0)) return "liveness is decided exactly when seq_len > 0";
  if (layer.importance().size() != layer.seq_len()) return "importance does not have one number per position";
  std::uint64_t floats = layer.linear_state().size();
  for (std::size_t head = 0; head < heads; ++head) {
    const bool alive = layer.alive() && (*layer.alive())[head] != 0;
    const std::size_t rows = alive ? layer.seq_len() : 0;
    if (layer.head_len(head).value_or(~rows) != rows) return fmt::format("head_len({}) is not {}", head, rows);
    const auto k = layer.head_keys(head);
    const auto v = layer.head_values(head);
    if (!k || !v || k->size() != rows * dim || v->size() != rows * dim || k->data() != keys[head].data() ||
        v->data() != values[head].data() || keys[head].size() != rows * dim || values[head].size() != rows * dim) {
      return fmt::format("the views of head {} do not agree on {} rows", head, rows);
    }
    floats += 2 * rows * dim;
  }
  if (layer.memory_bytes() != 4 * floats) return fmt::format("memory_bytes is not 4 × {} floats", floats);
  std::ostringstream printed;
  printed << layer;
  if (printed.str().empty() || printed.str().find('\n') != std::string::npos) return "it does not print on one line";
  return std::nullopt;
}

}  // namespace kvcert::certify
