// Decoding: one pass that only looks, field by field as docs/wire.md lists them, and one that copies.
#include <algorithm>
#include <bit>
#include <optional>

#include "kvcert/wire.hpp"
#include "reference/binary16.hpp"
#include "reference/wire.hpp"
#include "reference/wire_reader.hpp"

namespace kvcert::reference {

namespace {

using Bytes = std::span<const std::uint8_t>;

/// Where the arrays of a record lie in its buffer. A kind leaves those empty that it has not.
struct Arrays {
  struct Head {
    Bytes keys;
    Bytes values;
  };
  std::uint64_t seq_len = 0;
  std::size_t element_bytes = 4;  ///< of keys and values
  Bytes linear_state;
  Bytes importance;
  std::vector<Head> heads;
  Head ring;
};

/// What a header says that the body must repeat.
struct Header {
  std::uint8_t f16;
  std::uint64_t position;
};

std::uint32_t element_bits(Bytes bytes, std::size_t at, std::size_t element_bytes) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < element_bytes; ++i) bits |= std::uint32_t{bytes[at + i]} << (8 * i);
  return bits;
}

bool is_versioned(Bytes buffer) {
  return buffer.size() >= wire::magic.size() && std::ranges::equal(buffer.first(wire::magic.size()), wire::magic);
}

Header read_header(WireReader& reader, const WireLayer& layer) {
  reader.u32("magic");  // already known
  const std::uint32_t version = reader.u32("version");
  reader.require(version == wire::version, ErrorCode::bad_version, wire::version, version);
  const std::uint64_t identity = reader.u64("identity");
  reader.require(identity == layer.identity, ErrorCode::identity_mismatch, layer.identity, identity);
  const std::uint32_t index = reader.u32("layer index");
  reader.require(index == layer.layer, ErrorCode::layer_mismatch, layer.layer, index);
  const std::uint8_t kind = reader.u8("kind");
  constexpr auto largest_kind = static_cast<std::uint64_t>(WireKind::bounded);
  const auto own_kind = static_cast<std::uint64_t>(layer.kind);
  reader.require(kind <= largest_kind, ErrorCode::unknown_kind, largest_kind, kind);
  reader.require(kind == own_kind, ErrorCode::kind_mismatch, own_kind, kind);
  const std::uint8_t f16 = reader.u8("header f16 flag");
  reader.require(f16 <= 1, ErrorCode::bad_flag, 1, f16);
  const std::uint16_t reserved = reader.u16("reserved");
  reader.require(reserved == 0, ErrorCode::reserved_not_zero, 0, reserved);
  const std::uint64_t position = reader.u64("position");
  reader.require(position <= max_count, ErrorCode::position_out_of_range, max_count, position);
  return {f16, position};
}

void read_geometry(WireReader& reader, const WireLayer& layer) {
  const std::uint32_t heads = reader.u32("num_kv_heads");
  reader.require(heads == layer.geometry.num_kv_heads, ErrorCode::geometry_mismatch, layer.geometry.num_kv_heads, heads);
  const std::uint32_t dim = reader.u32("head_dim");
  reader.require(dim == layer.geometry.head_dim, ErrorCode::geometry_mismatch, layer.geometry.head_dim, dim);
}

/// The kind-0 body. Without a header (an unversioned body) flag and seq_len stand for themselves. A linear layer takes an
/// unversioned body that has no rows: imp_len and every k_len 0.
Arrays read_full(WireReader& reader, const WireLayer& layer, const std::optional<Header>& header) {
  const bool rows_allowed = layer.kind == WireKind::full;
  Arrays arrays;

  const std::uint32_t f16 = reader.u32("body f16 flag");
  if (header) {
    reader.require(f16 == header->f16, ErrorCode::bad_flag, header->f16, f16);
  } else {
    reader.require(f16 <= 1, ErrorCode::bad_flag, 1, f16);
  }
  arrays.element_bytes = f16 == 1 ? 2 : 4;

  const std::uint32_t seq_len = reader.u32("seq_len");
  if (header) reader.require(seq_len == header->position, ErrorCode::position_mismatch, header->position, seq_len);
  arrays.seq_len = seq_len;
  read_geometry(reader, layer);
  const std::uint32_t linear_len = reader.u32("linear_len");
  const std::uint32_t imp_len = reader.u32("imp_len");
  const std::uint32_t positions = rows_allowed ? seq_len : 0;  // that have rows and importance
  reader.require(imp_len == positions, ErrorCode::inconsistent_length, positions, imp_len);
  arrays.linear_state = reader.array("recurrent vector", linear_len, 4);
  arrays.importance = reader.array("importance", imp_len, 4);

  const std::uint64_t full_len = std::uint64_t{positions} * layer.geometry.head_dim;  // two 32-bit factors: no wrap
  // A head needs at least its two length fields, so this list, too, is no longer than the buffer.
  for (std::size_t h = 0; h < layer.geometry.num_kv_heads && !reader.refused(); ++h) {
    Arrays::Head head;
    const std::uint32_t k_len = reader.u32("k_len");
    reader.require(k_len == 0 || k_len == full_len, ErrorCode::inconsistent_length, full_len, k_len);
    head.keys = reader.array("keys", k_len, arrays.element_bytes);
    const std::uint32_t v_len = reader.u32("v_len");
    reader.require(v_len == k_len, ErrorCode::inconsistent_length, k_len, v_len);
    head.values = reader.array("values", v_len, arrays.element_bytes);
    arrays.heads.push_back(head);
  }
  reader.end();
  return arrays;
}

