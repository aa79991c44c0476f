#include "optimized/wire.hpp"

#include <bit>
#include <cstring>
#include <new>
#include <string>

#include "kvcert/wire.hpp"
#include "optimized/binary16.hpp"
#include "optimized/buffer.hpp"
#include "optimized/failure.hpp"
#include "optimized/float_bits.hpp"

namespace kvcert::optimized {
namespace {

// Arrays travel by memcpy, integers by shifts.
static_assert(std::endian::native == std::endian::little, "records are little-endian, and so must memory be");

std::uint64_t element_bytes(WireFormat format) { return format == WireFormat::f16 ? 2 : 4; }

/// Appends to memory that was measured before.
class Writer {
 public:
  explicit Writer(std::uint8_t* at) : at_(at) {}

  void integer(std::uint64_t value, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) *at_++ = static_cast<std::uint8_t>(value >> (8 * i));
  }
  void f32(std::span<const float> values) {
    if (values.empty()) return;
    std::memcpy(at_, values.data(), values.size_bytes());
    at_ += values.size_bytes();
  }
  void f16(std::span<const float> values) {
    for (const float value : values) {
      const std::uint16_t half = to_binary16(float_bits(value));
      std::memcpy(at_, &half, 2);
      at_ += 2;
    }
  }
  /// u32 length, then the elements.
  void array(std::span<const float> values, WireFormat format) {
    integer(values.size(), 4);
    format == WireFormat::f16 ? f16(values) : f32(values);
  }

 private:
  std::uint8_t* at_;
};

Result<void> check_fits_f16(std::span<const float> values, Tensor tensor, std::size_t head) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = float_bits(values[i]);
    if (!overflows_binary16(bits)) continue;
    return std::unexpected(Error{.code = ErrorCode::f16_overflow,
                                 .expected = binary16_largest,
                                 .found = bits,
                                 .tensor = tensor,
                                 .head = head,
                                 .element = i,
                                 .message = std::string(tensor == Tensor::keys ? "key" : "value") + " element " +
                                            std::to_string(i) + " of head " + std::to_string(head) +
                                            " is finite and would be infinite as binary16"});
  }
  return {};
}

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

}  // namespace

Result<std::uint64_t> record_bytes(Geometry geometry, std::uint64_t seq_len, std::uint64_t live_heads,
                                   std::uint64_t recurrent_floats, WireFormat format) {
  const std::uint64_t heads = geometry.num_kv_heads;
  const std::uint64_t live = seq_len == 0 ? 0 : live_heads < heads ? live_heads : heads;
  struct Field {
    const char* name;
    std::uint64_t value;
  };
  for (const Field field :
       {Field{"seq_len", seq_len}, Field{"num_kv_heads", heads}, Field{"head_dim", geometry.head_dim},
        Field{"linear_len", recurrent_floats}, Field{"imp_len", seq_len},
        // Reached with both below 2^32, so that this product has not wrapped where it is looked at.
        Field{"k_len", live == 0 ? 0 : seq_len * geometry.head_dim}}) {
    if (field.value > wire::max_length)
      return failure(ErrorCode::length_overflow, wire::max_length, field.value,
                     std::string(field.name) + " would be " + std::to_string(field.value) + ", more than 32 bits hold");
  }
  // heads, live < 2^32 and the array below 2^34 bytes: live · array may need 67 bits and is compared before it is
  // formed.
  const std::uint64_t fixed = wire::header_bytes + 6 * 4 + 4 * recurrent_floats + 4 * seq_len + 8 * heads;  // < 2^37
  const std::uint64_t head = live == 0 ? 0 : 2 * seq_len * geometry.head_dim * element_bytes(format);
  if (head != 0 && live > (max_count - fixed) / head)
    return failure(ErrorCode::invalid_argument, max_count, 0, "the record would be longer than 2^63 - 1 bytes");
  return fixed + live * head;
}

