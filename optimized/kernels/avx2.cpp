// AVX2 and FMA kernels: 8 lanes a register, so two registers hold the 16 lanes of the canonical order.
//
// Compiled with -mavx2 -mfma: everything here has internal linkage, and nothing inline comes from elsewhere
// (kernels.hpp says why). avx2_elementary.hpp is a part of this unit and of no other.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/avx2_elementary.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

std::uint64_t call_count;

void count_call() { __atomic_fetch_add(&call_count, 1, __ATOMIC_RELAXED); }
std::uint64_t calls() { return __atomic_load_n(&call_count, __ATOMIC_RELAXED); }

constexpr std::size_t width = 8;       // floats in a register
constexpr std::size_t line = 16;       // and in a cache line
constexpr std::size_t tile_rows = 24;  // rows of K whose scores are folded together

// How far ahead of their use K and V are asked for, in bytes. Tried from 2 KiB to 64 KiB: nearer is too late, farther
// leaves the first-level cache before it is used. What counts more is that the hints come in the memory's order and
// evenly spread over the arithmetic: in bursts they fill the queue of misses and the loads behind them wait.
constexpr std::size_t keys_ahead = 5 * 1024;
constexpr std::size_t values_ahead = 16 * 1024;

inline std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

/// All ones in the first n of 8 lanes, n ≤ 8.
inline __m256i first_lanes(std::size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// Asks for the cache line at p + bytes; a hint that never faults, so the address need not exist.
inline void prefetch(const float* p, std::size_t bytes) {
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(p) + bytes), _MM_HINT_T0);
}

/// Asks for the first of `floats` at p, as far as a walk that asks `ahead` bytes ahead leaves them out.
inline void prefetch_start(const float* p, std::size_t floats, std::size_t ahead) {
  const std::size_t end = smaller(floats * sizeof(float), ahead);
  for (std::size_t byte = 0; byte < end; byte += line * sizeof(float)) prefetch(p, byte);
}

/// x, in a register: g++ would rather load it again for every fma.
inline __m256 held(__m256 x) {
  asm("" : "+x"(x));
  return x;
}

// --- Scores ----------------------------------------------------------------------------------------------------------

/// Eight of the 16 lanes for R rows × H heads: over the j of each lane, ascending, fma(q_j, k_j, lane). The lanes are
/// those at `half` (0 or 8) of every 16 elements. R · H ≥ 8 sums hide the latency of fma; 12 are the
/// most that fit beside R registers of rows and one of q. The first half stores its lanes, the second adds its own to
/// them (lane i += lane i + 8). Each half asks for its part of the R rows to come.
template <int R, int H, int half>
inline void score_half(const float* const* k, const float* q, std::size_t head_dim, __m256 (*sum)[tile_rows],
                       std::size_t first_row) {
  constexpr int hints = half == 0 ? R - R / 2 : R / 2;  // lines per 16 elements
  const std::size_t ahead = keys_ahead + (half == 0 ? 0 : (R - R / 2) * head_dim * sizeof(float));
  const std::size_t rest = head_dim % lanes;
  const std::size_t full_end = head_dim - rest + (rest >= half + width ? half + width : half);
  __m256 lane[R][H];
  KVCERT_UNROLL for (int r = 0; r < R; ++r) KVCERT_UNROLL for (int h = 0; h < H; ++h) lane[r][h] = _mm256_setzero_ps();
  std::size_t j = half;
  for (; j + width <= full_end; j += lanes) {
    __m256 row[R];
    KVCERT_UNROLL for (int r = 0; r < R; ++r) row[r] = held(_mm256_loadu_ps(k[r] + j));
    KVCERT_UNROLL for (std::size_t i = 0; i < hints; ++i)
        prefetch(k[0], ahead + ((j - half) * hints + i * line) * sizeof(float));
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const __m256 query = held(_mm256_loadu_ps(q + static_cast<std::size_t>(h) * head_dim + j));
      KVCERT_UNROLL for (int r = 0; r < R; ++r) lane[r][h] = _mm256_fmadd_ps(query, row[r], lane[r][h]);
    }
  }
  if (j < head_dim) {  // 1 … 7 elements: a lane without one keeps its value, even a −0 that fma(0, 0, −0) would change
    const __m256i mask = first_lanes(head_dim - j);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const __m256 query = _mm256_maskload_ps(q + static_cast<std::size_t>(h) * head_dim + j, mask);
      KVCERT_UNROLL for (int r = 0; r < R; ++r) {
        const __m256 taken = _mm256_fmadd_ps(query, _mm256_maskload_ps(k[r] + j, mask), lane[r][h]);
        lane[r][h] = _mm256_blendv_ps(lane[r][h], taken, _mm256_castsi256_ps(mask));
      }
    }
  }
  KVCERT_UNROLL for (int r = 0; r < R; ++r) {
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      __m256& total = sum[h][first_row + static_cast<std::size_t>(r)];
      total = half == 0 ? lane[r][h] : _mm256_add_ps(total, lane[r][h]);
    }
  }
}

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

