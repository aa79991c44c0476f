// The layer as a record, and back.
#include "optimized/failure.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "optimized/wire.hpp"

namespace kvcert::optimized {
namespace {

WireLayer wire_layer_of(const LayerKvCache& layer) {
  return {.identity = layer.wire_identity(),
          .layer = layer.wire_layer(),
          .kind = static_cast<std::uint8_t>(layer.wire_kind()),
          .unversioned_allowed = layer.linear_wire_allowed(),
          .num_kv_heads = layer.geometry().num_kv_heads,
          .head_dim = layer.geometry().head_dim,
          .window = layer.bounded_window()};
}

}  // namespace

Result<std::vector<std::uint8_t>> LayerKvCache::export_wire(WireFormat format) const {
  return catching_memory([&]() -> Result<std::vector<std::uint8_t>> {
    const bool overlay = data_.o1.phase != O1Overlay::Phase::none;
    if (overlay || mode() != KvMode::f32)
      return failure(ErrorCode::not_describable, 0, 0,
                     overlay ? "no record describes an O(1) overlay" : "no record describes int8 storage");
    return encode(data_, wire_layer_of(*this), format, *kernels_->binary16);
  });
}

Result<void> LayerKvCache::import_wire(std::span<const std::uint8_t> bytes) {
  return catching_memory([&] { return decode(bytes, wire_layer_of(*this), data_, *kernels_->binary16); });
}

Result<std::uint64_t> LayerKvCache::wire_bytes(Geometry geometry, std::uint64_t seq_len, std::size_t live_heads,
                                               std::uint64_t recurrent_floats, WireFormat format) {
  return catching_memory([&] { return record_bytes(geometry, seq_len, live_heads, recurrent_floats, format); });
}

}  // namespace kvcert::optimized