Result<std::vector<std::uint8_t>> encode(const Sequence& sequence, const WireLayer& layer, WireFormat format) {
  const Geometry geometry{static_cast<std::size_t>(layer.num_kv_heads), static_cast<std::size_t>(layer.head_dim)};
  const std::uint64_t length = sequence.length();
  const auto size = record_bytes(geometry, length, sequence.live_heads(), sequence.linear().size(), format);
  if (!size) return std::unexpected(size.error());
  if (format == WireFormat::f16) {
    for (std::size_t head = 0; head < geometry.num_kv_heads; ++head) {
      if (auto fits = check_fits_f16(sequence.keys(head), Tensor::keys, head); !fits)
        return std::unexpected(fits.error());
      if (auto fits = check_fits_f16(sequence.values(head), Tensor::values, head); !fits)
        return std::unexpected(fits.error());
    }
  }

  std::vector<std::uint8_t> bytes(*size);
  const std::uint64_t flag = format == WireFormat::f16 ? 1 : 0;
  Writer writer(bytes.data());
  for (const std::uint8_t byte : wire::magic) writer.integer(byte, 1);
  writer.integer(wire::version, 4);
  writer.integer(layer.identity, 8);
  writer.integer(layer.layer, 4);
  writer.integer(layer.kind, 1);
  writer.integer(flag, 1);
  writer.integer(0, 2);  // reserved
  writer.integer(length, 8);

  writer.integer(flag, 4);
  writer.integer(length, 4);
  writer.integer(geometry.num_kv_heads, 4);
  writer.integer(geometry.head_dim, 4);
  writer.integer(sequence.linear().size(), 4);
  writer.integer(sequence.importance().size(), 4);
  writer.f32(sequence.linear());
  writer.f32(sequence.importance());
  for (std::size_t head = 0; head < geometry.num_kv_heads; ++head) {
    writer.array(sequence.keys(head), format);
    writer.array(sequence.values(head), format);
  }
  return bytes;
}

Result<Sequence> decode(std::span<const std::uint8_t> bytes, const WireLayer& layer) {
  WireRecord record = {};
  WireFault fault = {};
  if (!scan_record(bytes.data(), bytes.size(), layer, &record, &fault)) {
    return std::unexpected(Error{.code = fault.code,
                                 .expected = fault.expected,
                                 .found = fault.found,
                                 .offset = fault.offset,
                                 .message = "record refused at byte " + std::to_string(fault.offset) + ": " +
                                            std::string(name(fault.code)) + ", expected " +
                                            std::to_string(fault.expected) + ", found " + std::to_string(fault.found)});
  }

  // Every length below was shown to lie in the buffer.
  Buffer<float> linear(record.linear_len);
  read_floats(linear.view(), bytes.data() + record.linear_offset, false);
  Buffer<std::uint8_t> alive(layer.num_kv_heads);
  std::uint64_t offset = record.heads_offset;
  for (std::size_t head = 0; head < layer.num_kv_heads; ++head) {
    const WireHead found = read_head(bytes.data(), record, offset);
    alive.data()[head] = found.length == 0 ? 0 : 1;
    offset = found.end;
  }
  const Geometry geometry{static_cast<std::size_t>(layer.num_kv_heads), static_cast<std::size_t>(layer.head_dim)};
  Sequence sequence(geometry, record.seq_len, alive.view(), std::move(linear));
  if (record.seq_len == 0) return sequence;

  read_floats(sequence.importance(), bytes.data() + record.importance_offset, false);
  offset = record.heads_offset;
  for (std::size_t head = 0; head < layer.num_kv_heads; ++head) {
    const WireHead found = read_head(bytes.data(), record, offset);
    read_floats(sequence.keys(head), bytes.data() + found.keys_offset, record.f16);
    read_floats(sequence.values(head), bytes.data() + found.values_offset, record.f16);
    offset = found.end;
  }
  return sequence;
}

}  // namespace kvcert::optimized
