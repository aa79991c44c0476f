// AVX-512 kernels: a register holds the 16 lanes of the canonical order, and masks take the rest of a row.
//
// Compiled with that set's flags: everything here has internal linkage, and nothing inline comes from elsewhere
// (kernels.hpp says why). avx512_elementary.hpp and avx512_products.hpp are parts of this unit and of no other.
#include "optimized/kernels/avx512_elementary.hpp"

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/avx512_products.hpp"
#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

void scores(const float* q, std::size_t heads, const float* k, std::size_t rows, std::size_t head_dim, float scale,
            float* out, std::size_t stride) {
  count_call();
  score_all(q, heads, k, rows, head_dim, scale, out, stride);
}

void weighted_sum(const float* p, std::size_t heads, std::size_t stride, const float* v, std::size_t rows,
                  std::size_t head_dim, float* out) {
  count_call();
  sum_all(p, heads, stride, v, rows, head_dim, out);
}

// --- Rows ------------------------------------------------------------------------------------------------------------

/// out[i] = f(in[i]), 16 at a time; the rest goes through a register filled up with zeros. in may be out.
template <class F>
inline void map_row(const float* in, float* out, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + width <= n; i += width) _mm512_storeu_ps(out + i, f(_mm512_loadu_ps(in + i)));
  if (i == n) return;
  const __mmask16 mask = first_lanes(n - i);
  _mm512_mask_storeu_ps(out + i, mask, f(_mm512_maskz_loadu_ps(mask, in + i)));
}

void softcap_row(float* row, std::size_t n, float cap) {
  count_call();
  const __m512 c = _mm512_set1_ps(cap);
  map_row(row, row, n, [c](__m512 s) { return _mm512_mul_ps(c, tanh16(_mm512_div_ps(s, c))); });
}

/// Lane i += i+8, i+4, i+2, i+1.
inline float fold(__m512 lane) {
  const __m256 eight = _mm256_add_ps(low_half(lane), high_half(lane));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/// A row whose exponentials are written and whose division is to come.
struct Pending {
  float* row;
  float denominator;
};

/// From −∞; the instruction gives its second operand where the first is a NaN.
inline float maximum_of(const float* row, std::size_t n) {
  __m512 m[4];
  KVCERT_UNROLL for (__m512& each : m) each = _mm512_set1_ps(-__builtin_inff());
  std::size_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width)
    KVCERT_UNROLL for (std::size_t j = 0; j < 4; ++j) m[j] = _mm512_max_ps(_mm512_loadu_ps(row + i + j * width), m[j]);
  for (; i < n; i += width) {
    const __mmask16 mask = first_lanes(smaller(n - i, width));
    m[0] = _mm512_mask_max_ps(m[0], mask, _mm512_maskz_loadu_ps(mask, row + i), m[0]);
  }
  alignas(64) float lane[width];
  _mm512_store_ps(lane, _mm512_max_ps(_mm512_max_ps(m[0], m[1]), _mm512_max_ps(m[2], m[3])));
  float result = lane[0];
  for (std::size_t j = 1; j < width; ++j) result = lane[j] > result ? lane[j] : result;
  return result;
}

inline void divide(float* row, std::size_t n, float denominator) {
  const __m512 all = _mm512_set1_ps(denominator);
  map_row(row, row, n, [all](__m512 e) { return _mm512_div_ps(e, all); });
}

/// Up to 16 elements that do not fill their lanes, lane … lane + n − 1: exponentials into row and the lanes' sums. A
/// lane without an element stays.
inline __m512 exp_partial(float* row, std::size_t lane, std::size_t n, __m512 maximum, __m512 sum) {
  const auto mask = static_cast<__mmask16>(((1U << n) - 1) << lane);
  // where lane 0 would be; need not exist
  float* at = reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(row) - lane * sizeof(float));
  const __m512 e = exp16(_mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, at), maximum));
  _mm512_mask_storeu_ps(at, mask, e);
  return _mm512_mask_add_ps(sum, mask, sum, e);
}

