#include "certify/foreign/tensor_text.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <stdexcept>

#include "certify/bits.hpp"
#include "reference/binary16.hpp"

namespace kvcert::certify {
namespace {

std::uint32_t pattern_of(float x, Precision type) {
  const std::uint32_t b = bits(x);
  if (type == Precision::f16) return reference::binary16_from_binary32(b);
  if (type != Precision::bf16) return b;
  if ((b & 0x7F800000U) == 0x7F800000U && (b & 0x7FFFFFU) != 0) return (b >> 16U) | 0x40U;  // a NaN stays one
  return (b + 0x7FFFU + ((b >> 16U) & 1U)) >> 16U;
}

float number_of(std::uint32_t pattern, Precision type) {
  if (type == Precision::f16) return std::bit_cast<float>(reference::binary32_from_binary16(static_cast<std::uint16_t>(pattern)));
  return std::bit_cast<float>(type == Precision::bf16 ? pattern << 16U : pattern);
}

constexpr std::array<std::int8_t, 256> digit_values = [] {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (int i = 0; i < 10; ++i) values[static_cast<std::size_t>('0' + i)] = static_cast<std::int8_t>(i);
  for (int i = 0; i < 6; ++i) {
    values[static_cast<std::size_t>('a' + i)] = values[static_cast<std::size_t>('A' + i)] = static_cast<std::int8_t>(10 + i);
  }
  return values;
}();

}  // namespace

std::string tensor_hex(std::span<const float> numbers, Precision type) {
  constexpr char digits[] = "0123456789abcdef";
  const unsigned width = type == Precision::f32 ? 32 : 16;
  std::string text;
  text.reserve(numbers.size() * width / 4);
  for (float x : numbers) {
    const std::uint32_t pattern = pattern_of(x, type);
    for (unsigned shift = 0; shift < width; shift += 8) {
      const std::uint32_t byte = (pattern >> shift) & 0xFFU;
      text += digits[byte >> 4U];
      text += digits[byte & 0xFU];
    }
  }
  return text;
}

std::vector<float> tensor_from_hex(std::string_view text, Precision type, const std::string& field, std::size_t size) {
  const unsigned width = type == Precision::f32 ? 32 : 16;
  const std::size_t wanted = size * width / 4;
  if (text.size() != wanted) {
    throw std::runtime_error(fmt::format("\"{}\" has {} hex digits, expected {} ({} numbers of {})", field, text.size(), wanted,
                                         size, name(type)));
  }
  std::vector<float> numbers;
  numbers.reserve(size);
  for (std::size_t at = 0; at < text.size(); at += width / 4) {
    std::uint32_t pattern = 0;
    for (unsigned byte = 0; byte < width / 8; ++byte) {
      const auto high = digit_values[static_cast<unsigned char>(text[at + 2 * byte])];
      const auto low = digit_values[static_cast<unsigned char>(text[at + 2 * byte + 1])];
      if (high < 0 || low < 0) {
        throw std::runtime_error(fmt::format("\"{}\" holds \"{}\" at digit {}, which is not hex", field,
                                             text.substr(at + 2 * byte, 2), at + 2 * byte));
      }
      pattern |= static_cast<std::uint32_t>(high << 4 | low) << (8 * byte);
    }
    numbers.push_back(number_of(pattern, type));
  }
  return numbers;
}

float rounded_to(float x, Precision type) { return type == Precision::int8 ? x : number_of(pattern_of(x, type), type); }

}  // namespace kvcert::certify
