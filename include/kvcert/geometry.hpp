// The shape of one layer's cache and the words for what it stores.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvcert {

static_assert(sizeof(std::size_t) == 8, "sizes and positions are 64-bit throughout");

/// Sizes of one layer. Both at least 1; num_kv_heads × head_dim at most 2^63 − 1.
struct Geometry {
  std::size_t num_kv_heads = 0;
  std::size_t head_dim = 0;
  friend bool operator==(const Geometry&, const Geometry&) = default;
};

/// The largest position counter and the largest product of sizes.
inline constexpr std::uint64_t max_count = (std::uint64_t{1} << 63) - 1;

/// How rows are stored: keys and values as f32, or both, keys alone, values alone as int8.
enum class KvMode : std::uint8_t { f32, q8, q8_keys, q8_values };

/// What a layer's record describes; the numbers are the wire's.
enum class WireKind : std::uint8_t { full = 0, linear = 1, bounded = 2 };

/// Element type of keys and values in a record. Importance and the recurrent vector always travel as f32.
enum class WireFormat : std::uint8_t { f32 = 0, f16 = 1 };

}  // namespace kvcert
