// AVX-512 kernels of the ring and of the O(1) state.
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

// --- Scores of a turned query ----------------------------------------------------------------------------------------

constexpr std::size_t tile_rows = 16;  // whose lanes are folded together

/// One key, and the turn that its query takes.
struct Key {
  const float* k;
  const float* cos;
  const float* sin;
  std::size_t half;
};

/// Elements j … j + n − 1 of q, n ≤ 16, turned one by one. For a half that is no multiple of 16.
inline __m512 turned(const float* q, Key key, std::size_t j, std::size_t n) {
  alignas(64) float x[width] = {};
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t d = j + i;
    if (d < key.half) {
      x[i] = q[d] * key.cos[d] - q[d + key.half] * key.sin[d];
    } else if (const std::size_t first = d - key.half; first < key.half) {
      x[i] = q[first] * key.sin[first] + q[d] * key.cos[first];
    } else {
      x[i] = q[d];
    }
  }
  return _mm512_load_ps(x);
}

/// The 16 lanes of one key × H heads. Each rotation is two products and their sum, and each then an fma: the first halves
/// of the pairs, the second halves, what is not turned, all ascending.
template <int H>
inline void turned_lanes(const float* const* q, Key key, std::size_t head_dim, __m512 (&lane)[H]) {
  KVCERT_UNROLL for (int h = 0; h < H; ++h) lane[h] = _mm512_setzero_ps();
  std::size_t j = 0;
  if (key.half % width == 0) {
    for (; j < key.half; j += width) {
      const __m512 c = held(_mm512_loadu_ps(key.cos + j)), s = held(_mm512_loadu_ps(key.sin + j));
      const __m512 row = held(_mm512_loadu_ps(key.k + j));
      KVCERT_UNROLL for (int h = 0; h < H; ++h) {
        const __m512 x = _mm512_sub_ps(_mm512_mul_ps(c, _mm512_loadu_ps(q[h] + j)),
                                       _mm512_mul_ps(s, _mm512_loadu_ps(q[h] + j + key.half)));
        lane[h] = _mm512_fmadd_ps(x, row, lane[h]);
      }
    }
    for (; j < 2 * key.half; j += width) {
      const std::size_t i = j - key.half;
      const __m512 c = held(_mm512_loadu_ps(key.cos + i)), s = held(_mm512_loadu_ps(key.sin + i));
      const __m512 row = held(_mm512_loadu_ps(key.k + j));
      KVCERT_UNROLL for (int h = 0; h < H; ++h) {
        const __m512 x = _mm512_add_ps(_mm512_mul_ps(s, _mm512_loadu_ps(q[h] + i)), _mm512_mul_ps(c, _mm512_loadu_ps(q[h] + j)));
        lane[h] = _mm512_fmadd_ps(x, row, lane[h]);
      }
    }
  }
  for (; j < head_dim; j += width) {  // a lane without an element keeps its value
    const std::size_t n = smaller(width, head_dim - j);
    const __mmask16 mask = first_lanes(n);
    const __m512 row = _mm512_maskz_loadu_ps(mask, key.k + j);
    KVCERT_UNROLL for (int h = 0; h < H; ++h)
      lane[h] = _mm512_mask3_fmadd_ps(turned(q[h], key, j, n), row, lane[h], mask);
  }
}

/// rows ≤ tile_rows.
template <int H>
inline void turned_tile(const float* q, const float* k, std::ptrdiff_t step, std::size_t rows, std::size_t head_dim,
                        Rotation rotation, float scale, float* out, std::size_t stride) {
  const float* query[H];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) query[h] = q + static_cast<std::size_t>(h) * head_dim;
  __m512 sum[H][tile_rows];
  if (rows < tile_rows)  // not all will be written, and folds take 16
    for (int h = 0; h < H; ++h)
      for (std::size_t r = 0; r < tile_rows; ++r) sum[h][r] = _mm512_setzero_ps();
  for (std::size_t r = 0; r < rows; ++r) {
    const Key key{k + static_cast<std::ptrdiff_t>(r) * step, rotation.cos + r * rotation.half,
                  rotation.sin + r * rotation.half, rotation.half};
    __m512 lane[H];
    turned_lanes<H>(query, key, head_dim, lane);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) sum[h][r] = lane[h];
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h)
    _mm512_mask_storeu_ps(out + static_cast<std::size_t>(h) * stride, first_lanes(rows),
                          _mm512_mul_ps(fold_sixteen(sum[h]), _mm512_set1_ps(scale)));
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