/// R divides tile_rows. k: tile_rows row pointers, of which those from `rows` on repeat the last row.
template <int R, int H>
inline void score_tile(const float* const* k, std::size_t rows, const float* q, std::size_t head_dim, float scale,
                       float* out, std::size_t stride) {
  __m256 sum[H][tile_rows];
  if (rows < tile_rows)  // not all will be written, and folds take 8
    for (int h = 0; h < H; ++h)
      for (std::size_t r = 0; r < tile_rows; ++r) sum[h][r] = _mm256_setzero_ps();
  for (std::size_t r = 0; r < rows; r += R) {
    score_half<R, H, 0>(k + r, q, head_dim, sum, r);
    score_half<R, H, width>(k + r, q, head_dim, sum, r);
  }
  for (std::size_t r = 0; r < rows; r += width)
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const __m256 score = _mm256_mul_ps(fold_eight(sum[h] + r), _mm256_set1_ps(scale));
      float* at = out + static_cast<std::size_t>(h) * stride + r;
      if (rows - r >= width)
        _mm256_storeu_ps(at, score);
      else
        _mm256_maskstore_ps(at, first_lanes(rows - r), score);
    }
}

void scores(const float* q, std::size_t heads, const float* k, std::size_t rows, std::size_t head_dim, float scale,
            float* out, std::size_t stride) {
  count_call();
  prefetch_start(k, rows * head_dim, keys_ahead);
  for (std::size_t r = 0; r < rows; r += tile_rows) {
    const std::size_t count = smaller(rows - r, tile_rows);
    const float* row[tile_rows];
    for (std::size_t i = 0; i < tile_rows; ++i) row[i] = k + (r + smaller(i, count - 1)) * head_dim;
    for (std::size_t h = 0; h < heads; h += 4) {
      const float* query = q + h * head_dim;
      float* at = out + h * stride + r;
      switch (heads - h) {
        case 1: score_tile<8, 1>(row, count, query, head_dim, scale, at, stride); break;
        case 2: score_tile<4, 2>(row, count, query, head_dim, scale, at, stride); break;
        case 3: score_tile<3, 3>(row, count, query, head_dim, scale, at, stride); break;
        default: score_tile<3, 4>(row, count, query, head_dim, scale, at, stride); break;
      }
    }
  }
}

// --- Weighted sum ----------------------------------------------------------------------------------------------------

/// How V is walked: in blocks of rows that stay in the first-level cache while the dimensions are. Where a block is
/// read once and small, its strips ask for what lies values_ahead in the memory's order; else, where that was measured
/// to be slower, for the same strip of the next block.
struct Walk {
  bool in_order;
  std::size_t block_rows;
};

inline Walk walk_of(std::size_t heads, std::size_t head_dim) {
  return heads <= 4 && head_dim <= 128 ? Walk{true, 32} : Walk{false, 16};
}