/// Kind 1. Always f32: the header's flag is carried and has no effect.
Arrays read_linear(WireReader& reader, const WireLayer& layer, const Header& header) {
  Arrays arrays;
  arrays.seq_len = header.position;
  read_geometry(reader, layer);
  const std::uint32_t linear_len = reader.u32("linear_len");
  arrays.linear_state = reader.array("recurrent vector", linear_len, 4);
  reader.end();
  return arrays;
}

/// One tensor of a ring, [KVH][W][HD]: slots from `written` on hold nothing but zero bits.
Bytes read_ring(WireReader& reader, const WireLayer& layer, const char* field, std::size_t element_bytes,
                std::uint64_t written) {
  const auto& [num_kv_heads, head_dim] = layer.geometry;
  const Bytes ring = reader.array(field, num_kv_heads * layer.window * head_dim, element_bytes);
  if (reader.refused()) return {};
  for (std::size_t h = 0; h < num_kv_heads; ++h) {
    const std::size_t first = (h * layer.window + written) * head_dim;
    const std::size_t end = (h + 1) * layer.window * head_dim;
    for (std::size_t element = first; element < end && !reader.refused(); ++element) {
      const std::size_t at = element * element_bytes;
      const std::uint32_t bits = element_bits(ring, at, element_bytes);
      reader.require_element(bits == 0, at, ErrorCode::ring_slot_not_zero, 0, bits);
    }
  }
  return ring;
}

/// Kind 2.
Arrays read_bounded(WireReader& reader, const WireLayer& layer, const Header& header) {
  Arrays arrays;
  arrays.seq_len = header.position;
  arrays.element_bytes = header.f16 == 1 ? 2 : 4;
  read_geometry(reader, layer);
  const std::uint32_t window = reader.u32("window");
  reader.require(window == layer.window, ErrorCode::geometry_mismatch, layer.window, window);
  const std::uint64_t written = std::min<std::uint64_t>(header.position, layer.window);
  const std::uint32_t len = reader.u32("len");
  reader.require(len == written, ErrorCode::ring_cursor_mismatch, written, len);
  const std::uint64_t next = header.position % layer.window;
  const std::uint32_t head = reader.u32("head");
  reader.require(head == next, ErrorCode::ring_cursor_mismatch, next, head);
  arrays.ring.keys = read_ring(reader, layer, "ring_k", arrays.element_bytes, written);
  arrays.ring.values = read_ring(reader, layer, "ring_v", arrays.element_bytes, written);
  reader.end();
  return arrays;
}

Arrays read_body(WireReader& reader, const WireLayer& layer, const std::optional<Header>& header) {
  if (header && layer.kind == WireKind::linear) return read_linear(reader, layer, *header);
  if (header && layer.kind == WireKind::bounded) return read_bounded(reader, layer, *header);
  return read_full(reader, layer, header);
}

/// Elements of 4 bytes are binary32, of 2 binary16.
std::vector<float> floats(Bytes bytes, std::size_t element_bytes) {
  std::vector<float> result;
  result.reserve(bytes.size() / element_bytes);
  for (std::size_t at = 0; at < bytes.size(); at += element_bytes) {
    std::uint32_t bits = element_bits(bytes, at, element_bytes);
    if (element_bytes == 2) bits = binary32_from_binary16(static_cast<std::uint16_t>(bits));
    result.push_back(std::bit_cast<float>(bits));
  }
  return result;
}

SequenceState copied_out(const Arrays& arrays, const WireLayer& layer) {
  SequenceState state = empty_state(layer.geometry.num_kv_heads);
  state.seq_len = arrays.seq_len;
  state.linear_state = floats(arrays.linear_state, 4);
  state.importance = floats(arrays.importance, 4);
  if (layer.kind == WireKind::full) {
    for (std::size_t h = 0; h < arrays.heads.size(); ++h) {
      state.heads[h].keys.f32 = floats(arrays.heads[h].keys, arrays.element_bytes);
      state.heads[h].values.f32 = floats(arrays.heads[h].values, arrays.element_bytes);
      state.alive[h] = arrays.heads[h].keys.empty() ? 0 : 1;
    }
  }
  if (layer.kind == WireKind::bounded) {
    state.ring = Ring(layer.geometry, layer.window, floats(arrays.ring.keys, arrays.element_bytes),
                      floats(arrays.ring.values, arrays.element_bytes));
  }
  return state;
}

}  // namespace

Result<SequenceState> decode(std::span<const std::uint8_t> buffer, const WireLayer& layer) {
  WireReader reader(buffer);
  std::optional<Header> header;
  if (is_versioned(buffer)) {
    header = read_header(reader, layer);
  } else if (!layer.unversioned_allowed || layer.kind == WireKind::bounded) {
    return refuse(ErrorCode::unversioned_refused, 0, 0,
                  "the buffer does not begin with the magic, and this layer takes no record without a header");
  }
  const Arrays arrays = read_body(reader, layer, header);
  if (reader.refused()) return std::unexpected(*reader.fault());
  return copied_out(arrays, layer);
}

}  // namespace kvcert::reference
