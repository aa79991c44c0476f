// AVX2 and FMA kernels of the ring and of the O(1) state.
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

// --- Scores of a turned query ----------------------------------------------------------------------------------------

constexpr std::size_t tile_rows = 8;  // whose lanes are folded together

/// One key, and the turn that its query takes.
struct Key {
  const float* k;
  const float* cos;
  const float* sin;
  std::size_t half;
};

/// Elements j … j + n − 1 of q, n ≤ 8, turned one by one; 0 behind them. For a half that is no multiple of 8.
inline __m256 turned(const float* q, Key key, std::size_t j, std::size_t n) {
  alignas(32) float x[width] = {};
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t d = j + i, first = d - key.half;
    if (d < key.half)
      x[i] = q[d] * key.cos[d] - q[d + key.half] * key.sin[d];
    else if (d < 2 * key.half)
      x[i] = q[first] * key.sin[first] + q[d] * key.cos[first];
    else
      x[i] = q[d];
  }
  return _mm256_load_ps(x);
}

/// Turned elements [j, end), one lane half of every 16, where the pairs need no whole registers. A lane without an
/// element keeps its value.
template <int H>
inline void slow_lanes(const float* const* q, Key key, std::size_t j, std::size_t end, __m256 (&lane)[H]) {
  for (; j < end; j += lanes) {
    const std::size_t n = smaller(width, end - j);
    const __m256i mask = first_lanes(n);
    const __m256 row = _mm256_maskload_ps(key.k + j, mask);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const __m256 taken = _mm256_fmadd_ps(turned(q[h], key, j, n), row, lane[h]);
      lane[h] = _mm256_blendv_ps(lane[h], taken, _mm256_castsi256_ps(mask));
    }
  }
}

/// Eight of the 16 lanes, those at `at` (0 or 8), for one key × H heads. Each rotation is two products and their sum,
/// and each then an fma: the first halves of the pairs, the second halves, what is not turned, all ascending.
template <int H>
inline void turned_lanes(const float* const* q, Key key, std::size_t head_dim, std::size_t at, __m256 (&lane)[H]) {
  KVCERT_UNROLL for (int h = 0; h < H; ++h) lane[h] = _mm256_setzero_ps();
  std::size_t j = at;
  if (key.half % width == 0) {
    for (; j < key.half; j += lanes) {
      const __m256 c = held(_mm256_loadu_ps(key.cos + j)), s = held(_mm256_loadu_ps(key.sin + j));
      const __m256 row = held(_mm256_loadu_ps(key.k + j));
      KVCERT_UNROLL for (int h = 0; h < H; ++h) {
        const __m256 x = _mm256_sub_ps(_mm256_mul_ps(c, _mm256_loadu_ps(q[h] + j)),
                                       _mm256_mul_ps(s, _mm256_loadu_ps(q[h] + j + key.half)));
        lane[h] = _mm256_fmadd_ps(x, row, lane[h]);
      }
    }
    for (; j < 2 * key.half; j += lanes) {
      const std::size_t i = j - key.half;
      const __m256 c = held(_mm256_loadu_ps(key.cos + i)), s = held(_mm256_loadu_ps(key.sin + i));
      const __m256 row = held(_mm256_loadu_ps(key.k + j));
      KVCERT_UNROLL for (int h = 0; h < H; ++h) {
        const __m256 x = _mm256_add_ps(_mm256_mul_ps(s, _mm256_loadu_ps(q[h] + i)),
                                       _mm256_mul_ps(c, _mm256_loadu_ps(q[h] + j)));
        lane[h] = _mm256_fmadd_ps(x, row, lane[h]);
      }
    }
  }
  slow_lanes<H>(q, key, j, head_dim, lane);
}

/// rows ≤ tile_rows.
template <int H>
inline void turned_tile(const float* q, const float* k, std::ptrdiff_t step, std::size_t rows, std::size_t head_dim,
                        Rotation rotation, float scale, float* out, std::size_t stride) {
  const float* query[H];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) query[h] = q + static_cast<std::size_t>(h) * head_dim;
  __m256 sum[H][tile_rows];
  if (rows < tile_rows)  // not all will be written, and folds take 8
    for (int h = 0; h < H; ++h)
      for (std::size_t r = 0; r < tile_rows; ++r) sum[h][r] = _mm256_setzero_ps();
  for (std::size_t r = 0; r < rows; ++r) {
    const Key key{k + static_cast<std::ptrdiff_t>(r) * step, rotation.cos + r * rotation.half,
                  rotation.sin + r * rotation.half, rotation.half};
    __m256 low[H], high[H];
    turned_lanes<H>(query, key, head_dim, 0, low);
    turned_lanes<H>(query, key, head_dim, width, high);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) sum[h][r] = _mm256_add_ps(low[h], high[h]);
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h)
      store_first(out + static_cast<std::size_t>(h) * stride, rows,
                  _mm256_mul_ps(fold_eight(sum[h]), _mm256_set1_ps(scale)));
}

