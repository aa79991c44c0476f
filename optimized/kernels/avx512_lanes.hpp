// What the AVX-512 units share: a part of each of them, with internal linkage throughout, and of no other unit.
#pragma once

// g++ 12 takes the "any value" registers of its own header for a mistake of ours.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Loops over registers must vanish, or g++ keeps the registers in memory.
#define KVCERT_UNROLL _Pragma("GCC unroll 16")

namespace kvcert::optimized::kernels {
namespace {

constexpr std::size_t width = 16;  // floats in a register, in a cache line, and the lanes of a dot product

inline std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

/// The first n of 16 lanes, n ≤ 16.
inline __mmask16 first_lanes(std::size_t n) { return static_cast<__mmask16>((1U << n) - 1); }

/// x, in a register: g++ would rather load it again for every fma.
inline __m512 held(__m512 x) {
#if !defined(KVCERT_EMULATED_AVX512)  // by tests/emulated/, without such registers
  asm("" : "+v"(x));
#endif
  return x;
}

/// 16 folds at once, in the canonical order of each: lane i += i+8, i+4, i+2, i+1. Element r of the result is row r's.
inline __m512 fold_sixteen(const __m512* row) {
  __m512 eight[8];  // eight lanes of row r, eight of row r + 8
  KVCERT_UNROLL for (int r = 0; r < 8; ++r)
    eight[r] = _mm512_add_ps(_mm512_shuffle_f32x4(row[r], row[r + 8], 0x44),
                             _mm512_shuffle_f32x4(row[r], row[r + 8], 0xEE));
  __m512 four[4];  // four lanes each of rows r, r + 8, r + 4, r + 12
  KVCERT_UNROLL for (int r = 0; r < 4; ++r)
    four[r] = _mm512_add_ps(_mm512_shuffle_f32x4(eight[r], eight[r + 4], 0x88),
                            _mm512_shuffle_f32x4(eight[r], eight[r + 4], 0xDD));
  __m512 two[2];  // in each quarter two lanes of its row and two of the row two further
  KVCERT_UNROLL for (int r = 0; r < 2; ++r) {
    const __m512d a = _mm512_castps_pd(four[r]);
    const __m512d b = _mm512_castps_pd(four[r + 2]);
    two[r] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  const __m512 one = _mm512_add_ps(_mm512_shuffle_ps(two[0], two[1], 0x88), _mm512_shuffle_ps(two[0], two[1], 0xDD));
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15), one);
}

inline bool any_zero(const float* p, std::size_t heads, std::size_t stride, std::size_t rows) {
  unsigned found = 0;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t r = 0; r < rows; r += width) {
      const __mmask16 mask = first_lanes(smaller(rows - r, width));
      const __m512 weights = _mm512_maskz_loadu_ps(mask, p + h * stride + r);
      found |= _mm512_mask_cmp_ps_mask(mask, weights, _mm512_setzero_ps(), _CMP_EQ_OQ);
    }
  return found != 0;
}

}  // namespace
}  // namespace kvcert::optimized::kernels
