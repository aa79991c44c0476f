// A float's bits, for code that runs in the caller's floating-point environment.
#pragma once

#include <bit>
#include <cstdint>

namespace kvcert::optimized {

/// The bits of x as an integer that the compiler cannot trace back to a float. Without this clang turns a test of bits
/// such as "all but the sign are 0" back into a float comparison, which under the caller's DAZ takes subnormals for 0
/// and otherwise leaves an exception flag behind.
inline std::uint32_t float_bits(float x) {
  auto bits = std::bit_cast<std::uint32_t>(x);
  asm("" : "+r"(bits));
  return bits;
}

inline bool is_finite(float x) { return (float_bits(x) & 0x7F800000) != 0x7F800000; }
inline bool is_zero(float x) { return (float_bits(x) & 0x7FFFFFFF) == 0; }
inline bool is_negative(float x) { return float_bits(x) >> 31 != 0; }

}  // namespace kvcert::optimized
