// AVX-512 kernels of int8 rows: integers become floats in registers, on their way to the fma.
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

/// The integers at p, of the lanes in `some`, as floats; the others are 0 and not read.
inline __m512 floats_at(const std::int8_t* p, __mmask16 some) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(some, p)));
}
/// All sixteen: a masked load of bytes is slow.
inline __m512 floats_at(const std::int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

// --- Scores ----------------------------------------------------------------------------------------------------------

constexpr std::size_t tile_rows = 16;  // whose dots are folded together

/// A tile of rows, and four heads at most.
struct Tile {
  const float* q;
  const std::int8_t* k;
  std::size_t rows;  ///< ≤ tile_rows
  std::size_t head_dim;
  const float* scales;
  float scale;
  float* out;
  std::size_t stride;
};

/// Scale g of each row, rows × groups of them; 0 for a row that is not there.
inline __m512 group_scales(const Tile& tile, std::size_t groups, std::size_t g) {
  const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  const __m512i low = _mm512_mullo_epi64(lane, _mm512_set1_epi64(static_cast<long long>(groups)));
  const __m512i high = _mm512_add_epi64(low, _mm512_set1_epi64(static_cast<long long>(8 * groups)));
  const __mmask16 there = first_lanes(tile.rows);
  const float* at = tile.scales + g;
  const __m256 zero = _mm256_setzero_ps();
  const __m256 first = _mm512_mask_i64gather_ps(zero, static_cast<__mmask8>(there), low, at, 4);
  const __m256 second = _mm512_mask_i64gather_ps(zero, static_cast<__mmask8>(there >> 8), high, at, 4);
  return _mm512_insertf32x8(_mm512_castps256_ps512(first), second, 1);
}

/// The dots of one group, folded: of `rows` rows and H heads. A lane takes two elements, an fma onto +0 and one onto that.
/// Where the group is short, a lane without an element takes fma(0, 0, lane), which is the lane: none is −0, as an fma of
/// an integer onto +0 does not underflow.
template <int H>
inline void score_tile(const Tile& tile) {
  const std::size_t groups = (tile.head_dim - 1) / int8_group + 1;
  const __m512 zero = _mm512_setzero_ps();
  __m512 sum[H][tile_rows];
  for (int h = 0; h < H && tile.rows < tile_rows; ++h)  // not all will be written, and folds take 16
    for (std::size_t r = 0; r < tile_rows; ++r) sum[h][r] = zero;
  __m512 acc[H];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) acc[h] = zero;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t begin = g * int8_group, n = smaller(tile.head_dim - begin, int8_group);
    const __mmask16 low = first_lanes(smaller(n, width)), high = first_lanes(n - smaller(n, width));
    __m512 x[H], y[H];
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const float* query = tile.q + static_cast<std::size_t>(h) * tile.head_dim + begin;
      x[h] = held(_mm512_maskz_loadu_ps(low, query));
      y[h] = held(_mm512_maskz_loadu_ps(high, query + width));
    }
    const auto dot = [&](std::size_t r, __m512 a, __m512 b) __attribute__((always_inline)) {
      KVCERT_UNROLL for (int h = 0; h < H; ++h) sum[h][r] = _mm512_fmadd_ps(y[h], b, _mm512_fmadd_ps(x[h], a, zero));
    };
    const std::int8_t* row = tile.k + begin;
    if (n == int8_group) {
      for (std::size_t r = 0; r < tile.rows; ++r, row += tile.head_dim) dot(r, held(floats_at(row)), held(floats_at(row + width)));
    } else {
      for (std::size_t r = 0; r < tile.rows; ++r, row += tile.head_dim) dot(r, floats_at(row, low), floats_at(row + width, high));
    }
    const __m512 scales = group_scales(tile, groups, g);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) acc[h] = _mm512_fmadd_ps(fold_sixteen(sum[h]), scales, acc[h]);
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h)
    _mm512_mask_storeu_ps(tile.out + static_cast<std::size_t>(h) * tile.stride, first_lanes(tile.rows),
                          _mm512_mul_ps(acc[h], _mm512_set1_ps(tile.scale)));
}

void scores(const float* q, std::size_t heads, const std::int8_t* k, std::size_t rows, std::size_t head_dim,
            const float* scales, float scale, float* out, std::size_t stride) {
  count_call();
  const std::size_t groups = (head_dim - 1) / int8_group + 1;
  for (std::size_t r = 0; r < rows; r += tile_rows) {
    for (std::size_t h = 0; h < heads; h += 4) {
      const Tile tile{q + h * head_dim, k + r * head_dim, smaller(rows - r, tile_rows), head_dim,
                      scales + r * groups, scale, out + h * stride + r, stride};
      switch (heads - h) {
        case 1: score_tile<1>(tile); break;
        case 2: score_tile<2>(tile); break;
        case 3: score_tile<3>(tile); break;
        default: score_tile<4>(tile); break;
      }
    }
  }
}

// --- Weighted sum ----------------------------------------------------------------------------------------------------

constexpr std::size_t block_rows = 32;  // of V, which stay in the first-level cache while the dimensions are walked

