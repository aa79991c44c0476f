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

constexpr std::size_t tile_rows = 8;   // whose lanes are folded together
constexpr std::size_t rows_ahead = 4;  // how many rows before its use a key is asked for: 2 and 8 did as well

/// One key, and the turn that its query takes.
struct Key {
  const float* k;
  const float* cos;
  const float* sin;
  std::size_t half;
  std::uintptr_t ahead;  // the address of the key `rows_ahead` rows on, if there is one
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

/// Turned elements [j, end), one lane half of every 16, where the pairs or what is left need no whole registers. A lane
/// without an element keeps its value.
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

/// Eight first halves of pairs from element j on, turned: two products and their difference, then an fma into eight lanes.
template <int H>
inline void first_halves(const float* const* q, Key key, std::size_t j, __m256 (&lane)[H]) {
  const __m256 c = held(_mm256_loadu_ps(key.cos + j)), s = held(_mm256_loadu_ps(key.sin + j));
  const __m256 row = held(_mm256_loadu_ps(key.k + j));
  KVCERT_UNROLL for (int h = 0; h < H; ++h) {
    const __m256 x = _mm256_sub_ps(_mm256_mul_ps(c, _mm256_loadu_ps(q[h] + j)),
                                   _mm256_mul_ps(s, _mm256_loadu_ps(q[h] + j + key.half)));
    lane[h] = _mm256_fmadd_ps(x, row, lane[h]);
  }
}

/// The same of second halves, at j ≥ half: two products and their sum.
template <int H>
inline void second_halves(const float* const* q, Key key, std::size_t j, __m256 (&lane)[H]) {
  const std::size_t i = j - key.half;
  const __m256 c = held(_mm256_loadu_ps(key.cos + i)), s = held(_mm256_loadu_ps(key.sin + i));
  const __m256 row = held(_mm256_loadu_ps(key.k + j));
  KVCERT_UNROLL for (int h = 0; h < H; ++h) {
    const __m256 x = _mm256_add_ps(_mm256_mul_ps(s, _mm256_loadu_ps(q[h] + i)),
                                   _mm256_mul_ps(c, _mm256_loadu_ps(q[h] + j)));
    lane[h] = _mm256_fmadd_ps(x, row, lane[h]);
  }
}

/// Eight elements from j on, not turned.
template <int H>
inline void plain_eight(const float* const* q, Key key, std::size_t j, __m256 (&lane)[H]) {
  const __m256 row = held(_mm256_loadu_ps(key.k + j));
  KVCERT_UNROLL for (int h = 0; h < H; ++h) lane[h] = _mm256_fmadd_ps(_mm256_loadu_ps(q[h] + j), row, lane[h]);
}

/// The 16 lanes of one key × H heads: the first halves of the pairs, the second halves, what is not turned, all ascending.
/// Lower and upper lanes take turns: one after the other took 1.2 times as long on Zen 3, where loads from the same half of
/// different lines seem to wait for each other. `dims` is head_dim where it is known in advance and turned throughout, for
/// loops without a count, else 0.
template <int H, std::size_t dims>
inline void turned_lanes(const float* const* q, Key key, std::size_t head_dim, __m256 (&low)[H], __m256 (&high)[H]) {
  KVCERT_UNROLL for (int h = 0; h < H; ++h) low[h] = high[h] = _mm256_setzero_ps();
  if constexpr (dims != 0) key.half = dims / 2;
  const auto firsts = [&](std::size_t j) __attribute__((always_inline)) {
    prefetch(key.ahead + j * sizeof(float));
    first_halves<H>(q, key, j, low);
    first_halves<H>(q, key, j + width, high);
  };
  const auto seconds = [&](std::size_t j) __attribute__((always_inline)) {
    prefetch(key.ahead + j * sizeof(float));
    second_halves<H>(q, key, j, low);
    second_halves<H>(q, key, j + width, high);
  };
  if constexpr (dims != 0) {
    static_assert(dims % (2 * lanes) == 0);
    KVCERT_UNROLL for (std::size_t j = 0; j < dims / 2; j += lanes) firsts(j);
    KVCERT_UNROLL for (std::size_t j = dims / 2; j < dims; j += lanes) seconds(j);
    return;
  }
  std::size_t j = 0;
  if (key.half % width == 0) {
    for (; j + lanes <= key.half; j += lanes) firsts(j);
    if (j < key.half) {  // the second halves begin in the upper lanes
      prefetch(key.ahead + j * sizeof(float));
      first_halves<H>(q, key, j, low);
      second_halves<H>(q, key, j + width, high);
      j += lanes;
    }
    for (; j < 2 * key.half; j += lanes) seconds(j);
    for (; j + lanes <= head_dim; j += lanes) {
      prefetch(key.ahead + j * sizeof(float));
      plain_eight<H>(q, key, j, low);
      plain_eight<H>(q, key, j + width, high);
    }
  }
  slow_lanes<H>(q, key, j, head_dim, low);
  slow_lanes<H>(q, key, j + width, head_dim, high);
}

/// Up to tile_rows keys, `step` apart, and their turns; one KV head's queries; where their scores go.
struct Tile {
  const float* q;
  std::size_t head_dim;
  const float* k;
  std::ptrdiff_t step;
  std::size_t rows;
  Rotation rotation;
  float scale;
  float* out;
  std::size_t stride;
};

template <int H, std::size_t dims>
inline void turned_tile(const Tile& tile) {
  const float* query[H];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) query[h] = tile.q + static_cast<std::size_t>(h) * tile.head_dim;
  __m256 sum[H][tile_rows];
  if (tile.rows < tile_rows)  // not all will be written, and folds take 8
    for (int h = 0; h < H; ++h)
      for (std::size_t r = 0; r < tile_rows; ++r) sum[h][r] = _mm256_setzero_ps();
  const auto row_bytes = static_cast<std::uintptr_t>(tile.step) * sizeof(float);
  for (std::size_t r = 0; r < tile.rows; ++r) {
    const Key key{tile.k + static_cast<std::ptrdiff_t>(r) * tile.step, tile.rotation.cos + r * tile.rotation.half,
                  tile.rotation.sin + r * tile.rotation.half, tile.rotation.half,
                  reinterpret_cast<std::uintptr_t>(tile.k) + (r + rows_ahead) * row_bytes};
    __m256 low[H], high[H];
    turned_lanes<H, dims>(query, key, tile.head_dim, low, high);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) sum[h][r] = _mm256_add_ps(low[h], high[h]);
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h)
      store_first(tile.out + static_cast<std::size_t>(h) * tile.stride, tile.rows,
                  _mm256_mul_ps(fold_eight(sum[h]), _mm256_set1_ps(tile.scale)));
}

