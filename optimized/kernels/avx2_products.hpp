// Scores and weighted sums, AVX2: a part of avx2.cpp, included nowhere else, with internal linkage throughout.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/avx2_elementary.hpp"
#include "optimized/kernels/avx2_lanes.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

constexpr std::size_t tile_rows = 24;  // rows of K whose scores are folded together

// How far ahead of their use K and V are asked for, in bytes. Tried from 2 KiB to 64 KiB: nearer is too late, farther
// leaves the first-level cache before it is used. What counts more is that the hints come in the memory's order and
// evenly spread over the arithmetic: in bursts they fill the queue of misses and the loads behind them wait.
constexpr std::size_t keys_ahead = 8 * 1024;
constexpr std::size_t values_ahead = 16 * 1024;

inline void prefetch(const float* p, std::size_t bytes) { prefetch(reinterpret_cast<std::uintptr_t>(p) + bytes); }

/// Into the second-level cache, for what is not used soon.
inline void prefetch_far(std::uintptr_t address) {
  _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T1);
}

/// Asks for the first of `floats` at p, as far as a walk that asks `ahead` bytes ahead leaves them out.
inline void prefetch_start(const float* p, std::size_t floats, std::size_t ahead) {
  const std::size_t end = smaller(floats * sizeof(float), ahead);
  for (std::size_t byte = 0; byte < end; byte += line * sizeof(float)) prefetch(p, byte);
}

// --- Scores ----------------------------------------------------------------------------------------------------------

/// The 16 lanes of R rows × H heads in two registers each: over the j of a lane, ascending, fma(q_j, k_j, lane). 12
/// registers of sums hide the latency of fma and are the most that fit. What is kept is lane i + lane i + 8. With every 16
/// elements it asks for `hints` lines, in the memory's order from `ahead` on. `dims` is head_dim where it is known in
/// advance, for a loop without a count, else 0.
template <int R, int H, int hints, std::size_t dims>
inline void score_rows(const float* const* k, const float* q, std::size_t any_head_dim, __m256 (*sum)[tile_rows],
                       std::size_t first_row, std::uintptr_t ahead) {
  const std::size_t head_dim = dims != 0 ? dims : any_head_dim;
  __m256 low[R][H], high[R][H];
  const float* key[R];  // in registers, which a hint leaves alone
  KVCERT_UNROLL for (int r = 0; r < R; ++r) {
    key[r] = k[r];
    KVCERT_UNROLL for (int h = 0; h < H; ++h) low[r][h] = high[r][h] = _mm256_setzero_ps();
  }
  const auto add = [&](std::size_t j, __m256 (&lane)[R][H]) __attribute__((always_inline)) {
    __m256 row[R];
    KVCERT_UNROLL for (int r = 0; r < R && H > 1; ++r) row[r] = held(_mm256_loadu_ps(key[r] + j));
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const __m256 query = held(_mm256_loadu_ps(q + static_cast<std::size_t>(h) * head_dim + j));
      KVCERT_UNROLL for (int r = 0; r < R; ++r) {
        const __m256 element = H > 1 ? row[r] : _mm256_loadu_ps(key[r] + j);
        lane[r][h] = _mm256_fmadd_ps(query, element, lane[r][h]);
      }
    }
  };
  // 1 … 7 elements: a lane without one keeps its value, even a −0 that fma(0, 0, −0) would change
  const auto add_rest = [&](std::size_t j, __m256 (&lane)[R][H]) {
    const __m256i mask = first_lanes(head_dim - j);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const __m256 query = _mm256_maskload_ps(q + static_cast<std::size_t>(h) * head_dim + j, mask);
      KVCERT_UNROLL for (int r = 0; r < R; ++r) {
        const __m256 taken = _mm256_fmadd_ps(query, _mm256_maskload_ps(key[r] + j, mask), lane[r][h]);
        lane[r][h] = _mm256_blendv_ps(lane[r][h], taken, _mm256_castsi256_ps(mask));
      }
    }
  };
  std::size_t j = 0;
  for (; j + lanes <= head_dim; j += lanes) {
    KVCERT_UNROLL for (std::size_t i = 0; i < hints; ++i) prefetch(ahead + i * line_bytes);
    ahead += hints * line_bytes;
    add(j, low);
    add(j + width, high);
  }
  if (j + width <= head_dim) {
    add(j, low);
    if (j + width < head_dim) add_rest(j + width, high);
  } else if (j < head_dim) {
    add_rest(j, low);
  }
  KVCERT_UNROLL for (int r = 0; r < R; ++r) KVCERT_UNROLL for (int h = 0; h < H; ++h)
      sum[h][first_row + static_cast<std::size_t>(r)] = _mm256_add_ps(low[r][h], high[r][h]);
}

/// A tile of rows, of which those from `rows` on repeat the last one, and four heads at most.
struct Tile {
  const float* k[tile_rows];
  std::size_t rows;
  const float* q;
  std::size_t head_dim;
  float scale;
  float* out;
  std::size_t stride;
  std::uintptr_t ahead;  // what it asks for: as many rows as it has, from here on
};