/// W registers of dimensions for H heads, over a block of rows. The sums are at out + h · head_dim, the weights at
/// p + h · stride, both already moved to this strip and block. A strip of one register may be a part of it, the lanes `some`:
/// the others are neither read nor written.
template <int H, int W, bool some_zero>
inline void sum_strip(const float* p, std::size_t stride, const std::int8_t* v, std::size_t rows, std::size_t head_dim,
                      float* out, __mmask16 some) {
  if (W > 1) some = first_lanes(width);
  __m512 sum[H][W];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      sum[h][w] = _mm512_maskz_loadu_ps(some, out + static_cast<std::size_t>(h) * head_dim + w * 16);
  for (std::size_t r = 0; r < rows; ++r) {
    __m512 value[W];
    KVCERT_UNROLL for (int w = 0; w < W; ++w) value[w] = held(W > 1 ? floats_at(v + r * head_dim + w * 16) : floats_at(v + r * head_dim, some));
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const float* weight = p + static_cast<std::size_t>(h) * stride + r;
      if (some_zero && *weight == 0) continue;
      const __m512 all = _mm512_set1_ps(*weight);
      KVCERT_UNROLL for (int w = 0; w < W; ++w) sum[h][w] = _mm512_fmadd_ps(all, value[w], sum[h][w]);
    }
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      _mm512_mask_storeu_ps(out + static_cast<std::size_t>(h) * head_dim + w * 16, some, sum[h][w]);
}

template <int H, bool some_zero>
inline void sum_strips(const float* p, std::size_t stride, const std::int8_t* v, std::size_t rows, std::size_t head_dim,
                       float* out) {
  constexpr std::size_t strip = 4 * width;
  std::size_t d = 0;
  for (; d + strip <= head_dim; d += strip)
    sum_strip<H, 4, some_zero>(p, stride, v + d, rows, head_dim, out + d, first_lanes(width));
  for (; d < head_dim; d += width)
    sum_strip<H, 1, some_zero>(p, stride, v + d, rows, head_dim, out + d, first_lanes(smaller(width, head_dim - d)));
}

template <int H>
inline void sum_block(const float* p, std::size_t stride, const std::int8_t* v, std::size_t rows, std::size_t head_dim,
                      float* out) {
  if (any_zero(p, H, stride, rows))
    sum_strips<H, true>(p, stride, v, rows, head_dim, out);
  else
    sum_strips<H, false>(p, stride, v, rows, head_dim, out);
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
        case 1: sum_block<1>(weights, stride, values, count, head_dim, sums); break;
        case 2: sum_block<2>(weights, stride, values, count, head_dim, sums); break;
        case 3: sum_block<3>(weights, stride, values, count, head_dim, sums); break;
        default: sum_block<4>(weights, stride, values, count, head_dim, sums); break;
      }
    }
  }
}

// --- Rows to int8 ----------------------------------------------------------------------------------------------------

/// x / columns (x where columns is nullptr) in the lanes of `some`; the others are 0 and not read.
inline __m512 quotient(const float* x, const float* columns, __mmask16 some) {
  const __m512 value = _mm512_maskz_loadu_ps(some, x);
  return columns == nullptr ? value : _mm512_maskz_div_ps(some, value, _mm512_maskz_loadu_ps(some, columns));
}

/// The lanes that are infinite or NaN.
inline __mmask16 not_finite(__m512 x) {
  const __m512i exponent = _mm512_set1_epi32(0x7F800000);
  return _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(x), exponent), exponent);
}

bool quantizable(const float* x, const float* columns, std::size_t n) {
  count_call();
  unsigned bad = 0;
  for (std::size_t i = 0; i < n; i += width) {
    const __mmask16 some = first_lanes(smaller(width, n - i));
    bad |= not_finite(_mm512_maskz_loadu_ps(some, x + i));
    if (columns != nullptr) bad |= not_finite(quotient(x + i, columns + i, some));
  }
  return bad == 0;
}

/// Halves away from zero, clamped to ±127, as 32-bit integers. What lies past an integer is exact, where adding 0.5 first
/// would not be.
inline __m512i rounded(__m512 x) {
  const __m512 size = _mm512_min_ps(_mm512_abs_ps(x), _mm512_set1_ps(127));
  const __m512 whole = _mm512_roundscale_ps(size, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __mmask16 up = _mm512_cmp_ps_mask(_mm512_sub_ps(size, whole), _mm512_set1_ps(0.5F), _CMP_GE_OQ);
  const __m512i integer = _mm512_cvtps_epi32(_mm512_mask_add_ps(whole, up, whole, _mm512_set1_ps(1)));
  const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(x));
  return _mm512_mask_sub_epi32(integer, negative, _mm512_setzero_si512(), integer);
}

void quantize_row(const float* x, const float* columns, std::size_t n, std::size_t group, std::int8_t* q,
                  float* scales) {
  count_call();
  constexpr float smallest_scale = __builtin_bit_cast(float, 0x2B8CBCCC);  // 1e-12
  for (std::size_t begin = 0; begin < n; begin += smaller(group, n - begin)) {
    const std::size_t count = smaller(group, n - begin);
    const float* from = x + begin;
    const auto column = [=](std::size_t i) { return columns == nullptr ? nullptr : columns + begin + i; };
    __m512 size = _mm512_setzero_ps();
    for (std::size_t i = 0; i < count; i += width)
      size = _mm512_max_ps(size, _mm512_abs_ps(quotient(from + i, column(i), first_lanes(smaller(width, count - i)))));
    const float step = _mm512_reduce_max_ps(size) / 127.0F;
    const float scale = step > smallest_scale ? step : smallest_scale;
    const __m512 all = _mm512_set1_ps(scale);
    for (std::size_t i = 0; i < count; i += width) {
      const __mmask16 some = first_lanes(smaller(width, count - i));
      _mm512_mask_cvtepi32_storeu_epi8(q + begin + i, some, rounded(_mm512_div_ps(quotient(from + i, column(i), some), all)));
    }
    *scales++ = scale;
  }
}

}  // namespace

constinit const Int8Kernels avx512_int8{scores, weighted_sum, quantizable, quantize_row, calls};

}  // namespace kvcert::optimized::kernels
