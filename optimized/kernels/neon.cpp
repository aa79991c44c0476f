// Advanced SIMD (NEON) kernels of AArch64: 4 lanes a register, so four registers hold the 16 lanes of the canonical
// order. Every AArch64 CPU has these instructions, so the unit has no flags of its own.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/kernels/neon_elementary.hpp"
#include "optimized/kernels/neon_lanes.hpp"

namespace kvcert::optimized::kernels {
namespace {

// --- Scores ----------------------------------------------------------------------------------------------------------

/// R rows × H heads: 2 × 2 fill 16 registers with lanes, which hides the latency of fma, and share their loads.
template <int R, int H>
inline void score_tile(const float* q, const float* k, std::size_t head_dim, float scale, float* out,
                       std::size_t stride) {
  float32x4_t lane[R][H][quarters];
  KVCERT_UNROLL for (int r = 0; r < R; ++r) KVCERT_UNROLL for (int h = 0; h < H; ++h)
      KVCERT_UNROLL for (int i = 0; i < quarters; ++i) lane[r][h][i] = vdupq_n_f32(0);
  std::size_t j = 0;
  for (; j + lanes <= head_dim; j += lanes)
    KVCERT_UNROLL for (int i = 0; i < quarters; ++i) {
      float32x4_t row[R];
      KVCERT_UNROLL for (int r = 0; r < R; ++r)
          row[r] = vld1q_f32(k + static_cast<std::size_t>(r) * head_dim + j + 4 * i);
      KVCERT_UNROLL for (int h = 0; h < H; ++h) {
        const float32x4_t query = vld1q_f32(q + static_cast<std::size_t>(h) * head_dim + j + 4 * i);
        KVCERT_UNROLL for (int r = 0; r < R; ++r) lane[r][h][i] = vfmaq_f32(lane[r][h][i], query, row[r]);
      }
    }
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t h = 0; h < H; ++h) {
      if (j < head_dim) fma_rest(q + h * head_dim + j, k + r * head_dim + j, head_dim - j, lane[r][h]);
      out[h * stride + r] = fold(lane[r][h]) * scale;
    }
}

void scores(const float* q, std::size_t heads, const float* k, std::size_t rows, std::size_t head_dim, float scale,
            float* out, std::size_t stride) {
  count_call();
  for (std::size_t r = 0; r < rows; r += 2)
    for (std::size_t h = 0; h < heads; h += 2) {
      const float* query = q + h * head_dim;
      const float* row = k + r * head_dim;
      float* at = out + h * stride + r;
      if (rows - r >= 2 && heads - h >= 2)
        score_tile<2, 2>(query, row, head_dim, scale, at, stride);
      else if (rows - r >= 2)
        score_tile<2, 1>(query, row, head_dim, scale, at, stride);
      else if (heads - h >= 2)
        score_tile<1, 2>(query, row, head_dim, scale, at, stride);
      else
        score_tile<1, 1>(query, row, head_dim, scale, at, stride);
    }
}

// --- Weighted sum ----------------------------------------------------------------------------------------------------

constexpr std::size_t block_rows = 32;  // of V, which stay in the first-level cache while the dimensions are walked

void weighted_sum(const float* p, std::size_t heads, std::size_t stride, const float* v, std::size_t rows,
                  std::size_t head_dim, float* out) {
  count_call();
  for (std::size_t r = 0; r < rows; r += block_rows)
    sum_rows<true>(p + r, heads, stride, v + r * head_dim, static_cast<std::ptrdiff_t>(head_dim),
                   smaller(rows - r, block_rows), head_dim, out, [](const float* at) { return floats_at(at); });
}

// --- Rows ------------------------------------------------------------------------------------------------------------

/// out[i] = f(in[i]), 4 at a time; the rest goes through a register filled up with zeros. in may be out.
template <class F>
inline void map_row(const float* in, float* out, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + width <= n; i += width) vst1q_f32(out + i, f(vld1q_f32(in + i)));
  if (i == n) return;
  float some[width] = {};
  for (std::size_t j = i; j < n; ++j) some[j - i] = in[j];
  vst1q_f32(some, f(vld1q_f32(some)));
  for (std::size_t j = i; j < n; ++j) out[j] = some[j - i];
}

void softcap_row(float* row, std::size_t n, float cap) {
  count_call();
  const float32x4_t c = vdupq_n_f32(cap);
  map_row(row, row, n, [c](float32x4_t s) { return vmulq_f32(c, tanh4(vdivq_f32(s, c))); });
}

