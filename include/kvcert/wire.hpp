// Constants of the CMFS record, version 2. All integers and floats are little-endian. The format is in docs/wire.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvcert::wire {

inline constexpr std::array<std::uint8_t, 4> magic{0x43, 0x4D, 0x46, 0x53};  // "CMFS"
inline constexpr std::uint32_t version = 2;

/// Byte offsets of the header's fields, and its size.
inline constexpr std::size_t offset_magic = 0;      // 4 bytes
inline constexpr std::size_t offset_version = 4;    // u32
inline constexpr std::size_t offset_identity = 8;   // u64
inline constexpr std::size_t offset_layer = 16;     // u32
inline constexpr std::size_t offset_kind = 20;      // u8
inline constexpr std::size_t offset_f16 = 21;       // u8
inline constexpr std::size_t offset_reserved = 22;  // u16
inline constexpr std::size_t offset_position = 24;  // u64
inline constexpr std::size_t header_bytes = 32;

/// The largest length a record's u32 field can carry.
inline constexpr std::uint64_t max_length = 0xFFFFFFFF;

}  // namespace kvcert::wire
