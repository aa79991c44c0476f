// AVX2 and FMA kernels of int8 rows: integers become floats in registers, on their way to the fma.
//
// Compiled with -mavx2 -mfma: everything here has internal linkage, and nothing inline comes from elsewhere
// (kernels.hpp says why).
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/avx2_lanes.hpp"
#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

/// Eight integers at p as floats.
inline __m256 floats_at(const std::int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

// --- Scores ----------------------------------------------------------------------------------------------------------

constexpr int tile_rows = 8;  // whose dots are folded together
constexpr int parts = 4;      // registers of a group

/// One group of 32 channels, all in memory: for tile_rows rows and H heads the lanes of the dot, i + 8 added to i
/// already. A lane takes two elements, so an fma onto +0 and one onto that.
template <int H>
inline void group_lanes(const float* const* q, const std::int8_t* const* k, std::size_t begin,
                        __m256 (&sum)[H][tile_rows]) {
  const __m256 zero = _mm256_setzero_ps();
  KVCERT_UNROLL for (int r = 0; r < tile_rows; r += 2) {  // two rows share a load of q
    __m256 a[parts], b[parts];
    KVCERT_UNROLL for (int i = 0; i < parts; ++i) {
      a[i] = floats_at(k[r] + begin + i * 8);
      b[i] = floats_at(k[r + 1] + begin + i * 8);
    }
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      __m256 x[parts];
      KVCERT_UNROLL for (int i = 0; i < parts; ++i) x[i] = held(_mm256_loadu_ps(q[h] + begin + i * 8));
      sum[h][r] = _mm256_add_ps(_mm256_fmadd_ps(x[2], a[2], _mm256_fmadd_ps(x[0], a[0], zero)),
                                _mm256_fmadd_ps(x[3], a[3], _mm256_fmadd_ps(x[1], a[1], zero)));
      sum[h][r + 1] = _mm256_add_ps(_mm256_fmadd_ps(x[2], b[2], _mm256_fmadd_ps(x[0], b[0], zero)),
                                    _mm256_fmadd_ps(x[3], b[3], _mm256_fmadd_ps(x[1], b[1], zero)));
    }
  }
}

/// Scales of group g of tile_rows rows.
inline __m256 group_scales(const float* const* scales, std::size_t g) {
  return _mm256_setr_ps(scales[0][g], scales[1][g], scales[2][g], scales[3][g], scales[4][g], scales[5][g],
                        scales[6][g], scales[7][g]);
}

/// rows ≤ tile_rows; those missing repeat the last.
template <int H>
inline void score_tile(const float* q, const std::int8_t* k, std::size_t rows, std::size_t head_dim,
                       const float* scales, float scale, float* out, std::size_t stride) {
  const std::size_t groups = (head_dim - 1) / int8_group + 1;
  const float* query[H];
  const std::int8_t* row[tile_rows];
  const float* row_scales[tile_rows];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) query[h] = q + static_cast<std::size_t>(h) * head_dim;
  for (std::size_t r = 0; r < tile_rows; ++r) {
    row[r] = k + smaller(r, rows - 1) * head_dim;
    row_scales[r] = scales + smaller(r, rows - 1) * groups;
  }
  __m256 acc[H];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) acc[h] = _mm256_setzero_ps();
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t begin = g * int8_group;
    __m256 sum[H][tile_rows];
    if (const std::size_t n = head_dim - begin; n >= int8_group) {
      group_lanes<H>(query, row, begin, sum);
    } else {
      // Filled up with 0: fma(0, 0, lane) is the lane, for none is −0 (an fma of an integer onto +0 does not underflow).
      float x[H][int8_group] = {};
      std::int8_t y[tile_rows][int8_group] = {};
      const float* short_query[H];
      const std::int8_t* short_row[tile_rows];
      for (int h = 0; h < H; ++h) {
        __builtin_memcpy(x[h], query[h] + begin, n * sizeof(float));
        short_query[h] = x[h];
      }
      for (int r = 0; r < tile_rows; ++r) {
        __builtin_memcpy(y[r], row[r] + begin, n);
        short_row[r] = y[r];
      }
      group_lanes<H>(short_query, short_row, 0, sum);
    }
    const __m256 s = group_scales(row_scales, g);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) acc[h] = _mm256_fmadd_ps(fold_eight(sum[h]), s, acc[h]);
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h)
      store_first(out + static_cast<std::size_t>(h) * stride, rows, _mm256_mul_ps(acc[h], _mm256_set1_ps(scale)));
}

