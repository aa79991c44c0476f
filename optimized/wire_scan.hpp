// The decoder's judgement of a buffer: is it a kind-full record of this layer, and where do its parts lie.
//
// Plain structs, plain loops, no allocation, no container: every read is of bytes [at, at + n) after at + n ≤ size was
// shown, and every length is compared in 64 bits with what remains. docs/wire.md is the specification.
#pragma once

#include <cstdint>

#include "kvcert/error.hpp"

namespace kvcert::optimized {

/// What the layer accepts.
struct WireLayer {
  std::uint64_t identity;
  std::uint32_t layer;
  std::uint8_t kind;
  bool unversioned_allowed;
  std::uint64_t num_kv_heads;  ///< ≥ 1
  std::uint64_t head_dim;      ///< ≥ 1
};

/// An accepted record: lengths in elements, offsets in bytes from the start of the buffer.
struct WireRecord {
  bool f16;
  std::uint64_t seq_len;
  std::uint64_t linear_len;
  std::uint64_t linear_offset;      ///< f32 × linear_len
  std::uint64_t importance_offset;  ///< f32 × seq_len
  std::uint64_t heads_offset;       ///< per head: u32 k_len, keys, u32 v_len, values
};

/// The first fault, as an Error carries it.
struct WireFault {
  ErrorCode code;
  std::uint64_t expected;
  std::uint64_t found;
  std::uint64_t offset;
};

/// One head of an accepted record. length is 0 or seq_len × head_dim.
struct WireHead {
  std::uint64_t length;
  std::uint64_t keys_offset;
  std::uint64_t values_offset;
  std::uint64_t end;  ///< where the next head begins
};

/// Reads bytes[0, size) and nothing else. True: the buffer is a record of this layer, *record describes it. False:
/// *fault is the first fault in byte order. bytes may be null where size is 0.
bool scan_record(const std::uint8_t* bytes, std::uint64_t size, const WireLayer& layer, WireRecord* record,
                 WireFault* fault);

/// The head that begins at offset, in a buffer and record that scan_record accepted.
WireHead read_head(const std::uint8_t* bytes, const WireRecord& record, std::uint64_t offset);

}  // namespace kvcert::optimized