/// W registers of dimensions for H heads, over a block of rows: sums stay in registers. `some_zero` rows are skipped
/// head by head. The sums are at out + h · head_dim, the weights at p + h · stride, both already moved to this strip
/// and block. Asks with each row for W registers, `ahead` bytes after v and `step` bytes farther each time.
template <int H, int W, bool some_zero>
inline void sum_strip(const float* p, std::size_t stride, const float* v, std::size_t rows, std::size_t head_dim,
                      float* out, std::size_t ahead, std::size_t step) {
  __m256 sum[H][W];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      sum[h][w] = _mm256_loadu_ps(out + static_cast<std::size_t>(h) * head_dim + w * 8);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = v + r * head_dim;
    KVCERT_UNROLL for (std::size_t i = 0; i < W * width; i += line)
        prefetch(v, ahead + r * step + i * sizeof(float));
    __m256 value[W];
    KVCERT_UNROLL for (int w = 0; w < W; ++w) value[w] = _mm256_loadu_ps(row + w * 8);
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

/// The last 1 … 8 dimensions of a row; lanes past its end are neither read nor written.
template <int H>
inline void sum_rest(const float* p, std::size_t stride, const float* v, std::size_t rows, std::size_t head_dim,
                     float* out, std::size_t count) {
  const __m256i mask = first_lanes(count);
  for (std::size_t h = 0; h < H; ++h) {
    __m256 sum = _mm256_maskload_ps(out + h * head_dim, mask);
    for (std::size_t r = 0; r < rows; ++r) {
      if (p[h * stride + r] == 0) continue;
      sum = _mm256_fmadd_ps(_mm256_set1_ps(p[h * stride + r]), _mm256_maskload_ps(v + r * head_dim, mask), sum);
    }
    _mm256_maskstore_ps(out + h * head_dim, mask, sum);
  }
}

inline bool any_zero(const float* p, std::size_t heads, std::size_t stride, std::size_t rows) {
  bool found = false;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t r = 0; r < rows; ++r) found |= p[h * stride + r] == 0;
  return found;
}

template <int H, int W>
inline void sum_block(const float* p, std::size_t stride, const float* v, std::size_t rows, std::size_t head_dim,
                      float* out, Walk walk) {
  const bool some_zero = any_zero(p, H, stride, rows);
  std::size_t d = 0;
  for (; d + W * width <= head_dim; d += W * width) {
    const std::size_t ahead = walk.in_order ? values_ahead + (rows - 1) * d * sizeof(float)  // from v + d
                                            : walk.block_rows * head_dim * sizeof(float);
    const std::size_t step = (walk.in_order ? W * width : head_dim) * sizeof(float);
    if (some_zero)
      sum_strip<H, W, true>(p, stride, v + d, rows, head_dim, out + d, ahead, step);
    else
      sum_strip<H, W, false>(p, stride, v + d, rows, head_dim, out + d, ahead, step);
  }
  for (; d < head_dim; d += width) sum_rest<H>(p, stride, v + d, rows, head_dim, out + d, smaller(width, head_dim - d));
}

void weighted_sum(const float* p, std::size_t heads, std::size_t stride, const float* v, std::size_t rows,
                  std::size_t head_dim, float* out) {
  count_call();
  prefetch_start(v, rows * head_dim, values_ahead);
  const Walk walk = walk_of(heads, head_dim);
  for (std::size_t r = 0; r < rows; r += walk.block_rows) {
    const std::size_t count = smaller(rows - r, walk.block_rows);
    for (std::size_t h = 0; h < heads; h += 4) {
      const float* weights = p + h * stride + r;
      const float* values = v + r * head_dim;
      float* sums = out + h * head_dim;
      switch (heads - h) {
        case 1: sum_block<1, 8>(weights, stride, values, count, head_dim, sums, walk); break;
        case 2: sum_block<2, 4>(weights, stride, values, count, head_dim, sums, walk); break;
        case 3: sum_block<3, 2>(weights, stride, values, count, head_dim, sums, walk); break;
        default: sum_block<4, 2>(weights, stride, values, count, head_dim, sums, walk); break;
      }
    }
  }
}

// --- Rows ------------------------------------------------------------------------------------------------------------

/// out[i] = f(in[i]), 8 at a time; the rest goes through a register filled up with zeros. in may be out.
template <class F>
inline void map_row(const float* in, float* out, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + width <= n; i += width) _mm256_storeu_ps(out + i, f(_mm256_loadu_ps(in + i)));
  if (i == n) return;
  const __m256i mask = first_lanes(n - i);
  _mm256_maskstore_ps(out + i, mask, f(_mm256_maskload_ps(in + i, mask)));
}

void softcap_row(float* row, std::size_t n, float cap) {
  count_call();
  const __m256 c = _mm256_set1_ps(cap);
  map_row(row, row, n, [c](__m256 s) { return _mm256_mul_ps(c, tanh8(_mm256_div_ps(s, c))); });
}

