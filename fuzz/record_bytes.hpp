// Reading and writing the fields of a record where they lie, without an opinion on them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kvcert/geometry.hpp"
#include "kvcert/wire.hpp"

namespace kvcert::fuzz {

using Bytes = std::vector<std::uint8_t>;
using ByteView = std::span<const std::uint8_t>;

inline void put_le(Bytes& out, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

/// The little-endian field at `at`; 0 where it does not lie wholly in the bytes.
inline std::uint64_t field_at(ByteView bytes, std::size_t at, std::size_t width) {
  if (at > bytes.size() || width > bytes.size() - at) return 0;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) value |= std::uint64_t{bytes[at + i]} << (8 * i);
  return value;
}

inline bool begins_with_magic(ByteView bytes) {
  return bytes.size() >= wire::magic.size() && std::ranges::equal(bytes.first(wire::magic.size()), wire::magic);
}

/// What a layer is called on the wire.
struct Names {
  std::uint64_t identity = 0;
  std::uint32_t layer = 0;
  bool linear_wire_allowed = true;
  friend bool operator==(const Names&, const Names&) = default;
};

inline void put_header(Bytes& out, const Names& names, WireKind kind, std::uint64_t f16, std::uint64_t position) {
  for (std::uint8_t byte : wire::magic) out.push_back(byte);
  put_le(out, wire::version, 4);
  put_le(out, names.identity, 8);
  put_le(out, names.layer, 4);
  put_le(out, static_cast<std::uint64_t>(kind), 1);
  put_le(out, f16, 1);
  put_le(out, 0, 2);
  put_le(out, position, 8);
}

/// The record that a layer owes after it accepted these bytes: the same; of an unversioned body the version-2 record around
/// it, which in a linear layer is the record of its vector alone.
inline Bytes record_owed(ByteView bytes, const Names& names, WireKind kind) {
  if (begins_with_magic(bytes)) return {bytes.begin(), bytes.end()};
  Bytes owed;
  put_header(owed, names, kind, field_at(bytes, 0, 4), field_at(bytes, 4, 4));
  if (kind != WireKind::linear) {
    owed.insert(owed.end(), bytes.begin(), bytes.end());
    return owed;
  }
  const auto geometry = bytes.subspan(8, 8);
  const auto vector = bytes.subspan(24, 4 * field_at(bytes, 16, 4));  // behind the body's six u32
  owed.insert(owed.end(), geometry.begin(), geometry.end());
  put_le(owed, vector.size() / 4, 4);
  owed.insert(owed.end(), vector.begin(), vector.end());
  return owed;
}

}  // namespace kvcert::fuzz
