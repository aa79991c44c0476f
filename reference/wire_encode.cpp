// Encoding: sizes first, then under f16 every value, then the bytes.
#include <algorithm>
#include <bit>

#include "kvcert/wire.hpp"
#include "reference/binary16.hpp"
#include "reference/checks.hpp"
#include "reference/wire.hpp"

namespace kvcert::reference {

namespace {

Result<void> check_field(const char* field, std::uint64_t length) {
  if (length <= wire::max_length) return {};
  return refuse(ErrorCode::length_overflow, wire::max_length, length,
                sentence(field, " is ", length, ", which does not fit its 32-bit field"));
}

/// Under f16: the first value that is finite and would not stay so.
Result<void> check_f16(const std::vector<float>& values, Tensor tensor, std::size_t head) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const bool finite = (bits & 0x7F800000) != 0x7F800000;
    const bool becomes_infinite = (binary16_from_binary32(bits) & 0x7FFF) == 0x7C00;
    if (!finite || !becomes_infinite) continue;
    Error error;
    error.code = ErrorCode::f16_overflow;
    error.expected = largest_binary16;
    error.found = bits;
    error.tensor = tensor;
    error.head = head;
    error.element = i;
    error.message = sentence(tensor == Tensor::keys ? "key" : "value", " element ", i, " of KV head ", head, " (bits ",
                             bits, ") is finite, and infinite as binary16");
    return std::unexpected(std::move(error));
  }
  return {};
}

/// Appends little-endian fields.
class Writer {
 public:
  explicit Writer(std::uint64_t size) { bytes_.reserve(size); }

  void integer(std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) bytes_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  void u32(std::uint64_t value) { integer(value, 4); }
  void floats(const std::vector<float>& values, WireFormat format) {
    for (const float value : values) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      if (format == WireFormat::f16) {
        integer(binary16_from_binary32(bits), 2);
      } else {
        integer(bits, 4);
      }
    }
  }
  std::vector<std::uint8_t> finished() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

}  // namespace

Result<std::uint64_t> record_bytes(const Geometry& geometry, std::uint64_t seq_len, std::uint64_t live_heads,
                                   std::uint64_t linear_len, WireFormat format) {
  live_heads = std::min<std::uint64_t>(live_heads, geometry.num_kv_heads);
  // The u32 fields in record order; imp_len is seq_len again.
  if (auto fits = check_field("seq_len", seq_len); !fits) return handed_on(fits);
  if (auto fits = check_field("num_kv_heads", geometry.num_kv_heads); !fits) return handed_on(fits);
  if (auto fits = check_field("head_dim", geometry.head_dim); !fits) return handed_on(fits);
  if (auto fits = check_field("linear_len", linear_len); !fits) return handed_on(fits);
  const std::uint64_t k_len = seq_len * geometry.head_dim;  // both fit 32 bits
  if (live_heads != 0) {
    if (auto fits = check_field("k_len", k_len); !fits) return handed_on(fits);
  }
  // header | flag, seq_len, num_kv_heads, head_dim, linear_len, imp_len | vectors | two lengths a head | K and V
  const std::uint64_t fixed = wire::header_bytes + 6 * 4 + 4 * (linear_len + seq_len) + 8 * geometry.num_kv_heads;
  const std::uint64_t element_bytes = format == WireFormat::f16 ? 2 : 4;
  const auto rows = checked_product({2, live_heads, k_len, element_bytes});
  if (!rows || *rows > max_count - fixed) {
    return refuse(ErrorCode::invalid_argument, max_count, 0, "the record would be longer than 2^63 - 1 bytes");
  }
  return fixed + *rows;
}

Result<std::vector<std::uint8_t>> encode(const SequenceState& state, const WireLayer& layer, WireFormat format) {
  std::uint64_t live_heads = 0;
  for (const HeadRows& head : state.heads) live_heads += head.keys.empty() ? 0 : 1;
  const auto size = record_bytes(layer.geometry, state.seq_len, live_heads, state.linear_state.size(), format);
  if (!size) return handed_on(size);
  if (format == WireFormat::f16) {
    for (std::size_t h = 0; h < state.heads.size(); ++h) {
      if (auto fits = check_f16(state.heads[h].keys, Tensor::keys, h); !fits) return handed_on(fits);
      if (auto fits = check_f16(state.heads[h].values, Tensor::values, h); !fits) return handed_on(fits);
    }
  }

  Writer writer(*size);
  const std::uint64_t f16 = format == WireFormat::f16 ? 1 : 0;
  for (const std::uint8_t byte : wire::magic) writer.integer(byte, 1);
  writer.u32(wire::version);
  writer.integer(layer.identity, 8);
  writer.u32(layer.layer);
  writer.integer(static_cast<std::uint64_t>(WireKind::full), 1);
  writer.integer(f16, 1);
  writer.integer(0, 2);  // reserved
  writer.integer(state.seq_len, 8);

  writer.u32(f16);
  writer.u32(state.seq_len);
  writer.u32(layer.geometry.num_kv_heads);
  writer.u32(layer.geometry.head_dim);
  writer.u32(state.linear_state.size());
  writer.u32(state.importance.size());
  writer.floats(state.linear_state, WireFormat::f32);
  writer.floats(state.importance, WireFormat::f32);
  for (const HeadRows& head : state.heads) {
    writer.u32(head.keys.size());
    writer.floats(head.keys, format);
    writer.u32(head.values.size());
    writer.floats(head.values, format);
  }
  return writer.finished();
}

}  // namespace kvcert::reference