void scores(const float* q, std::size_t heads, const std::int8_t* k, std::size_t rows, std::size_t head_dim,
            const float* scales, float scale, float* out, std::size_t stride) {
  count_call();
  const std::size_t groups = (head_dim - 1) / int8_group + 1;
  for (std::size_t r = 0; r < rows; r += tile_rows) {
    const std::size_t count = smaller(rows - r, tile_rows);
    const std::int8_t* row = k + r * head_dim;
    const float* row_scales = scales + r * groups;
    for (std::size_t h = 0; h < heads; h += 4) {
      const float* query = q + h * head_dim;
      float* at = out + h * stride + r;
      switch (heads - h) {
        case 1: score_tile<1>(query, row, count, head_dim, row_scales, scale, at, stride); break;
        case 2: score_tile<2>(query, row, count, head_dim, row_scales, scale, at, stride); break;
        case 3: score_tile<3>(query, row, count, head_dim, row_scales, scale, at, stride); break;
        default: score_tile<4>(query, row, count, head_dim, row_scales, scale, at, stride); break;
      }
    }
  }
}

// --- Weighted sum ----------------------------------------------------------------------------------------------------

constexpr std::size_t block_rows = 32;  // of V, which stay in the first-level cache while the dimensions are walked

/// W registers of dimensions for H heads, over a block of rows. The sums are at out + h · head_dim, the weights at
/// p + h · stride, both already moved to this strip and block.
template <int H, int W, bool some_zero>
inline void sum_strip(const float* p, std::size_t stride, const std::int8_t* v, std::size_t rows, std::size_t head_dim,
                      float* out) {
  __m256 sum[H][W];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      sum[h][w] = _mm256_loadu_ps(out + static_cast<std::size_t>(h) * head_dim + w * 8);
  for (std::size_t r = 0; r < rows; ++r) {
    __m256 value[W];
    KVCERT_UNROLL for (int w = 0; w < W; ++w) value[w] = floats_at(v + r * head_dim + w * 8);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const float* weight = p + static_cast<std::size_t>(h) * stride + r;
      if (some_zero && *weight == 0) continue;
      const __m256 all = _mm256_broadcast_ss(weight);
      KVCERT_UNROLL for (int w = 0; w < W; ++w) sum[h][w] = _mm256_fmadd_ps(all, value[w], sum[h][w]);
    }
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      _mm256_storeu_ps(out + static_cast<std::size_t>(h) * head_dim + w * 8, sum[h][w]);
}

/// The last 1 … 8 dimensions of a row; nothing past its end is read or written.
inline void sum_rest(const float* p, std::size_t heads, std::size_t stride, const std::int8_t* v, std::size_t rows,
                     std::size_t head_dim, float* out, std::size_t count) {
  const __m256i mask = first_lanes(count);
  for (std::size_t h = 0; h < heads; ++h) {
    __m256 sum = _mm256_maskload_ps(out + h * head_dim, mask);
    for (std::size_t r = 0; r < rows; ++r) {
      if (p[h * stride + r] == 0) continue;
      std::int8_t some[width] = {};
      __builtin_memcpy(some, v + r * head_dim, count);
      sum = _mm256_fmadd_ps(_mm256_set1_ps(p[h * stride + r]), floats_at(some), sum);
    }
    _mm256_maskstore_ps(out + h * head_dim, mask, sum);
  }
}

template <int H, int W>
inline void sum_block(const float* p, std::size_t stride, const std::int8_t* v, std::size_t rows, std::size_t head_dim,
                      float* out) {
  const bool some_zero = any_zero(p, H, stride, rows);
  std::size_t d = 0;
  for (; d + W * width <= head_dim; d += W * width) {
    if (some_zero)
      sum_strip<H, W, true>(p, stride, v + d, rows, head_dim, out + d);
    else
      sum_strip<H, W, false>(p, stride, v + d, rows, head_dim, out + d);
  }
  for (; d < head_dim; d += width)
    sum_rest(p, H, stride, v + d, rows, head_dim, out + d, smaller(width, head_dim - d));
}

void weighted_sum(const float* p, std::size_t heads, std::size_t stride, const std::int8_t* v, std::size_t rows,
                  std::size_t head_dim, float* out) {
  count_call();
  for (std::size_t r = 0; r < rows; r += block_rows) {
    const std::size_t count = smaller(rows - r, block_rows);
    for (std::size_t h = 0; h < heads; h += 4) {
      const float* weights = p + h * stride + r;
      const std::int8_t* values = v + r * head_dim;
      float* sums = out + h * head_dim;
      switch (heads - h) {
        case 1: sum_block<1, 4>(weights, stride, values, count, head_dim, sums); break;
        case 2: sum_block<2, 4>(weights, stride, values, count, head_dim, sums); break;
        case 3: sum_block<3, 2>(weights, stride, values, count, head_dim, sums); break;
        default: sum_block<4, 2>(weights, stride, values, count, head_dim, sums); break;
      }
    }
  }
}

