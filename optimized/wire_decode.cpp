// Decoding: the whole buffer is scanned, then memory is taken, then the layer changes.
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "optimized/buffer.hpp"
#include "optimized/failure.hpp"
#include "optimized/float_environment.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/wire.hpp"

namespace kvcert::optimized {
namespace {

// Arrays travel by memcpy.
static_assert(std::endian::native == std::endian::little, "records are little-endian, and so must memory be");

void read_f32(std::span<float> to, const std::uint8_t* from) {
  if (!to.empty()) std::memcpy(to.data(), from, to.size_bytes());
}

void read_elements(std::span<float> to, const std::uint8_t* from, bool f16, const kernels::Binary16Kernels& kernels) {
  if (!f16) return read_f32(to, from);
  const FloatEnvironment standard;  // the instruction that converts leaves exception flags
  kernels.widen(from, to.data(), to.size());
}

Buffer<float> read_linear(const std::uint8_t* bytes, const WireRecord& record) {
  Buffer<float> linear(record.linear_len);
  read_f32(linear.view(), bytes + record.linear_offset);
  return linear;
}

Sequence read_rows(const std::uint8_t* bytes, const WireRecord& record, const WireLayer& layer,
                   const kernels::Binary16Kernels& kernels) {
  Buffer<std::uint8_t> alive(layer.num_kv_heads);
  std::uint64_t offset = record.heads_offset;
  for (std::size_t head = 0; head < layer.num_kv_heads; ++head) {
    const WireHead found = read_head(bytes, record, offset);
    alive.data()[head] = found.length == 0 ? 0 : 1;
    offset = found.end;
  }
  const Geometry geometry{static_cast<std::size_t>(layer.num_kv_heads), static_cast<std::size_t>(layer.head_dim)};
  Sequence rows(geometry, KvMode::f32, record.seq_len, alive.view());
  if (record.seq_len == 0) return rows;

  read_f32(rows.importance(), bytes + record.importance_offset);
  offset = record.heads_offset;
  for (std::size_t head = 0; head < layer.num_kv_heads; ++head) {
    const WireHead found = read_head(bytes, record, offset);
    read_elements(rows.keys(head), bytes + found.keys_offset, record.f16, kernels);
    read_elements(rows.values(head), bytes + found.values_offset, record.f16, kernels);
    offset = found.end;
  }
  return rows;
}

}  // namespace

Result<void> decode(std::span<const std::uint8_t> bytes, const WireLayer& layer, LayerData& data,
                    const kernels::Binary16Kernels& kernels) {
  WireRecord record = {};
  WireFault fault = {};
  if (!scan_record(bytes.data(), bytes.size(), layer, &record, &fault)) {
    return std::unexpected(Error{.code = fault.code, .expected = fault.expected, .found = fault.found, .offset = fault.offset,
                                 .message = "record refused at byte " + std::to_string(fault.offset) + ": " +
                                            std::string(name(fault.code)) + ", expected " + std::to_string(fault.expected) +
                                            ", found " + std::to_string(fault.found)});
  }
  // Every length below was shown to lie in the buffer.
  if (data.kind == WireKind::bounded) {
    // In place, the ring's memory being there already.
    data.ring->reset(record.seq_len);
    const std::size_t floats = data.ring->keys().size();
    const std::uint8_t* keys = bytes.data() + record.ring_offset;
    read_elements(data.ring->keys(), keys, record.f16, kernels);
    read_elements(data.ring->values(), keys + floats * (record.f16 ? 2 : 4), record.f16, kernels);
    return {};
  }
  Buffer<float> linear = read_linear(bytes.data(), record);
  if (data.kind == WireKind::full) {
    data.rows = read_rows(bytes.data(), record, layer, kernels);
    data.o1 = {};
    data.counter = 0;
    data.rowless_alive = {};
  } else {
    data.counter = record.seq_len;
  }
  data.recurrence.state.swap(linear);
  data.recurrence.scratch.reset();
  return {};
}

}  // namespace kvcert::optimized
