// What an input of import_wire is: a record, given to a layer that fits what it claims; or, behind a prefix of eight bytes, a
// record and the layer it is given to. Golden records are inputs as they are.
#pragma once

#include <array>
#include <cstdint>

#include "fuzz/furnished.hpp"
#include "fuzz/record_bytes.hpp"

namespace kvcert::fuzz {

/// "LAYR", then life, switches, window, kind, one byte each. No record begins so: an unversioned body begins with 0 or 1.
inline constexpr std::array<std::uint8_t, 4> layer_prefix{'L', 'A', 'Y', 'R'};
inline constexpr std::size_t prefix_bytes = 8;
enum Switch : std::uint8_t {
  refuses_unversioned = 1,
  other_identity = 2,  ///< the layer is not the one the record names, and so on
  other_layer = 4,
  other_geometry = 8,
};
/// Any other value of the prefix's kind takes the kind that the record claims.
inline constexpr std::uint8_t kind_as_claimed = 3;

struct ImportCase {
  LayerShape shape;
  Names names;
  ByteView bytes;
};

inline bool has_prefix(ByteView input) {
  return input.size() >= prefix_bytes && std::ranges::equal(input.first(layer_prefix.size()), layer_prefix);
}

/// The layer that fits what a record claims, as far as it is small; else a layer of 2 heads × 2, window 3.
inline ImportCase fitting(ByteView record) {
  ImportCase made{.shape = {.geometry = {2, 2}}, .names = {}, .bytes = record};
  const bool versioned = begins_with_magic(record);
  std::size_t geometry_at = 8;  // of the bodies' kinds only full exists without a header
  if (versioned) {
    made.names.identity = field_at(record, wire::offset_identity, 8);
    made.names.layer = static_cast<std::uint32_t>(field_at(record, wire::offset_layer, 4));
    const auto kind = field_at(record, wire::offset_kind, 1);
    if (kind <= 2) made.shape.kind = static_cast<WireKind>(kind);
    geometry_at = wire::header_bytes + (made.shape.kind == WireKind::full ? 8 : 0);
  }
  const auto heads = field_at(record, geometry_at, 4), dim = field_at(record, geometry_at + 4, 4);
  if (heads >= 1 && heads <= most_heads && dim >= 1 && dim <= most_dims) made.shape.geometry = {heads, dim};
  if (made.shape.kind == WireKind::bounded) {
    const auto window = field_at(record, geometry_at + 8, 4);
    made.shape.window = window >= 1 && window <= most_window ? window : 3;
  }
  return made;
}

inline ImportCase import_case(ByteView input) {
  if (!has_prefix(input)) return fitting(input);
  ImportCase made = fitting(input.subspan(prefix_bytes));
  const std::uint8_t life = input[4], switches = input[5], window = input[6], kind = input[7];
  made.names.linear_wire_allowed = (switches & refuses_unversioned) == 0;
  if ((switches & other_identity) != 0) made.names.identity ^= std::uint64_t{1} << 63U;
  if ((switches & other_layer) != 0) ++made.names.layer;
  if ((switches & other_geometry) != 0) made.shape.geometry = {2, 2};
  if (kind < kind_as_claimed) made.shape.kind = static_cast<WireKind>(kind);
  made.shape.life = life_of(made.shape.kind, static_cast<Life>(life % life_count));
  if (made.shape.kind != WireKind::bounded) made.shape.window = 0;
  if (made.shape.kind == WireKind::bounded && (made.shape.window == 0 || window != 0)) made.shape.window = 1 + window % most_window;
  return made;
}

}  // namespace kvcert::fuzz