/// Lane i += i+8, i+4, i+2, i+1.
inline float fold(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/// Up to 16 elements that do not fill their lanes, lane … lane + n − 1: exponentials into row and the lanes' sums. A
/// lane without an element gets + 0, which changes no sum of numbers ≥ +0.
inline void exp_partial(float* row, std::size_t lane, std::size_t n, __m256 maximum, __m256& low, __m256& high) {
  alignas(32) float x[lanes] = {};
  alignas(32) float e[lanes];
  for (std::size_t i = 0; i < n; ++i) x[lane + i] = row[i];
  _mm256_store_ps(e, exp8(_mm256_sub_ps(_mm256_load_ps(x), maximum)));
  _mm256_store_ps(e + width, exp8(_mm256_sub_ps(_mm256_load_ps(x + width), maximum)));
  for (std::size_t i = 0; i < lanes; ++i) x[i] = i >= lane && i < lane + n ? e[i] : 0;
  for (std::size_t i = 0; i < n; ++i) row[i] = x[lane + i];
  low = _mm256_add_ps(low, _mm256_load_ps(x));
  high = _mm256_add_ps(high, _mm256_load_ps(x + width));
}

/// From −∞; the instruction gives its second operand where the first is a NaN.
inline float maximum_of(const float* row, std::size_t n) {
  __m256 m = _mm256_set1_ps(-__builtin_inff());
  std::size_t i = 0;
  for (; i + width <= n; i += width) m = _mm256_max_ps(_mm256_loadu_ps(row + i), m);
  alignas(32) float lane[width];
  _mm256_store_ps(lane, m);
  float result = lane[0];
  for (std::size_t j = 1; j < width; ++j) result = lane[j] > result ? lane[j] : result;
  for (; i < n; ++i) result = row[i] > result ? row[i] : result;
  return result;
}

void softmax_row(float* row, std::size_t n, std::size_t first_lane, const float* sink) {
  count_call();
  float m = maximum_of(row, n);
  if (sink != nullptr && *sink > m) m = *sink;

  const __m256 maximum = _mm256_set1_ps(m);
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  std::size_t i = 0;
  if (first_lane != 0) {
    i = smaller(n, lanes - first_lane);
    exp_partial(row, first_lane, i, maximum, low, high);
  }
  for (; i + lanes <= n; i += lanes) {
    __m256 e[2] = {_mm256_sub_ps(_mm256_loadu_ps(row + i), maximum),
                   _mm256_sub_ps(_mm256_loadu_ps(row + i + width), maximum)};
    exp_all(e);
    _mm256_storeu_ps(row + i, e[0]);
    _mm256_storeu_ps(row + i + width, e[1]);
    low = _mm256_add_ps(low, e[0]);
    high = _mm256_add_ps(high, e[1]);
  }
  if (i < n) exp_partial(row + i, 0, n - i, maximum, low, high);

  float denominator = fold(low, high);
  if (sink != nullptr) denominator += _mm256_cvtss_f32(exp8(_mm256_set1_ps(*sink - m)));
  const __m256 all = _mm256_set1_ps(denominator);
  map_row(row, row, n, [all](__m256 e) { return canonical(_mm256_div_ps(e, all)); });
}

void add_row(float* acc, const float* row, std::size_t n) {
  count_call();
  std::size_t i = 0;
  for (; i + width <= n; i += width)
    _mm256_storeu_ps(acc + i, canonical(_mm256_add_ps(_mm256_loadu_ps(acc + i), _mm256_loadu_ps(row + i))));
  if (i == n) return;
  const __m256i mask = first_lanes(n - i);
  const __m256 sum = _mm256_add_ps(_mm256_maskload_ps(acc + i, mask), _mm256_maskload_ps(row + i, mask));
  _mm256_maskstore_ps(acc + i, mask, canonical(sum));
}

void canonicalize_row(float* row, std::size_t n) {
  count_call();
  map_row(row, row, n, [](__m256 x) { return canonical(x); });
}

void exp_row(const float* in, float* out, std::size_t n) {
  count_call();
  map_row(in, out, n, [](__m256 x) { return exp8(x); });
}

void tanh_row(const float* in, float* out, std::size_t n) {
  count_call();
  map_row(in, out, n, [](__m256 x) { return tanh8(x); });
}

}  // namespace

constinit const Table avx2_table{scores, softcap_row, softmax_row, weighted_sum, add_row, canonicalize_row,
                                 exp_row, tanh_row, calls, &avx2_int8, &scalar_binary16, &avx2_state};

}  // namespace kvcert::optimized::kernels
