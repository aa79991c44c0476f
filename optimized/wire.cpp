// Encoding.
#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "kvcert/wire.hpp"
#include "optimized/binary16.hpp"
#include "optimized/failure.hpp"
#include "optimized/float_bits.hpp"
#include "optimized/float_environment.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/wire.hpp"

namespace kvcert::optimized {
namespace {

// Arrays travel by memcpy, integers by shifts.
static_assert(std::endian::native == std::endian::little, "records are little-endian, and so must memory be");

std::uint64_t element_bytes(WireFormat format) { return format == WireFormat::f16 ? 2 : 4; }

/// A u32 of the record.
struct Field {
  const char* name;
  std::uint64_t value;
};

Result<void> check_field(Field field) {
  if (field.value <= wire::max_length) return {};
  return failure(ErrorCode::length_overflow, wire::max_length, field.value,
                 std::string(field.name) + " would be " + std::to_string(field.value) + ", more than 32 bits hold");
}

/// Appends to a record whose memory is reserved: each byte is written once, and first.
class Writer {
 public:
  Writer(std::vector<std::uint8_t>& bytes, const kernels::Binary16Kernels& kernels) : bytes_(bytes), kernels_(kernels) {}

  void integer(std::uint64_t value, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) bytes_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  void f32(std::span<const float> values) { append(reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()); }
  void f16(std::span<const float> values) {
    std::array<std::uint8_t, 8192> piece;  // stays in the first-level cache
    while (!values.empty()) {
      const auto some = values.first(std::min(values.size(), piece.size() / 2));
      {
        const FloatEnvironment standard;  // the instruction that converts leaves exception flags
        overflow_ |= kernels_.narrow(some.data(), piece.data(), some.size());
      }
      append(piece.data(), 2 * some.size());
      values = values.subspan(some.size());
    }
  }
  /// Whether f16() met a finite value that became infinite.
  bool overflow() const { return overflow_; }
  void elements(std::span<const float> values, WireFormat format) {
    format == WireFormat::f16 ? f16(values) : f32(values);
  }
  void header(const WireLayer& layer, WireFormat format, std::uint64_t position) {
    for (const std::uint8_t byte : wire::magic) integer(byte, 1);
    integer(wire::version, 4);
    integer(layer.identity, 8);
    integer(layer.layer, 4);
    integer(layer.kind, 1);
    integer(format == WireFormat::f16 ? 1 : 0, 1);
    integer(0, 2);  // reserved
    integer(position, 8);
  }

 private:
  void append(const std::uint8_t* from, std::size_t n) { bytes_.insert(bytes_.end(), from, from + n); }

  std::vector<std::uint8_t>& bytes_;
  const kernels::Binary16Kernels& kernels_;
  bool overflow_ = false;
};

Result<void> check_fits_f16(std::span<const float> values, Tensor tensor, std::size_t head) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = float_bits(values[i]);
    if (!overflows_binary16(bits)) continue;
    return std::unexpected(Error{
        .code = ErrorCode::f16_overflow, .expected = binary16_largest, .found = bits, .tensor = tensor, .head = head,
        .element = i,
        .message = std::string(tensor == Tensor::keys ? "key" : "value") + " element " + std::to_string(i) + " of head " +
                   std::to_string(head) + " is finite and would be infinite as binary16"});
  }
  return {};
}

}  // namespace

Result<std::uint64_t> record_bytes(Geometry geometry, std::uint64_t seq_len, std::uint64_t live_heads,
                                   std::uint64_t recurrent_floats, WireFormat format) {
  const std::uint64_t heads = geometry.num_kv_heads;
  const std::uint64_t live = seq_len == 0 ? 0 : live_heads < heads ? live_heads : heads;
  for (const Field field : {Field{"seq_len", seq_len}, Field{"num_kv_heads", heads}, Field{"head_dim", geometry.head_dim},
                            Field{"linear_len", recurrent_floats}, Field{"imp_len", seq_len},
                            // Reached with both below 2^32, so that this product has not wrapped where it is looked at.
                            Field{"k_len", live == 0 ? 0 : seq_len * geometry.head_dim}}) {
    if (auto fits = check_field(field); !fits) return std::unexpected(fits.error());
  }
  // heads, live < 2^32 and the array below 2^34 bytes: live · array may need 67 bits and is compared before it is
  // formed.
  const std::uint64_t fixed = wire::header_bytes + 6 * 4 + 4 * recurrent_floats + 4 * seq_len + 8 * heads;  // < 2^37
  const std::uint64_t head = live == 0 ? 0 : 2 * seq_len * geometry.head_dim * element_bytes(format);
  if (head != 0 && live > (max_count - fixed) / head)
    return failure(ErrorCode::invalid_argument, max_count, 0, "the record would be longer than 2^63 - 1 bytes");
  return fixed + live * head;
}