template <int H>
inline void fold_tile(const Tile& tile, const __m256 (*sum)[tile_rows]) {
  for (std::size_t r = 0; r < tile.rows; r += width)
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const __m256 score = _mm256_mul_ps(fold_eight(sum[h] + r), _mm256_set1_ps(tile.scale));
      float* at = tile.out + static_cast<std::size_t>(h) * tile.stride + r;
      if (tile.rows - r >= width)
        _mm256_storeu_ps(at, score);
      else
        _mm256_maskstore_ps(at, first_lanes(tile.rows - r), score);
    }
}

/// R rows at a time, R divides tile_rows. Four heads are two pairs over the same rows. Beside every 16 elements of R rows
/// it asks for `hints` lines, so for hints / R of as many rows as it has.
template <int R, int H, int hints, std::size_t dims>
inline void score_tile(const Tile& tile) {
  constexpr int heads = H == 4 ? 2 : H, first = H == 4 ? hints - hints / 2 : hints;
  __m256 sum[H][tile_rows];
  if (tile.rows < tile_rows)  // not all will be written, and folds take 8
    for (int h = 0; h < H; ++h)
      for (std::size_t r = 0; r < tile_rows; ++r) sum[h][r] = _mm256_setzero_ps();
  const std::size_t row_bytes = tile.head_dim * sizeof(float);
  std::uintptr_t ahead = tile.ahead;
  for (std::size_t r = 0; r < tile.rows; r += R, ahead += hints * row_bytes) {
    score_rows<R, heads, first, dims>(tile.k + r, tile.q, tile.head_dim, sum, r, ahead);
    if (H == 4)
      score_rows<R, heads, hints - first, dims>(tile.k + r, tile.q + 2 * tile.head_dim, tile.head_dim, sum + heads, r,
                                                ahead + first * row_bytes);
  }
  fold_tile<H>(tile, sum);
}

/// Up to four heads, which ask for all that lies ahead or for nothing.
template <bool with_hints, std::size_t dims>
inline void score_heads(const Tile& tile, std::size_t heads) {
  switch (heads) {
    case 1: score_tile<6, 1, with_hints ? 6 : 0, dims>(tile); break;
    case 2: score_tile<3, 2, with_hints ? 3 : 0, dims>(tile); break;
    case 3: score_tile<2, 3, with_hints ? 2 : 0, dims>(tile); break;
    default: score_tile<3, 4, with_hints ? 3 : 0, dims>(tile); break;
  }
}

template <std::size_t dims>
inline void score_all(const float* q, std::size_t heads, const float* k, std::size_t rows, std::size_t head_dim, float scale,
            float* out, std::size_t stride) {
  prefetch_start(k, rows * head_dim, keys_ahead);
  for (std::size_t r = 0; r < rows; r += tile_rows) {
    const float* first = k + r * head_dim;
    Tile tile{.k = {}, .rows = smaller(rows - r, tile_rows), .q = q, .head_dim = head_dim, .scale = scale,
              .out = out + r, .stride = stride, .ahead = reinterpret_cast<std::uintptr_t>(first) + keys_ahead};
    for (std::size_t i = 0; i < tile_rows; ++i) tile.k[i] = first + smaller(i, tile.rows - 1) * head_dim;
    const auto go_to_head = [&](std::size_t h) {
      tile.q = q + h * head_dim;
      tile.out = out + h * stride + r;
    };
    std::size_t h = 4;
    if (heads < 8) {
      score_heads<true, dims>(tile, heads);
    } else {  // the first two fours share the hints, two thirds and one third: the memory is not to wait for the second
      score_tile<3, 4, 2, dims>(tile);
      go_to_head(h);
      tile.ahead += tile_rows / 3 * 2 * head_dim * sizeof(float);
      score_tile<3, 4, 1, dims>(tile);
      h += 4;
    }
    for (; h < heads; h += 4) {
      go_to_head(h);
      score_heads<false, dims>(tile, heads - h);
    }
  }
}

// --- Weighted sum ----------------------------------------------------------------------------------------------------

/// What a strip asks for with each row of its block: some lines, `step` bytes farther each time.
struct Hints {
  std::uintptr_t at;
  std::size_t step;
};

