// AVX-512 for machines without it: what the AVX-512 units of optimized/kernels call, made of pairs of AVX2 registers or lane
// by lane. Included before them (tests/meson.build), so that their source is tested on every x86-64 with AVX2, FMA and F16C;
// what the compiler makes of the instructions themselves is tested only where they are. g++ only, which passes 64-byte
// vectors between functions without AVX-512.
//
// A lane that an intrinsic leaves undefined is junk here. Source: the operations as Intel's Intrinsics Guide defines them.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wconversion"  // masks are put together from bits

namespace kvcert::emulated {

/// A register, as whatever it is taken for.
union Register {
  __m512 f;
  __m512d d;
  __m512i i;
  __m256 half[2];
  __m256d half_d[2];
  __m256i half_i[2];
  std::uint32_t bits[16];
  std::int32_t integer[16];
  std::uint64_t bits64[8];
};

inline Register reg(__m512 x) { return {.f = x}; }
inline Register reg(__m512d x) { return {.d = x}; }
inline Register reg(__m512i x) { return {.i = x}; }

/// A register's lanes of 32 or 64 bits, each from its index.
template <class F>
inline Register lanes32(F lane) {
  Register r;
  for (unsigned n = 0; n < 16; ++n) r.bits[n] = lane(n);
  return r;
}
template <class F>
inline Register lanes64(F lane) {
  Register r;
  for (unsigned n = 0; n < 8; ++n) r.bits64[n] = lane(n);
  return r;
}
template <class F>
inline __mmask16 mask_of(F lane) {
  unsigned mask = 0;
  for (unsigned n = 0; n < 16; ++n) mask |= static_cast<unsigned>(lane(n)) << n;
  return static_cast<__mmask16>(mask);
}
inline bool is_set(unsigned mask, unsigned n) { return (mask >> n & 1) != 0; }

/// Elements of `size` bytes in memory; those that are masked out are neither read nor written.
inline void move_some(void* to, const void* from, unsigned mask, std::size_t size) {
  for (unsigned n = 0; n < 16; ++n)
    if (is_set(mask, n)) std::memcpy(static_cast<char*>(to) + n * size, static_cast<const char*>(from) + n * size, size);
}

// --- Registers from values and from memory, and back -----------------------------------------------------------------

inline __m512 set1_ps(float x) {
  Register r;
  r.half[0] = r.half[1] = _mm256_set1_ps(x);
  return r.f;
}
inline __m512d set1_pd(double x) {
  Register r;
  r.half_d[0] = r.half_d[1] = _mm256_set1_pd(x);
  return r.d;
}
inline __m512i set1_epi32(int x) {
  return lanes32([x](unsigned) { return static_cast<std::uint32_t>(x); }).i;
}
inline __m512i set1_epi64(long long x) {
  return lanes64([x](unsigned) { return static_cast<std::uint64_t>(x); }).i;
}
inline __m512 setzero_ps() { return set1_ps(0); }
inline __m512i setzero_si512() { return set1_epi32(0); }
template <class... Ints>
inline __m512i setr_epi32(Ints... x) {
  return Register{.integer = {x...}}.i;
}
template <class... Ints>
inline __m512i setr_epi64(Ints... x) {
  return Register{.bits64 = {static_cast<std::uint64_t>(x)...}}.i;
}
inline __m512 loadu_ps(const void* p) {
  Register r;
  std::memcpy(&r, p, sizeof r);
  return r.f;
}
inline void storeu_ps(void* p, __m512 x) { std::memcpy(p, &x, sizeof x); }
inline __m512 maskz_loadu_ps(__mmask16 mask, const void* p) {
  Register r = reg(setzero_ps());
  move_some(&r, p, mask, 4);
  return r.f;
}
inline void mask_storeu_ps(void* p, __mmask16 mask, __m512 x) { move_some(p, &x, mask, 4); }
inline __m128i maskz_loadu_epi8(__mmask16 mask, const void* p) {
  __m128i r = _mm_setzero_si128();
  move_some(&r, p, mask, 1);
  return r;
}
inline __m256i maskz_loadu_epi16(__mmask16 mask, const void* p) {
  __m256i r = _mm256_setzero_si256();
  move_some(&r, p, mask, 2);
  return r;
}
inline void mask_storeu_epi16(void* p, __mmask16 mask, __m256i x) { move_some(p, &x, mask, 2); }
inline __m256i mask_mov_epi16(__m256i old, __mmask16 mask, __m256i x) {
  move_some(&old, &x, mask, 2);
  return old;
}
inline __m256 mask_i64gather_ps(__m256 old, __mmask8 mask, __m512i index, const void* p, int scale) {
  const Register at = reg(index);
  for (unsigned n = 0; n < 8; ++n)
    if (is_set(mask, n))
      std::memcpy(reinterpret_cast<char*>(&old) + 4 * n,
                  static_cast<const char*>(p) + static_cast<std::int64_t>(at.bits64[n]) * scale, 4);
  return old;
}
inline float cvtss_f32(__m512 x) { return _mm256_cvtss_f32(reg(x).half[0]); }

// --- Half by half ----------------------------------------------------------------------------------------------------

#define KVCERT_BINARY(name, whole, halves, operation)                                                   \
  inline decltype(Register::whole) name(decltype(Register::whole) a, decltype(Register::whole) b) {     \
    Register x = reg(a);                                                                                \
    const Register y = reg(b);                                                                          \
    for (int h = 0; h < 2; ++h) x.halves[h] = operation(x.halves[h], y.halves[h]);                      \
    return x.whole;                                                                                     \
  }
KVCERT_BINARY(add_ps, f, half, _mm256_add_ps)
KVCERT_BINARY(sub_ps, f, half, _mm256_sub_ps)
KVCERT_BINARY(mul_ps, f, half, _mm256_mul_ps)
KVCERT_BINARY(div_ps, f, half, _mm256_div_ps)
KVCERT_BINARY(max_ps, f, half, _mm256_max_ps)
KVCERT_BINARY(min_ps, f, half, _mm256_min_ps)
KVCERT_BINARY(and_ps, f, half, _mm256_and_ps)
KVCERT_BINARY(or_ps, f, half, _mm256_or_ps)
KVCERT_BINARY(add_pd, d, half_d, _mm256_add_pd)
KVCERT_BINARY(sub_pd, d, half_d, _mm256_sub_pd)
KVCERT_BINARY(mul_pd, d, half_d, _mm256_mul_pd)
KVCERT_BINARY(div_pd, d, half_d, _mm256_div_pd)
KVCERT_BINARY(unpacklo_pd, d, half_d, _mm256_unpacklo_pd)
KVCERT_BINARY(unpackhi_pd, d, half_d, _mm256_unpackhi_pd)
KVCERT_BINARY(and_si512, i, half_i, _mm256_and_si256)
KVCERT_BINARY(or_si512, i, half_i, _mm256_or_si256)
KVCERT_BINARY(add_epi32, i, half_i, _mm256_add_epi32)
KVCERT_BINARY(add_epi64, i, half_i, _mm256_add_epi64)
#undef KVCERT_BINARY

inline __m512 fmadd_ps(__m512 a, __m512 b, __m512 c) {
  Register x = reg(a), y = reg(b), z = reg(c);
  for (int h = 0; h < 2; ++h) x.half[h] = _mm256_fmadd_ps(x.half[h], y.half[h], z.half[h]);
  return x.f;
}
inline __m512d fmadd_pd(__m512d a, __m512d b, __m512d c) {
  Register x = reg(a), y = reg(b), z = reg(c);
  for (int h = 0; h < 2; ++h) x.half_d[h] = _mm256_fmadd_pd(x.half_d[h], y.half_d[h], z.half_d[h]);
  return x.d;
}
inline __m512d fnmadd_pd(__m512d a, __m512d b, __m512d c) {
  Register x = reg(a), y = reg(b), z = reg(c);
  for (int h = 0; h < 2; ++h) x.half_d[h] = _mm256_fnmadd_pd(x.half_d[h], y.half_d[h], z.half_d[h]);
  return x.d;
}

// --- Lane by lane ----------------------------------------------------------------------------------------------------

inline __m512 abs_ps(__m512 a) {
  return lanes32([x = reg(a)](unsigned n) { return x.bits[n] & 0x7FFFFFFFU; }).f;
}
inline __m512i slli_epi32(__m512i a, unsigned by) {
  return lanes32([x = reg(a), by](unsigned n) { return by > 31 ? 0 : x.bits[n] << by; }).i;
}
inline __m512i srli_epi32(__m512i a, unsigned by) {
  return lanes32([x = reg(a), by](unsigned n) { return by > 31 ? 0 : x.bits[n] >> by; }).i;
}
inline __m512i slli_epi64(__m512i a, unsigned by) {
  return lanes64([x = reg(a), by](unsigned n) { return by > 63 ? 0 : x.bits64[n] << by; }).i;
}
inline __m512i mullo_epi64(__m512i a, __m512i b) {
  return lanes64([x = reg(a), y = reg(b)](unsigned n) { return x.bits64[n] * y.bits64[n]; }).i;
}
inline float reduce_max_ps(__m512 a) {
  alignas(32) float lane[8];
  _mm256_store_ps(lane, _mm256_max_ps(reg(a).half[0], reg(a).half[1]));
  float most = lane[0];
  for (const float each : lane) most = each > most ? each : most;
  return most;
}

// --- Masks -----------------------------------------------------------------------------------------------------------

template <int predicate>
inline __mmask16 cmp_ps_mask(__m512 a, __m512 b) {
  const Register x = reg(a), y = reg(b);
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(x.half[0], y.half[0], predicate));
  return static_cast<__mmask16>(low | _mm256_movemask_ps(_mm256_cmp_ps(x.half[1], y.half[1], predicate)) << 8);
}
template <int predicate>
inline __mmask8 cmp_pd_mask(__m512d a, __m512d b) {
  const Register x = reg(a), y = reg(b);
  const int low = _mm256_movemask_pd(_mm256_cmp_pd(x.half_d[0], y.half_d[0], predicate));
  return static_cast<__mmask8>(low | _mm256_movemask_pd(_mm256_cmp_pd(x.half_d[1], y.half_d[1], predicate)) << 4);
}
inline __mmask16 cmpeq_epi32_mask(__m512i a, __m512i b) {
  return mask_of([x = reg(a), y = reg(b)](unsigned n) { return x.bits[n] == y.bits[n]; });
}
inline __mmask16 cmpneq_epi32_mask(__m512i a, __m512i b) { return static_cast<__mmask16>(~cmpeq_epi32_mask(a, b)); }
inline __mmask16 cmplt_epi32_mask(__m512i a, __m512i b) {
  return mask_of([x = reg(a), y = reg(b)](unsigned n) { return x.integer[n] < y.integer[n]; });
}
inline __mmask16 testn_epi32_mask(__m512i a, __m512i b) {
  return mask_of([x = reg(a), y = reg(b)](unsigned n) { return (x.bits[n] & y.bits[n]) == 0; });
}
inline __mmask16 movepi32_mask(__m512i a) {
  return mask_of([x = reg(a)](unsigned n) { return x.integer[n] < 0; });
}
inline __m512 mask_mov_ps(__m512 old, __mmask16 mask, __m512 x) {
  move_some(&old, &x, mask, 4);
  return old;
}
inline __m512i mask_mov_epi32(__m512i old, __mmask16 mask, __m512i x) {
  move_some(&old, &x, mask, 4);
  return old;
}
inline __m512d mask_mov_pd(__m512d old, __mmask8 mask, __m512d x) {
  move_some(&old, &x, mask, 8);
  return old;
}
inline __m512 mask3_fmadd_ps(__m512 a, __m512 b, __m512 c, __mmask16 mask) { return mask_mov_ps(c, mask, fmadd_ps(a, b, c)); }
inline __m512 mask_add_ps(__m512 old, __mmask16 mask, __m512 a, __m512 b) { return mask_mov_ps(old, mask, add_ps(a, b)); }
inline __m512 mask_max_ps(__m512 old, __mmask16 mask, __m512 a, __m512 b) { return mask_mov_ps(old, mask, max_ps(a, b)); }
inline __m512 maskz_sub_ps(__mmask16 mask, __m512 a, __m512 b) { return mask_mov_ps(setzero_ps(), mask, sub_ps(a, b)); }
inline __m512 maskz_div_ps(__mmask16 mask, __m512 a, __m512 b) { return mask_mov_ps(setzero_ps(), mask, div_ps(a, b)); }
inline __m512i mask_sub_epi32(__m512i old, __mmask16 mask, __m512i a, __m512i b) {
  return mask_mov_epi32(old, mask, lanes32([x = reg(a), y = reg(b)](unsigned n) { return x.bits[n] - y.bits[n]; }).i);
}

