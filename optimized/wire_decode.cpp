// Decoding: the whole buffer is scanned, then memory is taken, then the layer changes.
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kvcert/geometry.hpp"
#include "kvcert/wire.hpp"
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

// The scanning core is C and knows nothing of the rest: what it shares with it is held together here.
static_assert(KVCERT_WIRE_FULL == static_cast<int>(WireKind::full) &&
              KVCERT_WIRE_LINEAR == static_cast<int>(WireKind::linear) &&
              KVCERT_WIRE_BOUNDED == static_cast<int>(WireKind::bounded));
static_assert(wire::magic == std::array<std::uint8_t, 4>{0x43, 0x4D, 0x46, 0x53} && wire::version == 2 &&
              wire::header_bytes == 32 && max_count == 0x7FFFFFFFFFFFFFFF);

constexpr ErrorCode code_of(std::uint64_t of_scan) {
  return static_cast<ErrorCode>(static_cast<std::uint64_t>(ErrorCode::truncated) + of_scan);
}
static_assert(code_of(KVCERT_WIRE_TRUNCATED) == ErrorCode::truncated);
static_assert(code_of(KVCERT_WIRE_BAD_VERSION) == ErrorCode::bad_version);
static_assert(code_of(KVCERT_WIRE_IDENTITY_MISMATCH) == ErrorCode::identity_mismatch);
static_assert(code_of(KVCERT_WIRE_LAYER_MISMATCH) == ErrorCode::layer_mismatch);
static_assert(code_of(KVCERT_WIRE_UNKNOWN_KIND) == ErrorCode::unknown_kind);
static_assert(code_of(KVCERT_WIRE_KIND_MISMATCH) == ErrorCode::kind_mismatch);
static_assert(code_of(KVCERT_WIRE_BAD_FLAG) == ErrorCode::bad_flag);
static_assert(code_of(KVCERT_WIRE_RESERVED_NOT_ZERO) == ErrorCode::reserved_not_zero);
static_assert(code_of(KVCERT_WIRE_POSITION_OUT_OF_RANGE) == ErrorCode::position_out_of_range);
static_assert(code_of(KVCERT_WIRE_POSITION_MISMATCH) == ErrorCode::position_mismatch);
static_assert(code_of(KVCERT_WIRE_GEOMETRY_MISMATCH) == ErrorCode::geometry_mismatch);
static_assert(code_of(KVCERT_WIRE_INCONSISTENT_LENGTH) == ErrorCode::inconsistent_length);
static_assert(code_of(KVCERT_WIRE_RING_CURSOR_MISMATCH) == ErrorCode::ring_cursor_mismatch);
static_assert(code_of(KVCERT_WIRE_RING_SLOT_NOT_ZERO) == ErrorCode::ring_slot_not_zero);
static_assert(code_of(KVCERT_WIRE_TRAILING_BYTES) == ErrorCode::trailing_bytes);
static_assert(code_of(KVCERT_WIRE_UNVERSIONED_REFUSED) == ErrorCode::unversioned_refused);

Buffer<float> read_linear(const std::uint8_t* bytes, const KvcertWireRecord& record) {
  Buffer<float> linear(record.linear_len);
  read_f32(linear.view(), bytes + record.linear_offset);
  return linear;
}

Sequence read_rows(std::span<const std::uint8_t> bytes, const KvcertWireRecord& record, const WireLayer& layer,
                   const kernels::Binary16Kernels& kernels) {
  // One entry a head; each of them has 8 bytes or more in the buffer.
  std::vector<KvcertWireHead> heads(layer.num_kv_heads);
  kvcert_wire_heads(bytes.data(), bytes.size(), &record, heads.data(), heads.size());
  Buffer<std::uint8_t> alive(heads.size());
  for (std::size_t head = 0; head < heads.size(); ++head) alive.data()[head] = heads[head].length == 0 ? 0 : 1;
  const Geometry geometry{static_cast<std::size_t>(layer.num_kv_heads), static_cast<std::size_t>(layer.head_dim)};
  Sequence rows(geometry, KvMode::f32, record.seq_len, alive.view());
  if (record.seq_len == 0) return rows;

  const bool f16 = record.element_bytes == 2;
  read_f32(rows.importance(), bytes.data() + record.importance_offset);
  for (std::size_t head = 0; head < heads.size(); ++head) {
    read_elements(rows.keys(head), bytes.data() + heads[head].keys_offset, f16, kernels);
    read_elements(rows.values(head), bytes.data() + heads[head].values_offset, f16, kernels);
  }
  return rows;
}

}  // namespace

Result<void> decode(std::span<const std::uint8_t> bytes, const WireLayer& layer, LayerData& data,
                    const kernels::Binary16Kernels& kernels) {
  KvcertWireRecord record = {};
  KvcertWireFault fault = {};
  if (kvcert_wire_scan(bytes.data(), bytes.size(), layer, &record, &fault) == 0) {
    const ErrorCode code = code_of(fault.code);
    return std::unexpected(Error{.code = code, .expected = fault.expected, .found = fault.found, .offset = fault.offset,
                                 .message = "record refused at byte " + std::to_string(fault.offset) + ": " +
                                            std::string(name(code)) + ", expected " + std::to_string(fault.expected) +
                                            ", found " + std::to_string(fault.found)});
  }
  // Every length below was shown to lie in the buffer.
  if (data.kind == WireKind::bounded) {
    // In place, the ring's memory being there already.
    data.ring->reset(record.seq_len);
    const bool f16 = record.element_bytes == 2;
    const std::size_t floats = data.ring->keys().size();
    const std::uint8_t* keys = bytes.data() + record.ring_offset;
    read_elements(data.ring->keys(), keys, f16, kernels);
    read_elements(data.ring->values(), keys + floats * record.element_bytes, f16, kernels);
    return {};
  }
  Buffer<float> linear = read_linear(bytes.data(), record);
  if (data.kind == WireKind::full) {
    data.rows = read_rows(bytes, record, layer, kernels);
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
