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

/// Where the arrays of a record lie in its buffer.
struct Arrays {
  struct Head {
    Bytes keys;
    Bytes values;
  };
  std::uint32_t seq_len = 0;
  std::size_t element_bytes = 4;  ///< of keys and values
  Bytes linear_state;
  Bytes importance;
  std::vector<Head> heads;
};

/// What a header says that the body must repeat.
struct Header {
  std::uint8_t f16;
  std::uint64_t position;
};

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
  constexpr auto own_kind = static_cast<std::uint64_t>(WireKind::full);
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

/// The kind-0 body. Without a header (an unversioned body) flag and seq_len stand for themselves.
Arrays read_body(WireReader& reader, const WireLayer& layer, const std::optional<Header>& header) {
  const auto& [num_kv_heads, head_dim] = layer.geometry;
  Arrays arrays;

  const std::uint32_t f16 = reader.u32("body f16 flag");
  if (header) {
    reader.require(f16 == header->f16, ErrorCode::bad_flag, header->f16, f16);
  } else {
    reader.require(f16 <= 1, ErrorCode::bad_flag, 1, f16);
  }
  arrays.element_bytes = f16 == 1 ? 2 : 4;

  arrays.seq_len = reader.u32("seq_len");
  if (header) {
    reader.require(arrays.seq_len == header->position, ErrorCode::position_mismatch, header->position, arrays.seq_len);
  }
  const std::uint32_t heads = reader.u32("num_kv_heads");
  reader.require(heads == num_kv_heads, ErrorCode::geometry_mismatch, num_kv_heads, heads);
  const std::uint32_t dim = reader.u32("head_dim");
  reader.require(dim == head_dim, ErrorCode::geometry_mismatch, head_dim, dim);
  const std::uint32_t linear_len = reader.u32("linear_len");
  const std::uint32_t imp_len = reader.u32("imp_len");
  reader.require(imp_len == arrays.seq_len, ErrorCode::inconsistent_length, arrays.seq_len, imp_len);
  arrays.linear_state = reader.array("recurrent vector", linear_len, 4);
  arrays.importance = reader.array("importance", imp_len, 4);

  const std::uint64_t full_len = std::uint64_t{arrays.seq_len} * dim;  // two 32-bit factors: no wrap
  // A head needs at least its two length fields, so this list, too, is no longer than the buffer.
  for (std::uint32_t h = 0; h < heads && !reader.refused(); ++h) {
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

/// Elements of 4 bytes are binary32, of 2 binary16.
std::vector<float> floats(Bytes bytes, std::size_t element_bytes) {
  std::vector<float> result;
  result.reserve(bytes.size() / element_bytes);
  for (std::size_t at = 0; at < bytes.size(); at += element_bytes) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < element_bytes; ++i) bits |= std::uint32_t{bytes[at + i]} << (8 * i);
    if (element_bytes == 2) bits = binary32_from_binary16(static_cast<std::uint16_t>(bits));
    result.push_back(std::bit_cast<float>(bits));
  }
  return result;
}

SequenceState copied_out(const Arrays& arrays) {
  SequenceState state = empty_state(arrays.heads.size());
  state.seq_len = arrays.seq_len;
  state.linear_state = floats(arrays.linear_state, 4);
  state.importance = floats(arrays.importance, 4);
  for (std::size_t h = 0; h < arrays.heads.size(); ++h) {
    state.heads[h].keys = floats(arrays.heads[h].keys, arrays.element_bytes);
    state.heads[h].values = floats(arrays.heads[h].values, arrays.element_bytes);
    state.alive[h] = arrays.heads[h].keys.empty() ? 0 : 1;
  }
  return state;
}

}  // namespace

Result<SequenceState> decode(std::span<const std::uint8_t> buffer, const WireLayer& layer) {
  WireReader reader(buffer);
  std::optional<Header> header;
  if (is_versioned(buffer)) {
    header = read_header(reader, layer);
  } else if (!layer.unversioned_allowed) {
    return refuse(ErrorCode::unversioned_refused, 0, 0,
                  "the buffer does not begin with the magic, and this layer takes no record without a header");
  }
  const Arrays arrays = read_body(reader, layer, header);
  if (reader.refused()) return std::unexpected(*reader.fault());
  return copied_out(arrays);
}

}  // namespace kvcert::reference
