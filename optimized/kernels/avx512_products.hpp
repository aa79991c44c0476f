// Scores and weighted sums, AVX-512: a part of avx512.cpp, included nowhere else, with internal linkage throughout.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/avx512_lanes.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

constexpr std::size_t line_bytes = width * sizeof(float);
constexpr std::size_t tile_rows = 48;  // rows of K whose scores are folded together

// How far ahead of their use K and V are asked for, in bytes (avx2_products.hpp says more).
constexpr std::size_t keys_ahead = 5 * 1024;
constexpr std::size_t values_ahead = 16 * 1024;

/// Asks for the cache line at an address; a hint that never faults, so the address need not exist. No load moves across
/// it (avx2_products.hpp says why).
inline void prefetch(std::uintptr_t address) { asm volatile("prefetcht0 (%0)" : : "r"(address) : "memory"); }

/// Into the second-level cache, for what is not used soon.
inline void prefetch_far(std::uintptr_t address) { _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T1); }

/// Asks for the first of `floats` at p, as far as a walk that asks `ahead` bytes ahead leaves them out.
inline void prefetch_start(const float* p, std::size_t floats, std::size_t ahead) {
  const std::size_t end = smaller(floats * sizeof(float), ahead);
  for (std::size_t byte = 0; byte < end; byte += line_bytes) prefetch(reinterpret_cast<std::uintptr_t>(p) + byte);
}

// --- Scores ----------------------------------------------------------------------------------------------------------

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

/// The 16 lanes of R rows × H heads, a register each: over the j of a lane, ascending, fma(q_j, k_j, lane). With every 16
/// elements it asks for `hints` lines, in the memory's order from `ahead` on.
template <int R, int H, int hints>
inline void score_rows(const float* const* k, const float* q, std::size_t head_dim, __m512 (*sum)[tile_rows],
                       std::size_t first_row, std::uintptr_t ahead) {
  __m512 lane[R][H];
  const float* key[R];  // in registers, which a hint leaves alone
  KVCERT_UNROLL for (int r = 0; r < R; ++r) {
    key[r] = k[r];
    KVCERT_UNROLL for (int h = 0; h < H; ++h) lane[r][h] = _mm512_setzero_ps();
  }
  std::size_t j = 0;
  for (; j + width <= head_dim; j += width) {
    KVCERT_UNROLL for (std::size_t i = 0; i < hints; ++i) prefetch(ahead + i * line_bytes);
    ahead += hints * line_bytes;
    __m512 row[R];
    KVCERT_UNROLL for (int r = 0; r < R && H > 1; ++r) row[r] = held(_mm512_loadu_ps(key[r] + j));
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const __m512 query = held(_mm512_loadu_ps(q + static_cast<std::size_t>(h) * head_dim + j));
      KVCERT_UNROLL for (int r = 0; r < R; ++r) {
        const __m512 element = H > 1 ? row[r] : _mm512_loadu_ps(key[r] + j);
        lane[r][h] = _mm512_fmadd_ps(query, element, lane[r][h]);
      }
    }
  }
  if (j < head_dim) {  // a lane without an element keeps its value, even a −0 that fma(0, 0, −0) would change
    const __mmask16 mask = first_lanes(head_dim - j);
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const __m512 query = _mm512_maskz_loadu_ps(mask, q + static_cast<std::size_t>(h) * head_dim + j);
      KVCERT_UNROLL for (int r = 0; r < R; ++r) lane[r][h] =
          _mm512_mask3_fmadd_ps(query, _mm512_maskz_loadu_ps(mask, key[r] + j), lane[r][h], mask);
    }
  }
  KVCERT_UNROLL for (int r = 0; r < R; ++r) KVCERT_UNROLL for (int h = 0; h < H; ++h)
      sum[h][first_row + static_cast<std::size_t>(r)] = lane[r][h];
}

/// R rows at a time, R divides tile_rows.
template <int R, int H, bool with_hints>
inline void score_tile(const Tile& tile) {
  __m512 sum[H][tile_rows];
  if (tile.rows < tile_rows)  // not all will be written, and folds take 16
    for (int h = 0; h < H; ++h)
      for (std::size_t r = 0; r < tile_rows; ++r) sum[h][r] = _mm512_setzero_ps();
  for (std::size_t r = 0; r < tile.rows; r += R)
    score_rows<R, H, with_hints ? R : 0>(tile.k + r, tile.q, tile.head_dim, sum, r,
                                         tile.ahead + r * tile.head_dim * sizeof(float));
  for (std::size_t r = 0; r < tile.rows; r += width)
    KVCERT_UNROLL for (int h = 0; h < H; ++h)
        _mm512_mask_storeu_ps(tile.out + static_cast<std::size_t>(h) * tile.stride + r,
                              first_lanes(smaller(tile.rows - r, width)),
                              _mm512_mul_ps(fold_sixteen(sum[h] + r), _mm512_set1_ps(tile.scale)));
}

template <bool with_hints>
inline void score_heads(const Tile& tile, std::size_t heads) {
  switch (heads) {
    case 1: score_tile<16, 1, with_hints>(tile); break;
    case 2: score_tile<8, 2, with_hints>(tile); break;
    case 3: score_tile<6, 3, with_hints>(tile); break;
    default: score_tile<6, 4, with_hints>(tile); break;
  }
}

