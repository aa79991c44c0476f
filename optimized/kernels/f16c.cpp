// binary16 arrays by F16C, which is right but for NaN: it makes every NaN quiet. Those go through integers.
//
// Compiled with -mavx -mf16c: everything here has internal linkage, and nothing inline comes from elsewhere
// (kernels.hpp says why).
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

constexpr std::size_t width = 8;

/// The NaNs of in, each narrowed: sign and the top 10 fraction bits, or 0x7E00 where those are 0.
__attribute__((noinline)) void narrow_nans(const std::uint32_t (&in)[width], std::uint16_t (&out)[width]) {
  for (std::size_t i = 0; i < width; ++i) {
    if ((in[i] & 0x7FFFFFFF) <= 0x7F800000) continue;
    const std::uint32_t fraction = in[i] >> 13 & 0x3FF;
    out[i] = static_cast<std::uint16_t>((in[i] >> 16 & 0x8000) | (fraction == 0 ? 0x7E00 : 0x7C00 | fraction));
  }
}

/// The NaNs of in, each widened with its payload and signalling bit.
__attribute__((noinline)) void widen_nans(const std::uint16_t (&in)[width], std::uint32_t (&out)[width]) {
  for (std::size_t i = 0; i < width; ++i) {
    const std::uint32_t half = in[i];
    if ((half & 0x7FFF) > 0x7C00) out[i] = (half & 0x8000) << 16 | 0x7F800000 | (half & 0x3FF) << 13;
  }
}

/// Eight at a time. An infinite result of a finite number leaves a bit in `overflow`.
inline __m128i narrow_eight(__m256 x, __m256& overflow) {
  const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), x);
  const __m256 infinity = _mm256_castsi256_ps(_mm256_set1_epi32(0x7F800000));
  // From 65520 on; the comparison is false for a NaN.
  overflow = _mm256_or_ps(overflow, _mm256_and_ps(_mm256_cmp_ps(size, _mm256_set1_ps(65520), _CMP_GE_OQ),
                                                  _mm256_cmp_ps(size, infinity, _CMP_LT_OQ)));
  __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
  if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0) [[unlikely]] {
    std::uint32_t in[width];
    std::uint16_t out[width];
    _mm256_storeu_ps(reinterpret_cast<float*>(in), x);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), half);
    narrow_nans(in, out);
    half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(out));
  }
  return half;
}

bool narrow(const float* in, unsigned char* out, std::size_t n) {
  count_call();
  __m256 overflow = _mm256_setzero_ps();
  std::size_t i = 0;
  for (; i + width <= n; i += width)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i), narrow_eight(_mm256_loadu_ps(in + i), overflow));
  if (i < n) {
    float some[width] = {};
    __builtin_memcpy(some, in + i, (n - i) * sizeof(float));
    const __m128i half = narrow_eight(_mm256_loadu_ps(some), overflow);
    __builtin_memcpy(out + 2 * i, &half, 2 * (n - i));
  }
  return _mm256_movemask_ps(overflow) != 0;
}

inline __m256 widen_eight(__m128i half) {
  __m256 x = _mm256_cvtph_ps(half);
  if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0) [[unlikely]] {
    std::uint16_t in[width];
    std::uint32_t out[width];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(in), half);
    _mm256_storeu_ps(reinterpret_cast<float*>(out), x);
    widen_nans(in, out);
    x = _mm256_loadu_ps(reinterpret_cast<const float*>(out));
  }
  return x;
}

void widen(const unsigned char* in, float* out, std::size_t n) {
  count_call();
  std::size_t i = 0;
  for (; i + width <= n; i += width)
    _mm256_storeu_ps(out + i, widen_eight(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i))));
  if (i < n) {
    __m128i half = _mm_setzero_si128();
    __builtin_memcpy(&half, in + 2 * i, 2 * (n - i));
    float some[width];
    _mm256_storeu_ps(some, widen_eight(half));
    __builtin_memcpy(out + i, some, (n - i) * sizeof(float));
  }
}

}  // namespace

constinit const Binary16Kernels f16c_binary16{narrow, widen, calls};

}  // namespace kvcert::optimized::kernels
