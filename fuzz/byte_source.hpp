// The bytes of a fuzz input, taken one after another. Past the end everything reads as zero, so that every input of every
// length means something.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvcert::fuzz {

class ByteSource {
 public:
  explicit ByteSource(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return at_ >= bytes_.size(); }
  std::span<const std::uint8_t> rest() const { return bytes_.subspan(empty() ? bytes_.size() : at_); }

  std::uint8_t u8() { return empty() ? std::uint8_t{0} : bytes_[at_++]; }
  /// Little-endian, of 1 to 8 bytes.
  std::uint64_t integer(std::size_t width) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width; ++i) value |= std::uint64_t{u8()} << (8 * i);
    return value;
  }
  /// 0 … n − 1 from one byte; 1 ≤ n ≤ 256.
  std::size_t below(std::size_t n) { return u8() % n; }
  bool flag() { return (u8() & 1U) != 0; }
  float number() { return std::bit_cast<float>(static_cast<std::uint32_t>(integer(4))); }
  /// Raw bit patterns. Where the input ends, they go on as small distinct numbers, so that a misplaced row shows.
  std::vector<float> numbers(std::size_t n) {
    std::vector<float> result(n);
    for (float& x : result) x = empty() ? static_cast<float>(++filler_) / 8.0F : number();
    return result;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::uint32_t filler_ = 0;
};

}  // namespace kvcert::fuzz
