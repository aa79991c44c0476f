// binary16 arrays by AVX-512, whose conversions are right but for NaN: they make every NaN quiet. Those go through integers.
//
// Compiled with that set's flags: everything here has internal linkage, and nothing inline comes from elsewhere
// (kernels.hpp says why).
#include "optimized/kernels/avx512_lanes.hpp"

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

/// Sixteen at a time, a NaN as its sign and the top 10 fraction bits, or 0x7E00 where those are 0. The lanes of a finite
/// number that became infinite go into `overflow`.
inline __m256i narrow_sixteen(__m512 x, unsigned& overflow) {
  const __m512 size = _mm512_abs_ps(x);
  const __mmask16 infinite = _mm512_cmp_ps_mask(size, _mm512_castsi512_ps(_mm512_set1_epi32(0x7F800000)), _CMP_EQ_OQ);
  // From 65520 on; the comparison is false for a NaN.
  overflow |= _mm512_cmp_ps_mask(size, _mm512_set1_ps(65520), _CMP_GE_OQ) & ~static_cast<unsigned>(infinite);
  const __m256i half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  if (nan == 0) [[likely]] return half;
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i fraction = _mm512_and_si512(_mm512_srli_epi32(bits, 13), _mm512_set1_epi32(0x3FF));
  const __m512i payload = _mm512_mask_mov_epi32(_mm512_or_si512(fraction, _mm512_set1_epi32(0x7C00)),
                                                _mm512_testn_epi32_mask(fraction, fraction), _mm512_set1_epi32(0x7E00));
  const __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x8000));
  return _mm256_mask_mov_epi16(half, nan, _mm512_cvtepi32_epi16(_mm512_or_si512(sign, payload)));
}

bool narrow(const float* in, unsigned char* out, std::size_t n) {
  count_call();
  unsigned overflow = 0;
  for (std::size_t i = 0; i < n; i += width) {
    const __mmask16 some = first_lanes(smaller(width, n - i));
    _mm256_mask_storeu_epi16(out + 2 * i, some, narrow_sixteen(_mm512_maskz_loadu_ps(some, in + i), overflow));
  }
  return overflow != 0;
}

/// Sixteen at a time, a NaN with its payload and signalling bit.
inline __m512 widen_sixteen(__m256i half) {
  const __m512 x = _mm512_cvtph_ps(half);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  if (nan == 0) [[likely]] return x;
  const __m512i bits = _mm512_cvtepu16_epi32(half);
  const __m512i sign = _mm512_slli_epi32(_mm512_and_si512(bits, _mm512_set1_epi32(0x8000)), 16);
  const __m512i fraction = _mm512_slli_epi32(_mm512_and_si512(bits, _mm512_set1_epi32(0x3FF)), 13);
  const __m512i kept = _mm512_or_si512(_mm512_or_si512(sign, fraction), _mm512_set1_epi32(0x7F800000));
  return _mm512_mask_mov_ps(x, nan, _mm512_castsi512_ps(kept));
}

void widen(const unsigned char* in, float* out, std::size_t n) {
  count_call();
  for (std::size_t i = 0; i < n; i += width) {
    const __mmask16 some = first_lanes(smaller(width, n - i));
    _mm512_mask_storeu_ps(out + i, some, widen_sixteen(_mm256_maskz_loadu_epi16(some, in + 2 * i)));
  }
}

}  // namespace

constinit const Binary16Kernels avx512_binary16{narrow, widen, calls};

}  // namespace kvcert::optimized::kernels