/// Up to 16 elements that do not fill their lanes, lane … lane + n − 1: exponentials into row and the lanes' sums. A
/// lane without an element gets + 0, which changes no sum of numbers ≥ +0.
inline void exp_partial(float* row, std::size_t at, std::size_t n, float32x4_t maximum, float32x4_t (&lane)[quarters]) {
  float x[lanes] = {};
  for (std::size_t i = 0; i < n; ++i) x[at + i] = row[i];
  float e[lanes];
  for (std::size_t i = 0; i < lanes; i += width) vst1q_f32(e + i, exp4(vsubq_f32(vld1q_f32(x + i), maximum)));
  for (std::size_t i = 0; i < lanes; ++i) x[i] = i >= at && i < at + n ? e[i] : 0;
  for (std::size_t i = 0; i < n; ++i) row[i] = x[at + i];
  for (int i = 0; i < quarters; ++i) lane[i] = vaddq_f32(lane[i], vld1q_f32(x + 4 * i));
}

/// From −∞; a comparison with a NaN is false.
inline float maximum_of(const float* row, std::size_t n) {
  float32x4_t m = vdupq_n_f32(-__builtin_inff());
  std::size_t i = 0;
  for (; i + width <= n; i += width) {
    const float32x4_t x = vld1q_f32(row + i);
    m = vbslq_f32(vcgtq_f32(x, m), x, m);
  }
  float result = vmaxvq_f32(m);
  for (; i < n; ++i) result = row[i] > result ? row[i] : result;
  return result;
}

inline void softmax_row(float* row, std::size_t n, std::size_t first_lane, const float* sink) {
  float m = maximum_of(row, n);
  if (sink != nullptr && *sink > m) m = *sink;

  const float32x4_t maximum = vdupq_n_f32(m);
  float32x4_t lane[quarters];
  for (float32x4_t& each : lane) each = vdupq_n_f32(0);
  std::size_t i = 0;
  if (first_lane != 0) {
    i = smaller(n, lanes - first_lane);
    exp_partial(row, first_lane, i, maximum, lane);
  }
  for (; i + lanes <= n; i += lanes)
    for (std::size_t j = 0; j < quarters; ++j) {
      const float32x4_t e = exp4(vsubq_f32(vld1q_f32(row + i + 4 * j), maximum));
      vst1q_f32(row + i + 4 * j, e);
      lane[j] = vaddq_f32(lane[j], e);
    }
  if (i < n) exp_partial(row + i, 0, n - i, maximum, lane);

  float denominator = fold(lane);
  if (sink != nullptr) denominator += vgetq_lane_f32(exp4(vdupq_n_f32(*sink - m)), 0);
  const float32x4_t all = vdupq_n_f32(denominator);
  map_row(row, row, n, [all](float32x4_t e) { return canonical(vdivq_f32(e, all)); });
}

void softmax_rows(float* p, std::size_t heads, std::size_t stride, std::size_t n, std::size_t first_lane,
                  const float* sinks, const void*, std::size_t) {
  count_call();
  for (std::size_t h = 0; h < heads; ++h)
    softmax_row(p + h * stride, n, first_lane, sinks == nullptr ? nullptr : sinks + h);
}

void add_row(float* acc, const float* row, std::size_t n) {
  count_call();
  std::size_t i = 0;
  for (; i + width <= n; i += width) vst1q_f32(acc + i, canonical(vaddq_f32(vld1q_f32(acc + i), vld1q_f32(row + i))));
  if (i == n) return;
  float a[width] = {}, b[width] = {};
  for (std::size_t j = i; j < n; ++j) {
    a[j - i] = acc[j];
    b[j - i] = row[j];
  }
  vst1q_f32(a, canonical(vaddq_f32(vld1q_f32(a), vld1q_f32(b))));
  for (std::size_t j = i; j < n; ++j) acc[j] = a[j - i];
}

void canonicalize_row(float* row, std::size_t n) {
  count_call();
  map_row(row, row, n, [](float32x4_t x) { return canonical(x); });
}

void exp_row(const float* in, float* out, std::size_t n) {
  count_call();
  map_row(in, out, n, [](float32x4_t x) { return exp4(x); });
}

void tanh_row(const float* in, float* out, std::size_t n) {
  count_call();
  map_row(in, out, n, [](float32x4_t x) { return tanh4(x); });
}

}  // namespace

constinit const Table neon_table{scores,  softcap_row, softmax_rows, weighted_sum, add_row, canonicalize_row,
                                 exp_row, tanh_row,    calls,       &neon_int8,   &neon_binary16, &neon_state};

}  // namespace kvcert::optimized::kernels
