// Memory for the inside of a call, kept by the thread for the next one.
#pragma once

#include <cstddef>

namespace kvcert::optimized {

/// At least `floats` floats, without values, 64-byte aligned; valid until the next call on this thread. Grows to the
/// largest need met so far and lives until the thread ends. Throws std::bad_alloc.
float* scratch(std::size_t floats);

/// Floats from one row of `columns` floats to the next: whole cache lines, and one more line where rows would otherwise
/// lie a multiple of 4096 bytes apart, which the cache and the store buffer take for the same place.
constexpr std::size_t padded_stride(std::size_t columns) {
  const std::size_t rounded = (columns + 15) / 16 * 16;
  return rounded % 1024 == 0 ? rounded + 16 : rounded;
}

}  // namespace kvcert::optimized
