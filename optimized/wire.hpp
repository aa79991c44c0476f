// Sequence state to and from the CMFS record. docs/wire.md is the specification.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcert/error.hpp"
#include "kvcert/geometry.hpp"
#include "optimized/layer_data.hpp"
#include "optimized/wire_scan.h"

namespace kvcert::optimized {

namespace kernels {
struct Binary16Kernels;
}
/// What the layer accepts.
using WireLayer = KvcertWireLayer;

/// Bytes of the kind-full record with these sizes; allocates nothing (but the error's message). live_heads beyond
/// num_kv_heads count as num_kv_heads. Errors: length_overflow, by the first field in record order that does not fit;
/// invalid_argument where all fields do and their sum exceeds 2^63 − 1.
Result<std::uint64_t> record_bytes(Geometry geometry, std::uint64_t seq_len, std::uint64_t live_heads,
                                   std::uint64_t recurrent_floats, WireFormat format);

/// The version-2 record of data's kind, which has rows of f32 and no overlay. Errors, in this order: length_overflow,
/// f16_overflow. Throws std::bad_alloc, std::length_error.
Result<std::vector<std::uint8_t>> encode(const LayerData& data, const WireLayer& layer, WireFormat format,
                                         const kernels::Binary16Kernels& kernels);

/// data becomes what a record, or an unversioned body, of its kind describes. The whole buffer is checked before memory
/// is taken. Errors: those of wire.md. Throws std::bad_alloc. After either nothing has changed.
Result<void> decode(std::span<const std::uint8_t> bytes, const WireLayer& layer, LayerData& data,
                    const kernels::Binary16Kernels& kernels);

}  // namespace kvcert::optimized