/// W registers of dimensions for H ≤ 4 heads, over a block of rows: sums stay in registers. 12 of them, beside W of
/// values and one weight, are all that AVX2 has; fewer than 8 would not hide the latency of fma. `some_zero` rows are
/// skipped head by head. The sums are at out + h · head_dim, the weights at p + h · stride, both already moved to this
/// strip and block.
template <int H, int W, int lines, bool some_zero>
inline void sum_strip(const float* p, std::size_t stride, const float* v, std::size_t rows, std::size_t head_dim,
                      float* out, Hints hints) {
  __m256 sum[H][W];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      sum[h][w] = _mm256_loadu_ps(out + static_cast<std::size_t>(h) * head_dim + w * 8);
  for (const float* end = p + rows; p != end; ++p) {
    KVCERT_UNROLL for (std::size_t i = 0; i < lines; ++i) prefetch(hints.at + i * line_bytes);
    hints.at += hints.step;
    __m256 value[W];
    KVCERT_UNROLL for (int w = 0; w < W; ++w) value[w] = _mm256_loadu_ps(v + w * 8);
    v += head_dim;
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const float* weight = p + static_cast<std::size_t>(h) * stride;
      if (some_zero && *weight == 0) continue;
      const __m256 all = _mm256_broadcast_ss(weight);
      KVCERT_UNROLL for (int w = 0; w < W; ++w) sum[h][w] = _mm256_fmadd_ps(all, value[w], sum[h][w]);
    }
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      _mm256_storeu_ps(out + static_cast<std::size_t>(h) * head_dim + w * 8, sum[h][w]);
}

/// The last 1 … 7 dimensions of a row; lanes past its end are neither read nor written.
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

/// A block of rows and where its V, weights and sums are; `ahead` is where its hints begin, 0 for none, and `share` by how
/// many heads' passes the lines are shared: each asks for its part of them, and for every line so many times in a row.
struct Block {
  const float* p;
  std::size_t stride;
  const float* v;
  std::size_t rows;
  std::size_t head_dim;
  float* out;
  std::uintptr_t ahead;
  std::size_t share = 1;
};

/// The strip of W registers at dimension d. With every row it asks for as many lines as begin in it, so that all strips
/// together ask for each line of `rows` rows once, in the memory's order.
template <int H, int W>
inline void sum_strip_of(const Block& b, std::size_t d, bool some_zero) {
  const std::size_t before = (d + line - 1) / line, lines = (d + W * width + line - 1) / line - before;
  const Hints hints{b.ahead + b.rows * before * line_bytes / b.share, lines * line_bytes / b.share};
  const auto run = [&]<int count>() {
    if (some_zero)
      sum_strip<H, W, count, true>(b.p, b.stride, b.v + d, b.rows, b.head_dim, b.out + d, hints);
    else
      sum_strip<H, W, count, false>(b.p, b.stride, b.v + d, b.rows, b.head_dim, b.out + d, hints);
  };
  constexpr int most = (W + 1) / 2;
  if (b.ahead == 0)
    run.template operator()<0>();
  else if (lines == most)
    run.template operator()<most>();
  else
    run.template operator()<most - 1>();
}

template <int H>
inline void sum_block(const Block& b) {
  constexpr int wide = H == 4 ? 3 : H == 3 ? 3 : H == 2 ? 4 : 8;
  const bool some_zero = any_zero(b.p, H, b.stride, b.rows);
  std::size_t d = 0;
  // Rather 2 + 2 registers than 3 + 1: sums of 4 heads × 1 register wait for each other.
  for (std::size_t left = b.head_dim / width; left != 0; left = (b.head_dim - d) / width) {
    if (left >= wide && !(wide == 3 && left == 4)) {
      sum_strip_of<H, wide>(b, d, some_zero);
      d += wide * width;
    } else if (left >= 2) {
      sum_strip_of<H, 2>(b, d, some_zero);
      d += 2 * width;
    } else {
      sum_strip_of<H, 1>(b, d, some_zero);
      d += width;
    }
  }
  if (d < b.head_dim) sum_rest<H>(b.p, b.stride, b.v + d, b.rows, b.head_dim, b.out + d, b.head_dim - d);
}

/// Rows of V that stay in the first-level cache while dimensions and heads are walked.
inline std::size_t block_rows(std::size_t head_dim) { return head_dim >= 512 ? 8 : 4096 / head_dim / 8 * 8; }

inline void sum_all(const float* p, std::size_t heads, std::size_t stride, const float* v, std::size_t rows,
                  std::size_t head_dim, float* out) {
  prefetch_start(v, rows * head_dim, values_ahead);
  const std::size_t in_block = smaller(rows, block_rows(head_dim));
  const std::size_t share = heads < 8 ? 1 : 2;  // as with scores
  for (std::size_t r = 0; r < rows; r += in_block) {
    const std::size_t count = smaller(rows - r, in_block);
    for (std::size_t h = 0; h < heads; h += 4) {
      const float* values = v + r * head_dim;
      Block block{p + h * stride + r, stride, values, count, head_dim, out + h * head_dim, 0};
      if (h < 4 * share) {
        block.ahead = reinterpret_cast<std::uintptr_t>(values) + values_ahead + h / 4 * (count * head_dim * sizeof(float) / share);
        block.share = share;
      }
      switch (heads - h) {
        case 1: sum_block<1>(block); break;
        case 2: sum_block<2>(block); break;
        case 3: sum_block<3>(block); break;
        default: sum_block<4>(block); break;
      }
    }
  }
}

}  // namespace
}  // namespace kvcert::optimized::kernels
