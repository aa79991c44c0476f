#include "optimized/wire_scan.hpp"

#include "kvcert/geometry.hpp"
#include "kvcert/wire.hpp"

namespace kvcert::optimized {
namespace {

/// Where the reader stands. at ≤ size always.
struct Cursor {
  const std::uint8_t* bytes;
  std::uint64_t size;
  std::uint64_t at;
  WireFault* fault;
};

bool refuse(Cursor* c, ErrorCode code, std::uint64_t expected, std::uint64_t found, std::uint64_t offset) {
  c->fault->code = code;
  c->fault->expected = expected;
  c->fault->found = found;
  c->fault->offset = offset;
  return false;
}

/// Do the next n bytes lie in the buffer? Then at moves past them.
bool take(Cursor* c, std::uint64_t n) {
  const std::uint64_t remaining = c->size - c->at;
  if (n > remaining) return refuse(c, ErrorCode::truncated, n, remaining, c->at);
  c->at += n;
  return true;
}

/// A little-endian integer of n ≤ 8 bytes that lie in the buffer.
std::uint64_t load(const std::uint8_t* bytes, std::uint64_t offset, std::uint64_t n) {
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < n; ++i) value |= static_cast<std::uint64_t>(bytes[offset + i]) << (8 * i);
  return value;
}

/// The next n-byte integer, any value.
bool field(Cursor* c, std::uint64_t n, std::uint64_t* value) {
  const std::uint64_t offset = c->at;
  if (!take(c, n)) return false;
  *value = load(c->bytes, offset, n);
  return true;
}

/// The next n-byte integer, which must be `accepted`.
bool exact_field(Cursor* c, std::uint64_t n, std::uint64_t accepted, ErrorCode code) {
  const std::uint64_t offset = c->at;
  std::uint64_t value = 0;
  if (!field(c, n, &value)) return false;
  if (value != accepted) return refuse(c, code, accepted, value, offset);
  return true;
}

/// The next n-byte integer, at most `largest`.
bool bounded_field(Cursor* c, std::uint64_t n, std::uint64_t largest, ErrorCode code, std::uint64_t* value) {
  const std::uint64_t offset = c->at;
  if (!field(c, n, value)) return false;
  if (*value > largest) return refuse(c, code, largest, *value, offset);
  return true;
}

bool has_magic(const Cursor* c) {
  if (c->size < 4) return false;
  for (std::uint64_t i = 0; i < 4; ++i)
    if (c->bytes[i] != wire::magic[i]) return false;
  return true;
}

/// The header behind the magic: flag and position.
bool scan_header(Cursor* c, const WireLayer& layer, std::uint64_t* flag, std::uint64_t* position) {
  if (!take(c, 4)) return false;  // the magic, seen already
  if (!exact_field(c, 4, wire::version, ErrorCode::bad_version)) return false;
  if (!exact_field(c, 8, layer.identity, ErrorCode::identity_mismatch)) return false;
  if (!exact_field(c, 4, layer.layer, ErrorCode::layer_mismatch)) return false;
  const std::uint64_t kind_offset = c->at;
  std::uint64_t kind = 0;
  if (!bounded_field(c, 1, static_cast<std::uint64_t>(WireKind::bounded), ErrorCode::unknown_kind, &kind)) return false;
  if (kind != layer.kind) return refuse(c, ErrorCode::kind_mismatch, layer.kind, kind, kind_offset);
  if (!bounded_field(c, 1, 1, ErrorCode::bad_flag, flag)) return false;
  if (!exact_field(c, 2, 0, ErrorCode::reserved_not_zero)) return false;
  return bounded_field(c, 8, max_count, ErrorCode::position_out_of_range, position);
}

/// One head's two arrays of full_length elements or none.
bool scan_head(Cursor* c, std::uint64_t full_length, std::uint64_t element_bytes) {
  const std::uint64_t offset = c->at;
  std::uint64_t k_len = 0;
  if (!field(c, 4, &k_len)) return false;
  if (k_len != 0 && k_len != full_length)
    return refuse(c, ErrorCode::inconsistent_length, full_length, k_len, offset);
  if (!take(c, k_len * element_bytes)) return false;  // below 2^32 · 4
  if (!exact_field(c, 4, k_len, ErrorCode::inconsistent_length)) return false;
  return take(c, k_len * element_bytes);
}

/// The body of kind full behind flag and seq_len, which are u32. `rows` of the seq_len positions have importance, keys
/// and values: all in a full layer, none in a linear one, which takes the unversioned body.
bool scan_full_body(Cursor* c, const WireLayer& layer, std::uint64_t rows, WireRecord* record) {
  if (!exact_field(c, 4, layer.num_kv_heads, ErrorCode::geometry_mismatch)) return false;
  if (!exact_field(c, 4, layer.head_dim, ErrorCode::geometry_mismatch)) return false;
  // Both are below 2^32 from here on, as rows is; no product below wraps.
  if (!field(c, 4, &record->linear_len)) return false;
  if (!exact_field(c, 4, rows, ErrorCode::inconsistent_length)) return false;
  record->linear_offset = c->at;
  if (!take(c, record->linear_len * 4)) return false;
  record->importance_offset = c->at;
  if (!take(c, rows * 4)) return false;
  record->heads_offset = c->at;
  // Every head takes 8 bytes or more, so a buffer that is too short ends this loop early.
  for (std::uint64_t head = 0; head < layer.num_kv_heads; ++head)
    if (!scan_head(c, rows * layer.head_dim, record->f16 ? 2 : 4)) return false;
  return true;
}

bool scan_linear_body(Cursor* c, const WireLayer& layer, WireRecord* record) {
  if (!exact_field(c, 4, layer.num_kv_heads, ErrorCode::geometry_mismatch)) return false;
  if (!exact_field(c, 4, layer.head_dim, ErrorCode::geometry_mismatch)) return false;
  if (!field(c, 4, &record->linear_len)) return false;
  record->linear_offset = c->at;
  return take(c, record->linear_len * 4);
}

/// One of the ring's two arrays: [KVH][W][HD]. Slots from `written` on hold zero bits.
bool scan_ring(Cursor* c, const WireLayer& layer, std::uint64_t written, std::uint64_t element_bytes) {
  const std::uint64_t begin = c->at;
  // The ring exists, so its floats are memory and this product is far below 2^64.
  if (!take(c, layer.num_kv_heads * layer.window * layer.head_dim * element_bytes)) return false;
  for (std::uint64_t head = 0; head < layer.num_kv_heads; ++head) {
    for (std::uint64_t i = written * layer.head_dim; i < layer.window * layer.head_dim; ++i) {
      const std::uint64_t offset = begin + (head * layer.window * layer.head_dim + i) * element_bytes;
      const std::uint64_t found = load(c->bytes, offset, element_bytes);
      if (found != 0) return refuse(c, ErrorCode::ring_slot_not_zero, 0, found, offset);
    }
  }
  return true;
}

bool scan_bounded_body(Cursor* c, const WireLayer& layer, WireRecord* record) {
  if (!exact_field(c, 4, layer.num_kv_heads, ErrorCode::geometry_mismatch)) return false;
  if (!exact_field(c, 4, layer.head_dim, ErrorCode::geometry_mismatch)) return false;
  if (!exact_field(c, 4, layer.window, ErrorCode::geometry_mismatch)) return false;
  const std::uint64_t length = record->seq_len < layer.window ? record->seq_len : layer.window;
  if (!exact_field(c, 4, length, ErrorCode::ring_cursor_mismatch)) return false;
  if (!exact_field(c, 4, record->seq_len % layer.window, ErrorCode::ring_cursor_mismatch)) return false;
  record->ring_offset = c->at;
  if (!scan_ring(c, layer, length, record->f16 ? 2 : 4)) return false;
  return scan_ring(c, layer, length, record->f16 ? 2 : 4);
}

bool scan_versioned(Cursor* c, const WireLayer& layer, WireRecord* record) {
  std::uint64_t flag = 0;
  if (!scan_header(c, layer, &flag, &record->seq_len)) return false;
  record->f16 = flag == 1;
  if (layer.kind == static_cast<std::uint8_t>(WireKind::linear)) return scan_linear_body(c, layer, record);
  if (layer.kind == static_cast<std::uint8_t>(WireKind::bounded)) return scan_bounded_body(c, layer, record);
  if (!exact_field(c, 4, flag, ErrorCode::bad_flag)) return false;
  if (!exact_field(c, 4, record->seq_len, ErrorCode::position_mismatch)) return false;
  return scan_full_body(c, layer, record->seq_len, record);
}

bool scan_unversioned(Cursor* c, const WireLayer& layer, WireRecord* record) {
  if (!layer.unversioned_allowed || layer.kind == static_cast<std::uint8_t>(WireKind::bounded))
    return refuse(c, ErrorCode::unversioned_refused, 0, 0, 0);
  std::uint64_t flag = 0;
  if (!bounded_field(c, 4, 1, ErrorCode::bad_flag, &flag)) return false;
  record->f16 = flag == 1;
  if (!field(c, 4, &record->seq_len)) return false;
  const bool linear = layer.kind == static_cast<std::uint8_t>(WireKind::linear);
  return scan_full_body(c, layer, linear ? 0 : record->seq_len, record);
}

}  // namespace

bool scan_record(const std::uint8_t* bytes, std::uint64_t size, const WireLayer& layer, WireRecord* record,
                 WireFault* fault) {
  Cursor cursor = {bytes, size, 0, fault};
  Cursor* c = &cursor;
  *record = WireRecord{};
  if (!(has_magic(c) ? scan_versioned(c, layer, record) : scan_unversioned(c, layer, record))) return false;
  if (c->at != size) return refuse(c, ErrorCode::trailing_bytes, c->at, size, c->at);
  return true;
}

WireHead read_head(const std::uint8_t* bytes, const WireRecord& record, std::uint64_t offset) {
  WireHead head = {};
  head.length = load(bytes, offset, 4);
  const std::uint64_t array_bytes = head.length * (record.f16 ? 2 : 4);
  head.keys_offset = offset + 4;
  head.values_offset = head.keys_offset + array_bytes + 4;
  head.end = head.values_offset + array_bytes;
  return head;
}

}  // namespace kvcert::optimized
