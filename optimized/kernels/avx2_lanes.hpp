// What the AVX2 units share: a part of each of them, with internal linkage throughout, and of no other unit.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Loops over registers must vanish, or g++ keeps the registers in memory.
#define KVCERT_UNROLL _Pragma("GCC unroll 8")

namespace kvcert::optimized::kernels {
namespace {

constexpr std::size_t width = 8;  // floats in a register
constexpr std::size_t line = 16;  // floats in a cache line
constexpr std::size_t line_bytes = line * sizeof(float);

inline std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

/// All ones in the first n of 8 lanes, n ≤ 8.
inline __m256i first_lanes(std::size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// x, in a register: g++ would rather load it again for every fma.
inline __m256 held(__m256 x) {
  asm("" : "+x"(x));
  return x;
}

/// Asks for the cache line at an address; a hint that never faults, so the address need not exist. No load moves across
/// it: a step's hints have to come before its loads, which wait for memory and let nothing behind them ask. g++ puts the
/// intrinsic behind them, and scores of cold keys then take 2.1 ms where reading the keys takes 1.5; in this order 1.5.
inline void prefetch(std::uintptr_t address) { asm volatile("prefetcht0 (%0)" : : "r"(address) : "memory"); }

/// Eight folds at once, in the canonical order of each: lane i += i+4, i+2, i+1. Element r of the result is row r's.
inline __m256 fold_eight(const __m256* row) {
  __m256 four[4];  // four lanes of row r, four of row r + 4
  KVCERT_UNROLL for (int r = 0; r < 4; ++r)
    four[r] = _mm256_add_ps(_mm256_permute2f128_ps(row[r], row[r + 4], 0x20),
                            _mm256_permute2f128_ps(row[r], row[r + 4], 0x31));
  __m256 two[2];
  KVCERT_UNROLL for (int r = 0; r < 2; ++r) {
    const __m256d a = _mm256_castps_pd(four[2 * r]);
    const __m256d b = _mm256_castps_pd(four[2 * r + 1]);
    two[r] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
  }
  return _mm256_add_ps(_mm256_shuffle_ps(two[0], two[1], 0x88), _mm256_shuffle_ps(two[0], two[1], 0xDD));
}

/// out[0 … n − 1] = x, n ≤ 8.
inline void store_first(float* out, std::size_t n, __m256 x) {
  if (n == width)
    _mm256_storeu_ps(out, x);
  else
    _mm256_maskstore_ps(out, first_lanes(n), x);
}

inline bool any_zero(const float* p, std::size_t heads, std::size_t stride, std::size_t rows) {
  const __m256 zero = _mm256_setzero_ps();
  __m256 found = zero;
  for (std::size_t h = 0; h < heads; ++h) {
    std::size_t r = 0;
    for (; r + width <= rows; r += width)
      found = _mm256_or_ps(found, _mm256_cmp_ps(_mm256_loadu_ps(p + h * stride + r), zero, _CMP_EQ_OQ));
    if (r == rows) continue;
    const __m256i mask = first_lanes(rows - r);
    const __m256 is_zero = _mm256_cmp_ps(_mm256_maskload_ps(p + h * stride + r, mask), zero, _CMP_EQ_OQ);
    found = _mm256_or_ps(found, _mm256_and_ps(is_zero, _mm256_castsi256_ps(mask)));
  }
  return _mm256_movemask_ps(found) != 0;
}

}  // namespace
}  // namespace kvcert::optimized::kernels