inline void score_all(const float* q, std::size_t heads, const float* k, std::size_t rows, std::size_t head_dim,
                      float scale, float* out, std::size_t stride) {
  prefetch_start(k, rows * head_dim, keys_ahead);
  for (std::size_t r = 0; r < rows; r += tile_rows) {
    const float* first = k + r * head_dim;
    Tile tile{.k = {}, .rows = smaller(rows - r, tile_rows), .q = q, .head_dim = head_dim, .scale = scale,
              .out = out + r, .stride = stride, .ahead = reinterpret_cast<std::uintptr_t>(first) + keys_ahead};
    for (std::size_t i = 0; i < tile_rows; ++i) tile.k[i] = first + smaller(i, tile.rows - 1) * head_dim;
    score_heads<true>(tile, heads);
    for (std::size_t h = 4; h < heads; h += 4) {
      tile.q = q + h * head_dim;
      tile.out = out + h * stride + r;
      score_heads<false>(tile, heads - h);
    }
  }
}

// --- Weighted sum ----------------------------------------------------------------------------------------------------

/// A block of rows and where its V, weights and sums are; `ahead` is where its hints begin, 0 for none.
struct Block {
  const float* p;
  std::size_t stride;
  const float* v;
  std::size_t rows;
  std::size_t head_dim;
  float* out;
  std::uintptr_t ahead;
};

/// W registers of dimensions for H ≤ 4 heads, over a block of rows: sums stay in registers. `some_zero` rows are skipped
/// head by head. `last` are the lanes of the last register: the others are neither read nor written. With every row it
/// asks for W lines, so that all strips together ask for each line of the block once, in the memory's order.
template <int H, int W, bool with_hints, bool some_zero>
inline void sum_strip(const Block& b, std::size_t d, __mmask16 last) {
  const auto load = [last](const float* p, int w) __attribute__((always_inline)) {
    return w == W - 1 ? _mm512_maskz_loadu_ps(last, p + w * 16) : _mm512_loadu_ps(p + w * 16);
  };
  float* out = b.out + d;
  __m512 sum[H][W];
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      sum[h][w] = load(out + static_cast<std::size_t>(h) * b.head_dim, w);
  std::uintptr_t ahead = b.ahead + b.rows * d * sizeof(float);
  const float* v = b.v + d;
  for (const float *p = b.p, *end = b.p + b.rows; p != end; ++p) {
    if (with_hints) {
      KVCERT_UNROLL for (std::size_t w = 0; w < W; ++w) prefetch(ahead + w * line_bytes);
      ahead += W * line_bytes;
    }
    __m512 value[W];
    KVCERT_UNROLL for (int w = 0; w < W; ++w) value[w] = held(load(v, w));
    v += b.head_dim;
    KVCERT_UNROLL for (int h = 0; h < H; ++h) {
      const float* weight = p + static_cast<std::size_t>(h) * b.stride;
      if (some_zero && *weight == 0) continue;
      const __m512 all = _mm512_set1_ps(*weight);
      KVCERT_UNROLL for (int w = 0; w < W; ++w) sum[h][w] = _mm512_fmadd_ps(all, value[w], sum[h][w]);
    }
  }
  KVCERT_UNROLL for (int h = 0; h < H; ++h) KVCERT_UNROLL for (int w = 0; w < W; ++w)
      _mm512_mask_storeu_ps(out + static_cast<std::size_t>(h) * b.head_dim + w * 16,
                            w == W - 1 ? last : first_lanes(width), sum[h][w]);
}

template <int H, int W>
inline void sum_strip_of(const Block& b, std::size_t d, bool some_zero) {
  const __mmask16 last = first_lanes(smaller(b.head_dim - d - (W - 1) * width, width));
  if (some_zero && b.ahead != 0)
    sum_strip<H, W, true, true>(b, d, last);
  else if (some_zero)
    sum_strip<H, W, false, true>(b, d, last);
  else if (b.ahead != 0)
    sum_strip<H, W, true, false>(b, d, last);
  else
    sum_strip<H, W, false, false>(b, d, last);
}

template <int H>
inline void sum_block(const Block& b) {
  const bool some_zero = any_zero(b.p, H, b.stride, b.rows);
  for (std::size_t d = 0; d < b.head_dim;) {
    const std::size_t left = (b.head_dim - d + width - 1) / width;  // registers
    if (left >= 4 && left != 5) {  // rather 3 + 2 than 4 + 1: sums of few registers wait for each other
      sum_strip_of<H, 4>(b, d, some_zero);
      d += 4 * width;
    } else if (left >= 3) {
      sum_strip_of<H, 3>(b, d, some_zero);
      d += 3 * width;
    } else if (left == 2) {
      sum_strip_of<H, 2>(b, d, some_zero);
      d += 2 * width;
    } else {
      sum_strip_of<H, 1>(b, d, some_zero);
      d += width;
    }
  }
}

/// Rows of V that stay in the first-level cache while dimensions and heads are walked.
inline std::size_t block_rows(std::size_t head_dim) { return head_dim >= 512 ? 8 : 4096 / head_dim / 8 * 8; }

inline void sum_all(const float* p, std::size_t heads, std::size_t stride, const float* v, std::size_t rows,
                    std::size_t head_dim, float* out) {
  prefetch_start(v, rows * head_dim, values_ahead);
  const std::size_t in_block = smaller(rows, block_rows(head_dim));
  for (std::size_t r = 0; r < rows; r += in_block) {
    const std::size_t count = smaller(rows - r, in_block);
    for (std::size_t h = 0; h < heads; h += 4) {
      const float* values = v + r * head_dim;
      const Block block{p + h * stride + r, stride, values, count, head_dim, out + h * head_dim,
                        h == 0 ? reinterpret_cast<std::uintptr_t>(values) + values_ahead : 0};
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