/// All heads, up to four at a time, of up to tile_rows keys.
template <std::size_t dims>
void turned_heads(Tile tile, std::size_t heads) {
  for (; heads > 4; heads -= 4, tile.q += 4 * tile.head_dim, tile.out += 4 * tile.stride) turned_tile<4, dims>(tile);
  switch (heads) {
    case 1: turned_tile<1, dims>(tile); break;
    case 2: turned_tile<2, dims>(tile); break;
    case 3: turned_tile<3, dims>(tile); break;
    default: turned_tile<4, dims>(tile); break;
  }
}

void rotated_scores(const float* q, std::size_t heads, const float* k, std::ptrdiff_t step, std::size_t rows,
                    std::size_t head_dim, Rotation rotation, float scale, float* out, std::size_t stride) {
  count_call();
  for (std::size_t r = 0; r < rows; r += tile_rows) {
    const std::size_t first = r * rotation.half;
    const Tile tile{q, head_dim, k + static_cast<std::ptrdiff_t>(r) * step, step, smaller(rows - r, tile_rows),
                    {rotation.cos + first, rotation.sin + first, rotation.half}, scale, out + r, stride};
    switch (2 * rotation.half == head_dim ? head_dim : 0) {
      case 64: turned_heads<64>(tile, heads); break;
      case 128: turned_heads<128>(tile, heads); break;
      default: turned_heads<0>(tile, heads); break;
    }
  }
}

// --- Sums ------------------------------------------------------------------------------------------------------------

/// W registers of dimensions for H heads over all rows. The sums are at out + h · head_dim. With hints it asks for what
/// the next W registers will take of each row.
template <int H, int W, bool skips, bool hints>
inline void sum_strip(const float* p, std::size_t stride, const float* v, std::ptrdiff_t step, std::size_t rows,
                      std::size_t head_dim, float* out) {
  __m256 sum[H][W];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      sum[h][w] = _mm256_loadu_ps(out + static_cast<std::size_t>(h) * head_dim + w * 8);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = v + static_cast<std::ptrdiff_t>(r) * step;
    __m256 value[W];
    KVCERT_UNROLL for (std::size_t i = 0; hints && i < W * width; i += line)
        prefetch(reinterpret_cast<std::uintptr_t>(row + W * width + i));
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
  for (; d + 2 * W * width <= head_dim; d += W * width)
    sum_strip<H, W, skips, true>(p, stride, v + d, step, rows, head_dim, out + d);
  for (; d + W * width <= head_dim; d += W * width)
    sum_strip<H, W, skips, false>(p, stride, v + d, step, rows, head_dim, out + d);
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
