// A cursor over a record: fields in byte order, and the first fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "kvcert/error.hpp"
#include "reference/checks.hpp"

namespace kvcert::reference {

/// Reads little-endian fields one after another. The first fault is kept and is the verdict; from then on every field
/// reads as 0 or empty and no condition is looked at, so a decoder can be written as the table of docs/wire.md, line by
/// line, and ask for the verdict at the end. Nothing outside the buffer is read, and no arithmetic wraps: what a field
/// needs is compared with what remains.
class WireReader {
 public:
  explicit WireReader(std::span<const std::uint8_t> buffer) : buffer_(buffer) {}

  std::uint8_t u8(const char* field) { return static_cast<std::uint8_t>(integer(field, 1)); }
  std::uint16_t u16(const char* field) { return static_cast<std::uint16_t>(integer(field, 2)); }
  std::uint32_t u32(const char* field) { return static_cast<std::uint32_t>(integer(field, 4)); }
  std::uint64_t u64(const char* field) { return integer(field, 8); }

  /// One field of `count` elements of `width` bytes each, as it lies in the buffer. width ≤ 4; more elements than 2^61
  /// are more than any buffer holds.
  std::span<const std::uint8_t> array(const char* field, std::uint64_t count, std::size_t width) {
    return take(field, count > most_elements ? UINT64_MAX : count * width);
  }

  /// A condition on an element of the array just read.
  void require_element(bool holds, std::size_t offset_in_field, ErrorCode code, std::uint64_t expected,
                       std::uint64_t found) {
    if (!holds && !refused()) fail(code, field_offset_ + offset_in_field, expected, found,
                                   sentence(field_, ": the element at byte ", offset_in_field, " is ", found, " where ", expected,
                                            " is accepted"));
  }

  /// A condition on the field just read: refuses with the code unless it holds.
  void require(bool holds, ErrorCode code, std::uint64_t expected, std::uint64_t found) {
    if (!holds && !refused()) fail(code, field_offset_, expected, found,
                                   sentence(field_, " is ", found, " where ", expected, " is accepted"));
  }

  /// Nothing may follow.
  void end() {
    const std::size_t rest = buffer_.size() - at_;
    if (rest != 0 && !refused()) fail(ErrorCode::trailing_bytes, at_, at_, buffer_.size(),
                                      sentence("the record ends after ", at_, " bytes, but the buffer has ", rest, " more"));
  }

  bool refused() const { return fault_.has_value(); }
  const std::optional<Error>& fault() const { return fault_; }

 private:
  std::uint64_t integer(const char* field, std::size_t width) {
    const auto bytes = take(field, width);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
    return value;
  }

  std::span<const std::uint8_t> take(const char* field, std::uint64_t size) {
    if (refused()) return {};
    field_ = field;
    field_offset_ = at_;
    const std::size_t rest = buffer_.size() - at_;
    if (size > rest) {
      fail(ErrorCode::truncated, at_, size, rest,
           sentence(field, " needs ", size, " bytes at offset ", at_, ", but only ", rest, " are left"));
      return {};
    }
    at_ += size;
    return buffer_.subspan(field_offset_, size);
  }

  /// Nothing was refused yet: sentences are for the first fault only, a later one would be built for nobody.
  void fail(ErrorCode code, std::size_t offset, std::uint64_t expected, std::uint64_t found, std::string message) {
    Error error;
    error.code = code;
    error.expected = expected;
    error.found = found;
    error.offset = offset;
    error.message = std::move(message);
    fault_ = std::move(error);
  }

  static constexpr std::uint64_t most_elements = std::uint64_t{1} << 61;
  std::span<const std::uint8_t> buffer_;
  std::size_t at_ = 0;
  const char* field_ = "";
  std::size_t field_offset_ = 0;
  std::optional<Error> fault_;
};

}  // namespace kvcert::reference