// --- Casts and conversions -------------------------------------------------------------------------------------------

inline __m512i castps_si512(__m512 a) { return reg(a).i; }
inline __m512 castsi512_ps(__m512i a) { return reg(a).f; }
inline __m512d castps_pd(__m512 a) { return reg(a).d; }
inline __m512 castpd_ps(__m512d a) { return reg(a).f; }
inline __m512i castpd_si512(__m512d a) { return reg(a).i; }
inline __m512d castsi512_pd(__m512i a) { return reg(a).d; }
inline __m256 castps512_ps256(__m512 a) { return reg(a).half[0]; }
inline __m512 castps256_ps512(__m256 a) {
  Register r = reg(set1_epi32(0x7FA5A5A5));
  r.half[0] = a;
  return r.f;
}
inline __m512 insertf32x8(__m512 a, __m256 b, int n) {
  Register r = reg(a);
  r.half[n] = b;
  return r.f;
}
inline __m256 extractf32x8_ps(__m512 a, int n) { return reg(a).half[n]; }
inline __m512d cvtps_pd(__m256 a) {
  Register r;
  r.half_d[0] = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
  r.half_d[1] = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
  return r.d;
}
inline __m256 cvtpd_ps(__m512d a) {
  return _mm256_set_m128(_mm256_cvtpd_ps(reg(a).half_d[1]), _mm256_cvtpd_ps(reg(a).half_d[0]));
}
inline __m512i cvtepi8_epi32(__m128i a) {
  Register r;
  r.half_i[0] = _mm256_cvtepi8_epi32(a);
  r.half_i[1] = _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8));
  return r.i;
}
inline __m512i cvtepu16_epi32(__m256i a) {
  Register r;
  r.half_i[0] = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(a));
  r.half_i[1] = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1));
  return r.i;
}
inline __m256i cvtepi32_epi16(__m512i a) {
  std::uint16_t low[16];
  for (unsigned n = 0; n < 16; ++n) low[n] = static_cast<std::uint16_t>(reg(a).bits[n]);
  __m256i r;
  std::memcpy(&r, low, sizeof r);
  return r;
}
inline void mask_cvtepi32_storeu_epi8(void* p, __mmask16 mask, __m512i a) {
  std::uint8_t low[16];
  for (unsigned n = 0; n < 16; ++n) low[n] = static_cast<std::uint8_t>(reg(a).bits[n]);
  move_some(p, low, mask, 1);
}
inline __m512 cvtepi32_ps(__m512i a) {
  Register r = reg(a);
  for (int h = 0; h < 2; ++h) r.half[h] = _mm256_cvtepi32_ps(r.half_i[h]);
  return r.f;
}
inline __m512i cvtps_epi32(__m512 a) {
  Register r = reg(a);
  for (int h = 0; h < 2; ++h) r.half_i[h] = _mm256_cvtps_epi32(r.half[h]);
  return r.i;
}
template <int rounding>
inline __m512 round_to_integer_ps(__m512 a) {  // roundscale without digits behind the point
  Register r = reg(a);
  for (int h = 0; h < 2; ++h) r.half[h] = _mm256_round_ps(r.half[h], rounding);
  return r.f;
}
template <int rounding>
inline __m256i cvtps_ph(__m512 a) {
  return _mm256_set_m128i(_mm256_cvtps_ph(reg(a).half[1], rounding & 7), _mm256_cvtps_ph(reg(a).half[0], rounding & 7));
}
inline __m512 cvtph_ps(__m256i a) {
  Register r;
  r.half[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(a));
  r.half[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1));
  return r.f;
}

// --- Between lanes ---------------------------------------------------------------------------------------------------

inline __m512 shuffle_f32x4(__m512 a, __m512 b, unsigned control) {  // quarters: two of a, two of b
  return lanes32([x = reg(a), y = reg(b), control](unsigned n) {
           const unsigned quarter = n / 4;
           return (quarter < 2 ? x : y).bits[4 * (control >> 2 * quarter & 3) + n % 4];
         })
      .f;
}
inline __m512 shuffle_ps(__m512 a, __m512 b, unsigned control) {  // in each quarter two of a, two of b
  return lanes32([x = reg(a), y = reg(b), control](unsigned n) {
           return (n % 4 < 2 ? x : y).bits[n / 4 * 4 + (control >> 2 * (n % 4) & 3)];
         })
      .f;
}
inline __m512 permutexvar_ps(__m512i index, __m512 a) {
  return lanes32([k = reg(index), x = reg(a)](unsigned n) { return x.bits[k.bits[n] & 15]; }).f;
}

}  // namespace kvcert::emulated
