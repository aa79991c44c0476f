// Encoding: sizes first, then under f16 every value, then the bytes.
#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "kvcert/wire.hpp"
#include "reference/binary16.hpp"
#include "reference/checks.hpp"
#include "reference/wire.hpp"

namespace kvcert::reference {

namespace {

Result<void> check_field(const char* field, std::uint64_t length) {
  if (length <= wire::max_length) return {};
  return refuse(ErrorCode::length_overflow, wire::max_length, length,
                sentence(field, " is ", length, ", which does not fit its 32-bit field"));
}

/// Under f16: the first value of a head's array that is finite and would not stay so.
Result<void> check_f16(std::span<const float> values, Tensor tensor, std::size_t head) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const bool finite = (bits & 0x7F800000) != 0x7F800000;
    const bool becomes_infinite = (binary16_from_binary32(bits) & 0x7FFF) == 0x7C00;
    if (!finite || !becomes_infinite) continue;
    Error error;
    error.code = ErrorCode::f16_overflow;
    error.expected = largest_binary16;
    error.found = bits;
    error.tensor = tensor;
    error.head = head;
    error.element = i;
    error.message = sentence(tensor == Tensor::keys ? "key" : "value", " element ", i, " of KV head ", head, " (bits ",
                             bits, ") is finite, and infinite as binary16");
    return std::unexpected(std::move(error));
  }
  return {};
}

/// A ring's tensor, [KVH][W][HD], head by head.
Result<void> check_f16_heads(std::span<const float> ring, Tensor tensor, std::size_t heads) {
  const std::size_t head_floats = ring.size() / heads;
  for (std::size_t h = 0; h < heads; ++h) {
    if (auto fits = check_f16(ring.subspan(h * head_floats, head_floats), tensor, h); !fits) return fits;
  }
  return {};
}

/// Appends little-endian fields.
class Writer {
 public:
  explicit Writer(std::uint64_t size) { bytes_.reserve(size); }

  void integer(std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) bytes_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  void u32(std::uint64_t value) { integer(value, 4); }
  void floats(std::span<const float> values, WireFormat format) {
    for (const float value : values) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      if (format == WireFormat::f16) {
        integer(binary16_from_binary32(bits), 2);
      } else {
        integer(bits, 4);
      }
    }
  }
  void header(const WireLayer& layer, WireFormat format, std::uint64_t position) {
    for (const std::uint8_t byte : wire::magic) integer(byte, 1);
    u32(wire::version);
    integer(layer.identity, 8);
    u32(layer.layer);
    integer(static_cast<std::uint64_t>(layer.kind), 1);
    integer(flag(format), 1);
    integer(0, 2);  // reserved
    integer(position, 8);
  }
  static std::uint64_t flag(WireFormat format) { return format == WireFormat::f16 ? 1 : 0; }
  std::vector<std::uint8_t> finished() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

Result<void> check_describable(const SequenceState& state) {
  if (state.mode != KvMode::f32) {
    return refuse(ErrorCode::not_describable, 0, static_cast<std::uint64_t>(state.mode), "no record describes int8 storage");
  }
  if (state.o1.phase != O1Overlay::Phase::none) {
    return refuse(ErrorCode::not_describable, 0, static_cast<std::uint64_t>(state.o1.phase),
                  "no record describes a layer with an O(1) overlay");
  }
  return {};
}

Result<void> check_geometry_fields(const Geometry& geometry) {
  if (auto fits = check_field("num_kv_heads", geometry.num_kv_heads); !fits) return fits;
  return check_field("head_dim", geometry.head_dim);
}

}  // namespace

Result<std::uint64_t> record_bytes(const Geometry& geometry, std::uint64_t seq_len, std::uint64_t live_heads,
                                   std::uint64_t linear_len, WireFormat format) {
  live_heads = std::min<std::uint64_t>(live_heads, geometry.num_kv_heads);
  // The u32 fields in record order; imp_len is seq_len again.
  if (auto fits = check_field("seq_len", seq_len); !fits) return handed_on(fits);
  if (auto fits = check_geometry_fields(geometry); !fits) return handed_on(fits);
  if (auto fits = check_field("linear_len", linear_len); !fits) return handed_on(fits);
  const std::uint64_t k_len = seq_len * geometry.head_dim;  // both fit 32 bits
  if (live_heads != 0) {
    if (auto fits = check_field("k_len", k_len); !fits) return handed_on(fits);
  }
  // header | flag, seq_len, num_kv_heads, head_dim, linear_len, imp_len | vectors | two lengths a head | K and V
  const std::uint64_t fixed = wire::header_bytes + 6 * 4 + 4 * (linear_len + seq_len) + 8 * geometry.num_kv_heads;
  const std::uint64_t element_bytes = format == WireFormat::f16 ? 2 : 4;
  const auto rows = checked_product({2, live_heads, k_len, element_bytes});
  if (!rows || *rows > max_count - fixed) {
    return refuse(ErrorCode::invalid_argument, max_count, 0, "the record would be longer than 2^63 - 1 bytes");
  }
  return fixed + *rows;
}

