// Errors of the contract: a code for programs, the values that disagree, and a sentence for a person.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace kvcert {

/// Why a call was refused. A refused call has changed nothing.
///
/// When several faults are present the cache reports the first of: wrong_state, head_out_of_range, shape_mismatch,
/// invalid_argument, alive_changed, counter_exhausted, undo_exhausted or irreversible, non_finite, out_of_memory.
/// A decoder reports the first fault in byte order (docs/wire.md).
enum class ErrorCode : std::uint8_t {
  // The cache.
  wrong_state,        ///< the layer is not in a state that has this operation
  head_out_of_range,  ///< KV head index ≥ num_kv_heads
  shape_mismatch,     ///< a length that does not fit the geometry
  invalid_argument,   ///< a bad scalar, a product of sizes over 2^63 − 1, or an output that overlaps something
  alive_changed,      ///< the live heads differ from those of the sequence's first append
  counter_exhausted,  ///< seq_len would exceed 2^63 − 1
  undo_exhausted,     ///< the ring has no rollback rows left for this depth
  irreversible,       ///< a recurrent or sealed state cannot be taken back
  non_finite,         ///< int8 storage was given, or would produce, a value that is not finite
  not_describable,    ///< no record describes this layer's storage
  out_of_memory,      ///< memory could not be had
  // The wire, decoding.
  truncated,               ///< a field does not lie wholly in the buffer
  bad_version,             ///< version is not 2
  identity_mismatch,       ///< the record belongs to another model operator
  layer_mismatch,          ///< the record belongs to another layer
  unknown_kind,            ///< kind is none of full, linear, bounded
  kind_mismatch,           ///< a known kind, not the layer's
  bad_flag,                ///< an f16 flag above 1, or header and body flags that disagree
  reserved_not_zero,       ///< reserved bits are set
  position_out_of_range,   ///< position over 2^63 − 1
  position_mismatch,       ///< seq_len is not the header's position
  geometry_mismatch,       ///< num_kv_heads, head_dim or window differ from the layer's
  inconsistent_length,     ///< a length that contradicts seq_len, head_dim or its partner
  ring_cursor_mismatch,    ///< ring length or head contradict the position
  ring_slot_not_zero,      ///< a ring slot that was never written holds something
  trailing_bytes,          ///< bytes after the end of the record
  unversioned_refused,     ///< the layer does not take records without a header
  // The wire, encoding.
  length_overflow,  ///< a length does not fit its 32-bit field
  f16_overflow,     ///< a finite value would become infinite as binary16
};

/// The code's name as it is spelled in the enum.
constexpr std::string_view name(ErrorCode code) {
  constexpr std::string_view names[] = {
      "wrong_state",         "head_out_of_range",   "shape_mismatch",    "invalid_argument",  "alive_changed",
      "counter_exhausted",   "undo_exhausted",      "irreversible",      "non_finite",        "not_describable",
      "out_of_memory",       "truncated",           "bad_version",       "identity_mismatch", "layer_mismatch",
      "unknown_kind",        "kind_mismatch",       "bad_flag",          "reserved_not_zero", "position_out_of_range",
      "position_mismatch",   "geometry_mismatch",   "inconsistent_length", "ring_cursor_mismatch",
      "ring_slot_not_zero",  "trailing_bytes",      "unversioned_refused", "length_overflow", "f16_overflow"};
  return names[static_cast<std::size_t>(code)];
}

/// Which of a head's two arrays an encoder error points into.
enum class Tensor : std::uint8_t { none, keys, values };

struct Error {
  ErrorCode code{};
  /// The two values that disagree. Cache calls: what the geometry asks for, and what was given. Wire: docs/wire.md
  /// fixes both per code. 0 where a code has no such pair, or where the values are not integers (the message has them).
  std::uint64_t expected = 0;
  std::uint64_t found = 0;
  /// Wire decoding only: the byte offset of the offending field (ring_slot_not_zero: of the offending element).
  std::uint64_t offset = 0;
  /// f16_overflow only: the first value in record order that does not fit, by tensor, KV head and index in its array.
  Tensor tensor = Tensor::none;
  std::uint64_t head = 0;
  std::uint64_t element = 0;
  /// A sentence that names the argument or field and the values at fault. Not compared, not parsed.
  std::string message;
};

/// Everything a program may rely on; the wording of the message is not part of it.
constexpr bool same_verdict(const Error& a, const Error& b) {
  return a.code == b.code && a.expected == b.expected && a.found == b.found && a.offset == b.offset &&
         a.tensor == b.tensor && a.head == b.head && a.element == b.element;
}

template <class T>
using Result = std::expected<T, Error>;

}  // namespace kvcert
