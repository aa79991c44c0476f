// Where the fields of a record lie, read leniently: a mutator wants to know what it hits, also in a record that is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fuzz/record_bytes.hpp"

namespace kvcert::fuzz {

enum class Role : std::uint8_t {
  magic, version, identity, layer, kind, f16, reserved, position,      // header
  body_flag, seq_len, kv_heads, head_dim, linear_len, imp_len, k_len, v_len,  // bodies full and linear
  window, ring_len, ring_head,                                         // body bounded
  vector, importance, keys, values, ring_keys, ring_values,            // arrays
  rest,                                                                // what comes after the record's end
};

constexpr bool is_array(Role role) { return role >= Role::vector; }

struct Field {
  Role role{};
  std::size_t at = 0, size = 0;  ///< bytes [at, at + size) lie in the buffer
  std::size_t width = 1;         ///< arrays: of one element
  std::size_t length_at = 0;     ///< arrays: where the u32 lies that counts its elements; 0 = none
};

/// In byte order and without gaps. An array whose length goes beyond the end has what is there.
std::vector<Field> fields_of(ByteView record);

}  // namespace kvcert::fuzz