// --- Rows to int8 ----------------------------------------------------------------------------------------------------

/// x / columns, 8 or the first `mask` lanes of it; other lanes are 0.
inline __m256 quotient(const float* x, const float* columns, std::size_t i, std::size_t n) {
  if (n - i >= width) {
    const __m256 value = _mm256_loadu_ps(x + i);
    return columns == nullptr ? value : _mm256_div_ps(value, _mm256_loadu_ps(columns + i));
  }
  const __m256i mask = first_lanes(n - i);
  const __m256 value = _mm256_maskload_ps(x + i, mask);
  if (columns == nullptr) return value;
  const __m256 column = _mm256_blendv_ps(_mm256_set1_ps(1), _mm256_maskload_ps(columns + i, mask),
                                         _mm256_castsi256_ps(mask));
  return _mm256_div_ps(value, column);
}

/// All ones in the lanes that are infinite or NaN.
inline __m256i not_finite(__m256 x) {
  const __m256i exponent = _mm256_set1_epi32(0x7F800000);
  return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(x), exponent), exponent);
}

bool quantizable(const float* x, const float* columns, std::size_t n) {
  count_call();
  __m256i bad = _mm256_setzero_si256();
  for (std::size_t i = 0; i < n; i += width) {
    bad = _mm256_or_si256(bad, not_finite(quotient(x, nullptr, i, n)));
    if (columns != nullptr) bad = _mm256_or_si256(bad, not_finite(quotient(x, columns, i, n)));
  }
  return _mm256_testz_si256(bad, bad) != 0;
}

/// Halves away from zero, clamped to ±127, in the low bytes of 32-bit lanes. What lies past an integer is exact, where
/// adding 0.5 first would not be.
inline __m256i rounded(__m256 x) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const __m256 size = _mm256_min_ps(_mm256_andnot_ps(sign, x), _mm256_set1_ps(127));
  const __m256 whole = _mm256_round_ps(size, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __m256 up = _mm256_cmp_ps(_mm256_sub_ps(size, whole), _mm256_set1_ps(0.5F), _CMP_GE_OQ);
  const __m256 integer = _mm256_add_ps(whole, _mm256_and_ps(up, _mm256_set1_ps(1)));
  return _mm256_cvtps_epi32(_mm256_or_ps(integer, _mm256_and_ps(sign, x)));
}

/// The low bytes of eight 32-bit lanes.
inline std::uint64_t low_bytes(__m256i x) {
  const __m256i pick = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                        0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i bytes = _mm256_shuffle_epi8(x, pick);
  return static_cast<std::uint64_t>(
      _mm_cvtsi128_si64(_mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1))));
}

inline float largest_lane(__m256 x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

void quantize_row(const float* x, const float* columns, std::size_t n, std::size_t group, std::int8_t* q,
                  float* scales) {
  count_call();
  constexpr float smallest_scale = __builtin_bit_cast(float, 0x2B8CBCCC);  // 1e-12
  for (std::size_t begin = 0; begin < n; begin += smaller(group, n - begin)) {
    const std::size_t count = smaller(group, n - begin);
    const float* from = x + begin;
    const float* column = columns == nullptr ? nullptr : columns + begin;
    __m256 size = _mm256_setzero_ps();
    for (std::size_t i = 0; i < count; i += width)
      size = _mm256_max_ps(size, _mm256_andnot_ps(_mm256_set1_ps(-0.0F), quotient(from, column, i, count)));
    const float step = largest_lane(size) / 127.0F;
    const float scale = step > smallest_scale ? step : smallest_scale;
    const __m256 all = _mm256_set1_ps(scale);
    for (std::size_t i = 0; i < count; i += width) {
      const std::uint64_t bytes = low_bytes(rounded(_mm256_div_ps(quotient(from, column, i, count), all)));
      __builtin_memcpy(q + begin + i, &bytes, smaller(width, count - i));
    }
    *scales++ = scale;
  }
}

}  // namespace

constinit const Int8Kernels avx2_int8{scores, weighted_sum, quantizable, quantize_row, calls};

}  // namespace kvcert::optimized::kernels