namespace {

Result<std::vector<std::uint8_t>> encode_full(const SequenceState& state, const WireLayer& layer, WireFormat format) {
  std::uint64_t live_heads = 0;
  for (const HeadRows& head : state.heads) live_heads += head.keys.f32.empty() ? 0 : 1;
  const auto size = record_bytes(layer.geometry, state.seq_len, live_heads, state.linear_state.size(), format);
  if (!size) return handed_on(size);
  if (format == WireFormat::f16) {
    for (std::size_t h = 0; h < state.heads.size(); ++h) {
      if (auto fits = check_f16(state.heads[h].keys.f32, Tensor::keys, h); !fits) return handed_on(fits);
      if (auto fits = check_f16(state.heads[h].values.f32, Tensor::values, h); !fits) return handed_on(fits);
    }
  }

  Writer writer(*size);
  writer.header(layer, format, state.seq_len);
  writer.u32(Writer::flag(format));
  writer.u32(state.seq_len);
  writer.u32(layer.geometry.num_kv_heads);
  writer.u32(layer.geometry.head_dim);
  writer.u32(state.linear_state.size());
  writer.u32(state.importance.size());
  writer.floats(state.linear_state, WireFormat::f32);
  writer.floats(state.importance, WireFormat::f32);
  for (const HeadRows& head : state.heads) {
    writer.u32(head.keys.f32.size());
    writer.floats(head.keys.f32, format);
    writer.u32(head.values.f32.size());
    writer.floats(head.values.f32, format);
  }
  return writer.finished();
}

/// The flag is the format's, the payload f32 either way.
Result<std::vector<std::uint8_t>> encode_linear(const SequenceState& state, const WireLayer& layer, WireFormat format) {
  if (auto fits = check_geometry_fields(layer.geometry); !fits) return handed_on(fits);
  if (auto fits = check_field("linear_len", state.linear_state.size()); !fits) return handed_on(fits);
  Writer writer(wire::header_bytes + 3 * 4 + 4 * state.linear_state.size());
  writer.header(layer, format, state.seq_len);
  writer.u32(layer.geometry.num_kv_heads);
  writer.u32(layer.geometry.head_dim);
  writer.u32(state.linear_state.size());
  writer.floats(state.linear_state, WireFormat::f32);
  return writer.finished();
}

Result<std::vector<std::uint8_t>> encode_bounded(const SequenceState& state, const WireLayer& layer, WireFormat format) {
  const std::size_t heads = layer.geometry.num_kv_heads;
  const Ring& ring = *state.ring;
  if (auto fits = check_geometry_fields(layer.geometry); !fits) return handed_on(fits);
  if (auto fits = check_field("window", ring.window()); !fits) return handed_on(fits);  // len and head are no larger
  if (format == WireFormat::f16) {
    if (auto fits = check_f16_heads(ring.keys(), Tensor::keys, heads); !fits) return handed_on(fits);
    if (auto fits = check_f16_heads(ring.values(), Tensor::values, heads); !fits) return handed_on(fits);
  }
  const std::size_t element_bytes = format == WireFormat::f16 ? 2 : 4;
  Writer writer(wire::header_bytes + 5 * 4 + element_bytes * (ring.keys().size() + ring.values().size()));
  writer.header(layer, format, state.seq_len);
  writer.u32(heads);
  writer.u32(layer.geometry.head_dim);
  writer.u32(ring.window());
  writer.u32(std::min<std::uint64_t>(state.seq_len, ring.window()));
  writer.u32(state.seq_len % ring.window());
  writer.floats(ring.keys(), format);
  writer.floats(ring.values(), format);
  return writer.finished();
}

}  // namespace

Result<std::vector<std::uint8_t>> encode(const SequenceState& state, const WireLayer& layer, WireFormat format) {
  if (auto fits = check_describable(state); !fits) return handed_on(fits);
  if (layer.kind == WireKind::linear) return encode_linear(state, layer, format);
  if (layer.kind == WireKind::bounded) return encode_bounded(state, layer, format);
  return encode_full(state, layer, format);
}

}  // namespace kvcert::reference