void rotated_scores(const float* q, std::size_t heads, const float* k, std::ptrdiff_t step, std::size_t rows,
                    std::size_t head_dim, Rotation rotation, float scale, float* out, std::size_t stride) {
  count_call();
  for (std::size_t r = 0; r < rows; r += tile_rows) {
    const std::size_t count = smaller(rows - r, tile_rows);
    const float* row = k + static_cast<std::ptrdiff_t>(r) * step;
    const Rotation turn{rotation.cos + r * rotation.half, rotation.sin + r * rotation.half, rotation.half};
    for (std::size_t h = 0; h < heads; h += 4) {
      const float* query = q + h * head_dim;
      float* at = out + h * stride + r;
      switch (heads - h) {
        case 1: turned_tile<1>(query, row, step, count, head_dim, turn, scale, at, stride); break;
        case 2: turned_tile<2>(query, row, step, count, head_dim, turn, scale, at, stride); break;
        case 3: turned_tile<3>(query, row, step, count, head_dim, turn, scale, at, stride); break;
        default: turned_tile<4>(query, row, step, count, head_dim, turn, scale, at, stride); break;
      }
    }
  }
}

// --- Sums ------------------------------------------------------------------------------------------------------------

/// W registers of dimensions for H heads over all rows. The sums are at out + h · head_dim.
template <int H, int W, bool skips>
inline void sum_strip(const float* p, std::size_t stride, const float* v, std::ptrdiff_t step, std::size_t rows,
                      std::size_t head_dim, float* out) {
  __m256 sum[H][W];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      sum[h][w] = _mm256_loadu_ps(out + static_cast<std::size_t>(h) * head_dim + w * 8);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = v + static_cast<std::ptrdiff_t>(r) * step;
    __m256 value[W];
    KVCERT_UNROLL for (int w = 0; w < W; ++w) value[w] = _mm256_loadu_ps(row + w * 8);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const float* weight = p + static_cast<std::size_t>(h) * stride + r;
      if (skips && *weight == 0) continue;
      const __m256 all = _mm256_broadcast_ss(weight);
      KVCERT_UNROLL for (int w = 0; w < W; ++w) sum[h][w] = _mm256_fmadd_ps(all, value[w], sum[h][w]);
    }
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      _mm256_storeu_ps(out + static_cast<std::size_t>(h) * head_dim + w * 8, sum[h][w]);
}

/// One register of dimensions, maybe not all of its lanes; the others are neither read nor written.
template <int H, bool skips>
inline void sum_rest(const float* p, std::size_t stride, const float* v, std::ptrdiff_t step, std::size_t rows,
                     std::size_t head_dim, float* out, std::size_t count) {
  const __m256i mask = first_lanes(count);
  for (std::size_t h = 0; h < H; ++h) {
    __m256 sum = _mm256_maskload_ps(out + h * head_dim, mask);
    for (std::size_t r = 0; r < rows; ++r) {
      const float weight = p[h * stride + r];
      if (skips && weight == 0) continue;
      const __m256 value = _mm256_maskload_ps(v + static_cast<std::ptrdiff_t>(r) * step, mask);
      sum = _mm256_fmadd_ps(_mm256_set1_ps(weight), value, sum);
    }
    _mm256_maskstore_ps(out + h * head_dim, mask, sum);
  }
}

template <int H, int W, bool skips>
inline void sum_rows(const float* p, std::size_t stride, const float* v, std::ptrdiff_t step, std::size_t rows,
                     std::size_t head_dim, float* out) {
  std::size_t d = 0;
  for (; d + W * width <= head_dim; d += W * width)
    sum_strip<H, W, skips>(p, stride, v + d, step, rows, head_dim, out + d);
  for (; d < head_dim; d += width)
    sum_rest<H, skips>(p, stride, v + d, step, rows, head_dim, out + d, smaller(width, head_dim - d));
}

template <int H, int W>
inline void sum_heads(const float* p, std::size_t stride, const float* v, std::ptrdiff_t step, std::size_t rows,
                      std::size_t head_dim, float* out) {
  if (any_zero(p, H, stride, rows))
    sum_rows<H, W, true>(p, stride, v, step, rows, head_dim, out);
  else
    sum_rows<H, W, false>(p, stride, v, step, rows, head_dim, out);
}

void stepped_sum(const float* p, std::size_t heads, std::size_t stride, const float* v, std::ptrdiff_t step,
                 std::size_t rows, std::size_t head_dim, float* out) {
  count_call();
  for (std::size_t h = 0; h < heads; h += 4) {
    const float* weights = p + h * stride;
    float* sums = out + h * head_dim;
    switch (heads - h) {
      case 1: sum_heads<1, 8>(weights, stride, v, step, rows, head_dim, sums); break;
      case 2: sum_heads<2, 4>(weights, stride, v, step, rows, head_dim, sums); break;
      case 3: sum_heads<3, 2>(weights, stride, v, step, rows, head_dim, sums); break;
      default: sum_heads<4, 2>(weights, stride, v, step, rows, head_dim, sums); break;
    }
  }
}

void fma_rows(const float* w, const float* row, std::size_t rows, std::size_t n, float* sum) {
  count_call();
  sum_rows<1, 8, false>(w, rows, row, static_cast<std::ptrdiff_t>(n), rows, n, sum);
}

}  // namespace

constinit const StateKernels avx2_state{rotated_scores, stepped_sum, fma_rows, calls};

}  // namespace kvcert::optimized::kernels