namespace {

/// Memory for a record. Where there is none, a value that does not fit binary16 is the first fault all the same; else it
/// is looked for only once the conversion has met one.
template <class CheckFits>
Result<void> reserve(std::vector<std::uint8_t>& bytes, std::uint64_t size, const CheckFits& check_fits) {
  const auto no_memory = [&]() -> Result<void> {
    if (auto fits = check_fits(); !fits) return fits;
    throw std::bad_alloc();
  };
  try {
    bytes.reserve(size);
    return {};
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const std::length_error&) {
    return no_memory();
  }
}

Result<std::vector<std::uint8_t>> encode_full(const LayerData& data, const WireLayer& layer, WireFormat format,
                                              const kernels::Binary16Kernels& kernels) {
  const Geometry geometry{static_cast<std::size_t>(layer.num_kv_heads), static_cast<std::size_t>(layer.head_dim)};
  const Sequence& rows = data.rows;
  const auto linear = data.recurrence.state.view();
  const auto size = record_bytes(geometry, rows.length(), rows.live_heads(), linear.size(), format);
  if (!size) return std::unexpected(size.error());
  const auto check_fits = [&]() -> Result<void> {
    for (std::size_t head = 0; format == WireFormat::f16 && head < geometry.num_kv_heads; ++head) {
      if (auto fits = check_fits_f16(rows.keys(head), Tensor::keys, head); !fits) return fits;
      if (auto fits = check_fits_f16(rows.values(head), Tensor::values, head); !fits) return fits;
    }
    return {};
  };

  std::vector<std::uint8_t> bytes;
  if (auto reserved = reserve(bytes, *size, check_fits); !reserved) return std::unexpected(reserved.error());
  Writer writer(bytes, kernels);
  writer.header(layer, format, rows.length());
  writer.integer(format == WireFormat::f16 ? 1 : 0, 4);
  writer.integer(rows.length(), 4);
  writer.integer(geometry.num_kv_heads, 4);
  writer.integer(geometry.head_dim, 4);
  writer.integer(linear.size(), 4);
  writer.integer(rows.importance().size(), 4);
  writer.f32(linear);
  writer.f32(rows.importance());
  for (std::size_t head = 0; head < geometry.num_kv_heads; ++head) {
    for (const auto array : {rows.keys(head), rows.values(head)}) {
      writer.integer(array.size(), 4);
      writer.elements(array, format);
    }
  }
  if (writer.overflow()) return std::unexpected(check_fits().error());
  return bytes;
}

Result<std::vector<std::uint8_t>> encode_linear(const LayerData& data, const WireLayer& layer, WireFormat format,
                                                const kernels::Binary16Kernels& kernels) {
  const auto vector = data.recurrence.state.view();
  for (const Field field : {Field{"num_kv_heads", layer.num_kv_heads}, Field{"head_dim", layer.head_dim},
                            Field{"linear_len", vector.size()}})
    if (auto fits = check_field(field); !fits) return std::unexpected(fits.error());
  std::vector<std::uint8_t> bytes;
  bytes.reserve(wire::header_bytes + 3 * 4 + vector.size_bytes());
  Writer writer(bytes, kernels);
  writer.header(layer, format, data.counter);
  writer.integer(layer.num_kv_heads, 4);
  writer.integer(layer.head_dim, 4);
  writer.integer(vector.size(), 4);
  writer.f32(vector);  // under either flag
  return bytes;
}

Result<std::vector<std::uint8_t>> encode_bounded(const Ring& ring, const WireLayer& layer, WireFormat format,
                                                 const kernels::Binary16Kernels& kernels) {
  for (const Field field : {Field{"num_kv_heads", layer.num_kv_heads}, Field{"head_dim", layer.head_dim},
                            Field{"window", layer.window}})
    if (auto fits = check_field(field); !fits) return std::unexpected(fits.error());
  const auto check_fits = [&]() -> Result<void> {
    const std::size_t per_head = ring.keys().size() / static_cast<std::size_t>(layer.num_kv_heads);
    for (const auto& [tensor, array] : {std::pair{Tensor::keys, ring.keys()}, std::pair{Tensor::values, ring.values()}})
      for (std::size_t head = 0; format == WireFormat::f16 && head < layer.num_kv_heads; ++head)
        if (auto fits = check_fits_f16(array.subspan(head * per_head, per_head), tensor, head); !fits) return fits;
    return {};
  };
  std::vector<std::uint8_t> bytes;
  const std::uint64_t size = wire::header_bytes + 5 * 4 + 2 * ring.keys().size() * element_bytes(format);
  if (auto reserved = reserve(bytes, size, check_fits); !reserved) return std::unexpected(reserved.error());
  Writer writer(bytes, kernels);
  writer.header(layer, format, ring.position());
  writer.integer(layer.num_kv_heads, 4);
  writer.integer(layer.head_dim, 4);
  writer.integer(ring.window(), 4);
  writer.integer(std::min<std::uint64_t>(ring.position(), ring.window()), 4);
  writer.integer(ring.position() % ring.window(), 4);
  writer.elements(ring.keys(), format);
  writer.elements(ring.values(), format);
  if (writer.overflow()) return std::unexpected(check_fits().error());
  return bytes;
}

}  // namespace

Result<std::vector<std::uint8_t>> encode(const LayerData& data, const WireLayer& layer, WireFormat format,
                                         const kernels::Binary16Kernels& kernels) {
  switch (data.kind) {
    case WireKind::linear: return encode_linear(data, layer, format, kernels);
    case WireKind::bounded: return encode_bounded(*data.ring, layer, format, kernels);
    case WireKind::full: break;
  }
  return encode_full(data, layer, format, kernels);
}

}  // namespace kvcert::optimized
