// Decoding: the whole buffer is scanned, then memory is taken, then the layer changes.
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "optimized/binary16.hpp"
#include "optimized/buffer.hpp"
#include "optimized/failure.hpp"
#include "optimized/wire.hpp"

namespace kvcert::optimized {
namespace {

// Arrays travel by memcpy.
static_assert(std::endian::native == std::endian::little, "records are little-endian, and so must memory be");

void read_floats(std::span<float> to, const std::uint8_t* from, bool f16) {
  if (to.empty()) return;
  if (!f16) {
    std::memcpy(to.data(), from, to.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, from + 2 * i, 2);
    const std::uint32_t bits = from_binary16(half);
    std::memcpy(&to[i], &bits, 4);
  }
}

Buffer<float> read_linear(const std::uint8_t* bytes, const WireRecord& record) {
  Buffer<float> linear(record.linear_len);
  read_floats(linear.view(), bytes + record.linear_offset, false);
  return linear;
}

Sequence read_rows(const std::uint8_t* bytes, const WireRecord& record, const WireLayer& layer) {
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

  read_floats(rows.importance(), bytes + record.importance_offset, false);
  offset = record.heads_offset;
  for (std::size_t head = 0; head < layer.num_kv_heads; ++head) {
    const WireHead found = read_head(bytes, record, offset);
    read_floats(rows.keys(head), bytes + found.keys_offset, record.f16);
    read_floats(rows.values(head), bytes + found.values_offset, record.f16);
    offset = found.end;
  }
  return rows;
}

}  // namespace

Result<void> decode(std::span<const std::uint8_t> bytes, const WireLayer& layer, LayerData& data) {
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
    read_floats(data.ring->keys(), keys, record.f16);
    read_floats(data.ring->values(), keys + floats * (record.f16 ? 2 : 4), record.f16);
    return {};
  }
  Buffer<float> linear = read_linear(bytes.data(), record);
  if (data.kind == WireKind::full) {
    data.rows = read_rows(bytes.data(), record, layer);
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
