// The instruction sets that the kernels are written for.
#pragma once

#include <cstdint>

namespace kvcert::optimized {

/// Ordered from the most portable to the fastest; each gives the same bits.
enum class Isa : std::uint8_t {
  scalar,  ///< portable C++, no instruction beyond the platform's baseline, no fused multiply-add hardware
  avx2,    ///< x86-64 with AVX2 and FMA
  avx512,  ///< x86-64 with AVX-512 F, DQ, BW and VL, beside the former
  neon,    ///< AArch64, whose every CPU has Advanced SIMD
};

}  // namespace kvcert::optimized
