// The CMFS record of a layer, version 2, and the older unversioned body: docs/wire.md, as code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcert/error.hpp"
#include "kvcert/geometry.hpp"
#include "reference/sequence_state.hpp"

namespace kvcert::reference {

/// What a layer asks of a record, and writes into one.
struct WireLayer {
  Geometry geometry;
  std::uint64_t identity = 0;
  std::uint32_t layer = 0;
  bool unversioned_allowed = true;
  WireKind kind = WireKind::full;
  std::size_t window = 0;  ///< of the ring; at least 1 where kind is bounded
};

/// The sequence state that a record describes. The whole buffer is checked before any row is copied.
/// Errors: every decoding code of the layer's kind. Throws std::bad_alloc, only for lengths that lie inside the buffer.
Result<SequenceState> decode(std::span<const std::uint8_t> buffer, const WireLayer& layer);

/// The version-2 record of a state that fits the layer: f32 rows, a ring where the kind is bounded.
/// Errors: not_describable (int8 storage, an O(1) overlay), length_overflow, then f16_overflow. Throws std::bad_alloc.
Result<std::vector<std::uint8_t>> encode(const SequenceState& state, const WireLayer& layer, WireFormat format);

/// The length of the record of a layer of kind full, from sizes alone.
/// Errors: length_overflow (the first field in record order that does not fit its u32), invalid_argument (the record
/// would be longer than 2^63 − 1 bytes).
Result<std::uint64_t> record_bytes(const Geometry& geometry, std::uint64_t seq_len, std::uint64_t live_heads,
                                   std::uint64_t linear_len, WireFormat format);

}  // namespace kvcert::reference