/// W registers of dimensions for H heads over all rows. The sums are at out + h · head_dim. `last` are the lanes of the last
/// register: the others are neither read nor written.
template <int H, int W, bool skips>
inline void sum_strip(const float* p, std::size_t stride, const float* v, std::ptrdiff_t step, std::size_t rows,
                      std::size_t head_dim, float* out, __mmask16 last) {
  const auto load = [last](const float* from, int w) __attribute__((always_inline)) {
    return w == W - 1 ? _mm512_maskz_loadu_ps(last, from + w * 16) : _mm512_loadu_ps(from + w * 16);
  };
  __m512 sum[H][W];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      sum[h][w] = load(out + static_cast<std::size_t>(h) * head_dim, w);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = v + static_cast<std::ptrdiff_t>(r) * step;
    __m512 value[W];
    KVCERT_UNROLL for (int w = 0; w < W; ++w) value[w] = held(load(row, w));
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const float* weight = p + static_cast<std::size_t>(h) * stride + r;
      if (skips && *weight == 0) continue;
      const __m512 all = _mm512_set1_ps(*weight);
      KVCERT_UNROLL for (int w = 0; w < W; ++w) sum[h][w] = _mm512_fmadd_ps(all, value[w], sum[h][w]);
    }
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      _mm512_mask_storeu_ps(out + static_cast<std::size_t>(h) * head_dim + w * 16, w == W - 1 ? last : first_lanes(width),
                            sum[h][w]);
}

template <int H, bool skips>
inline void sum_rows(const float* p, std::size_t stride, const float* v, std::ptrdiff_t step, std::size_t rows,
                     std::size_t head_dim, float* out) {
  constexpr std::size_t strip = 4 * width;
  std::size_t d = 0;
  for (; d + strip <= head_dim; d += strip)
    sum_strip<H, 4, skips>(p, stride, v + d, step, rows, head_dim, out + d, first_lanes(width));
  for (; d < head_dim; d += width)
    sum_strip<H, 1, skips>(p, stride, v + d, step, rows, head_dim, out + d, first_lanes(smaller(width, head_dim - d)));
}

template <int H>
inline void sum_heads(const float* p, std::size_t stride, const float* v, std::ptrdiff_t step, std::size_t rows,
                      std::size_t head_dim, float* out) {
  if (any_zero(p, H, stride, rows))
    sum_rows<H, true>(p, stride, v, step, rows, head_dim, out);
  else
    sum_rows<H, false>(p, stride, v, step, rows, head_dim, out);
}

void stepped_sum(const float* p, std::size_t heads, std::size_t stride, const float* v, std::ptrdiff_t step,
                 std::size_t rows, std::size_t head_dim, float* out) {
  count_call();
  for (std::size_t h = 0; h < heads; h += 4) {
    const float* weights = p + h * stride;
    float* sums = out + h * head_dim;
    switch (heads - h) {
      case 1: sum_heads<1>(weights, stride, v, step, rows, head_dim, sums); break;
      case 2: sum_heads<2>(weights, stride, v, step, rows, head_dim, sums); break;
      case 3: sum_heads<3>(weights, stride, v, step, rows, head_dim, sums); break;
      default: sum_heads<4>(weights, stride, v, step, rows, head_dim, sums); break;
    }
  }
}

void fma_rows(const float* w, const float* row, std::size_t rows, std::size_t n, float* sum) {
  count_call();
  sum_rows<1, false>(w, rows, row, static_cast<std::ptrdiff_t>(n), rows, n, sum);
}

}  // namespace

constinit const StateKernels avx512_state{rotated_scores, stepped_sum, fma_rows, calls};

}  // namespace kvcert::optimized::kernels
