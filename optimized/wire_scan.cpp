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

}  // namespace

bool scan_record(const std::uint8_t* bytes, std::uint64_t size, const WireLayer& layer, WireRecord* record,
                 WireFault* fault) {
  Cursor cursor = {bytes, size, 0, fault};
  Cursor* c = &cursor;
  std::uint64_t flag = 0;
  std::uint64_t seq_len = 0;

  if (has_magic(c)) {
    std::uint64_t position = 0;
    if (!scan_header(c, layer, &flag, &position)) return false;
    if (!exact_field(c, 4, flag, ErrorCode::bad_flag)) return false;
    if (!exact_field(c, 4, position, ErrorCode::position_mismatch)) return false;
    seq_len = position;
  } else {
    if (!layer.unversioned_allowed) return refuse(c, ErrorCode::unversioned_refused, 0, 0, 0);
    if (!bounded_field(c, 4, 1, ErrorCode::bad_flag, &flag)) return false;
    if (!field(c, 4, &seq_len)) return false;
  }
  // seq_len < 2^32 from here on: it was read from, or is equal to, a u32.
  if (!exact_field(c, 4, layer.num_kv_heads, ErrorCode::geometry_mismatch)) return false;
  if (!exact_field(c, 4, layer.head_dim, ErrorCode::geometry_mismatch)) return false;
  // So are num_kv_heads and head_dim; no product below wraps.
  std::uint64_t linear_len = 0;
  if (!field(c, 4, &linear_len)) return false;
  if (!exact_field(c, 4, seq_len, ErrorCode::inconsistent_length)) return false;

  record->f16 = flag == 1;
  record->seq_len = seq_len;
  record->linear_len = linear_len;
  record->linear_offset = c->at;
  if (!take(c, linear_len * 4)) return false;
  record->importance_offset = c->at;
  if (!take(c, seq_len * 4)) return false;
  record->heads_offset = c->at;
  // Every head takes 8 bytes or more, so a buffer that is too short ends this loop early.
  for (std::uint64_t head = 0; head < layer.num_kv_heads; ++head)
    if (!scan_head(c, seq_len * layer.head_dim, flag == 1 ? 2 : 4)) return false;
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