/// One row's exponentials and their sum. Meanwhile the divisions of the row before, for which the divider would else
/// leave the fmas idle, and the hints: a line of [hint, hint_end) for every four exponentials.
template <bool pending>
inline float exponentials(float* row, std::size_t n, std::size_t first_lane, float m, Pending before,
                          std::uintptr_t& hint, std::uintptr_t hint_end) {
  constexpr std::size_t step = 2 * width, hints = step / 4;
  const __m512 maximum = _mm512_set1_ps(m);
  const __m512 all = _mm512_set1_ps(before.denominator);
  __m512 sum = _mm512_setzero_ps();
  std::size_t i = 0;
  if (first_lane != 0) {
    i = smaller(n, lanes - first_lane);
    sum = exp_partial(row, first_lane, i, maximum, sum);
    if (pending) divide(before.row, i, before.denominator);
  }
  for (; i + step <= n; i += step) {
    __m512 e[2];
    KVCERT_UNROLL for (std::size_t j = 0; j < 2; ++j)
        e[j] = _mm512_sub_ps(_mm512_loadu_ps(row + i + j * width), maximum);
    exp_all(e);
    KVCERT_UNROLL for (std::size_t j = 0; j < 2; ++j) {
      _mm512_storeu_ps(row + i + j * width, e[j]);
      sum = _mm512_add_ps(sum, e[j]);
      if (pending)
        _mm512_storeu_ps(before.row + i + j * width, _mm512_div_ps(_mm512_loadu_ps(before.row + i + j * width), all));
    }
    if (hint < hint_end) {
      KVCERT_UNROLL for (std::size_t j = 0; j < hints; ++j) prefetch_far(hint + j * line_bytes);
      hint += hints * line_bytes;
    }
  }
  for (; i < n; i += width) {
    const std::size_t count = smaller(n - i, width);
    sum = exp_partial(row + i, 0, count, maximum, sum);
    if (pending) divide(before.row + i, count, before.denominator);
  }
  return fold(sum);
}

void softmax_rows(float* p, std::size_t heads, std::size_t stride, std::size_t n, std::size_t first_lane,
                  const float* sinks, const void* ahead, std::size_t ahead_bytes) {
  count_call();
  std::uintptr_t hint = reinterpret_cast<std::uintptr_t>(ahead);
  const std::uintptr_t hint_end = hint + ahead_bytes;
  Pending before{nullptr, 0};
  for (std::size_t h = 0; h < heads; ++h) {
    float* row = p + h * stride;
    float m = maximum_of(row, n);
    if (sinks != nullptr && sinks[h] > m) m = sinks[h];
    float denominator = before.row == nullptr ? exponentials<false>(row, n, first_lane, m, before, hint, hint_end)
                                              : exponentials<true>(row, n, first_lane, m, before, hint, hint_end);
    if (sinks != nullptr) denominator += _mm512_cvtss_f32(exp16(_mm512_set1_ps(sinks[h] - m)));
    // e / denominator is a NaN only where one of the two is, and then that NaN: all of e's are canonical already.
    before = {row, _mm512_cvtss_f32(canonical(_mm512_set1_ps(denominator)))};
  }
  divide(before.row, n, before.denominator);
}

void add_row(float* acc, const float* row, std::size_t n) {
  count_call();
  for (std::size_t i = 0; i < n; i += width) {
    const __mmask16 mask = first_lanes(smaller(n - i, width));
    const __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, acc + i), _mm512_maskz_loadu_ps(mask, row + i));
    _mm512_mask_storeu_ps(acc + i, mask, canonical(sum));
  }
}

void canonicalize_row(float* row, std::size_t n) {
  count_call();
  map_row(row, row, n, [](__m512 x) { return canonical(x); });
}

void exp_row(const float* in, float* out, std::size_t n) {
  count_call();
  map_row(in, out, n, [](__m512 x) { return exp16(x); });
}

void tanh_row(const float* in, float* out, std::size_t n) {
  count_call();
  map_row(in, out, n, [](__m512 x) { return tanh16(x); });
}

}  // namespace

constinit const Table avx512_table{scores, softcap_row, softmax_rows, weighted_sum, add_row, canonicalize_row,
                                   exp_row, tanh_row, calls, &avx512_int8, &avx512_binary16, &avx512_state};

}  // namespace kvcert::optimized::kernels
