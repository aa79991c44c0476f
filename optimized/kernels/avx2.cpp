// AVX2 and FMA kernels: 8 lanes a register, so two registers hold the 16 lanes of the canonical order.
//
// Compiled with -mavx2 -mfma: everything here has internal linkage, and nothing inline comes from elsewhere
// (kernels.hpp says why). avx2_elementary.hpp and avx2_products.hpp are parts of this unit and of no other.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "optimized/kernels/avx2_elementary.hpp"
#include "optimized/kernels/avx2_products.hpp"
#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

void scores(const float* q, std::size_t heads, const float* k, std::size_t rows, std::size_t head_dim, float scale,
            float* out, std::size_t stride) {
  count_call();
  if (head_dim == 64)  // rows this short are over before a counted loop is under way
    score_all<64>(q, heads, k, rows, head_dim, scale, out, stride);
  else
    score_all<0>(q, heads, k, rows, head_dim, scale, out, stride);
}

void weighted_sum(const float* p, std::size_t heads, std::size_t stride, const float* v, std::size_t rows,
                  std::size_t head_dim, float* out) {
  count_call();
  sum_all(p, heads, stride, v, rows, head_dim, out);
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

/// Elements [from, from + n) of 16 lanes, a part of them, in two registers: the rest is neither read nor written.
struct Part {
  __m256i low;
  __m256i high;
};

inline Part part_of(std::size_t from, std::size_t n) {
  const __m256i begin = _mm256_set1_epi32(static_cast<int>(from)), end = _mm256_set1_epi32(static_cast<int>(from + n));
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_add_epi32(low, _mm256_set1_epi32(width));
  return {_mm256_andnot_si256(_mm256_cmpgt_epi32(begin, low), _mm256_cmpgt_epi32(end, low)),
          _mm256_andnot_si256(_mm256_cmpgt_epi32(begin, high), _mm256_cmpgt_epi32(end, high))};
}

/// Where lane 0 of an element in `lane` would be. Need not exist.
inline float* lane_zero(float* element, std::size_t lane) {
  return reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(element) - lane * sizeof(float));
}

/// A row whose exponentials are written and whose division is to come.
struct Pending {
  float* row;
  float denominator;
};

/// 16 lanes of the denominator.
struct Sums {
  __m256 low;
  __m256 high;
};

/// Up to 16 elements that do not fill their lanes, lane … lane + n − 1: exponentials into row and the lanes' sums. A
/// lane without an element gets + 0, which changes no sum of numbers ≥ +0.
inline void exp_partial(float* row, std::size_t lane, std::size_t n, __m256 maximum, Sums& sums) {
  const Part part = part_of(lane, n);
  float* at = lane_zero(row, lane);
  __m256 e[2] = {_mm256_sub_ps(_mm256_maskload_ps(at, part.low), maximum),
                 _mm256_sub_ps(_mm256_maskload_ps(at + width, part.high), maximum)};
  exp_all(e);
  _mm256_maskstore_ps(at, part.low, e[0]);
  _mm256_maskstore_ps(at + width, part.high, e[1]);
  sums.low = _mm256_add_ps(sums.low, _mm256_and_ps(e[0], _mm256_castsi256_ps(part.low)));
  sums.high = _mm256_add_ps(sums.high, _mm256_and_ps(e[1], _mm256_castsi256_ps(part.high)));
}

/// From −∞; the instruction gives its second operand where the first is a NaN.
inline float maximum_of(const float* row, std::size_t n) {
  __m256 m[4];
  KVCERT_UNROLL for (__m256& each : m) each = _mm256_set1_ps(-__builtin_inff());
  std::size_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width)
    KVCERT_UNROLL for (std::size_t j = 0; j < 4; ++j) m[j] = _mm256_max_ps(_mm256_loadu_ps(row + i + j * width), m[j]);
  for (; i + width <= n; i += width) m[0] = _mm256_max_ps(_mm256_loadu_ps(row + i), m[0]);
  alignas(32) float lane[width];
  _mm256_store_ps(lane, _mm256_max_ps(_mm256_max_ps(m[0], m[1]), _mm256_max_ps(m[2], m[3])));
  float result = lane[0];
  for (std::size_t j = 1; j < width; ++j) result = lane[j] > result ? lane[j] : result;
  for (; i < n; ++i) result = row[i] > result ? row[i] : result;
  return result;
}

inline void divide(float* row, std::size_t n, float denominator) {
  const __m256 all = _mm256_set1_ps(denominator);
  map_row(row, row, n, [all](__m256 e) { return _mm256_div_ps(e, all); });
}

/// One row's exponentials and their sum. Meanwhile the divisions of the row before, for which the divider would else
/// leave the fmas idle, and the hints: a line of [hint, hint_end) for every two exponentials.
template <bool pending>
inline float exponentials(float* row, std::size_t n, std::size_t first_lane, float m, Pending before,
                          std::uintptr_t& hint, std::uintptr_t hint_end) {
  const __m256 maximum = _mm256_set1_ps(m);
  const __m256 all = _mm256_set1_ps(before.denominator);
  Sums sums{_mm256_setzero_ps(), _mm256_setzero_ps()};
  const std::size_t head = first_lane == 0 ? 0 : smaller(n, lanes - first_lane);
  if (head != 0) {
    exp_partial(row, first_lane, head, maximum, sums);
    if (pending) divide(before.row, head, before.denominator);
  }
  std::size_t i = head;
  for (; i + lanes <= n; i += lanes) {
    __m256 e[2] = {_mm256_sub_ps(_mm256_loadu_ps(row + i), maximum),
                   _mm256_sub_ps(_mm256_loadu_ps(row + i + width), maximum)};
    exp_all(e);
    _mm256_storeu_ps(row + i, e[0]);
    _mm256_storeu_ps(row + i + width, e[1]);
    sums.low = _mm256_add_ps(sums.low, e[0]);
    sums.high = _mm256_add_ps(sums.high, e[1]);
    if (pending)
      KVCERT_UNROLL for (std::size_t j = 0; j < lanes; j += width)
          _mm256_storeu_ps(before.row + i + j, _mm256_div_ps(_mm256_loadu_ps(before.row + i + j), all));
    if (hint < hint_end) {
      KVCERT_UNROLL for (std::size_t j = 0; j < lanes / 2; ++j) prefetch_far(hint + j * line_bytes);
      hint += lanes / 2 * line_bytes;
    }
  }
  if (i < n) {
    exp_partial(row + i, 0, n - i, maximum, sums);
    if (pending) divide(before.row + i, n - i, before.denominator);
  }
  return fold(sums.low, sums.high);
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
    if (sinks != nullptr) denominator += _mm256_cvtss_f32(exp8(_mm256_set1_ps(sinks[h] - m)));
    // e / denominator is a NaN only where one of the two is, and then that NaN: all of e's are canonical already.
    before = {row, _mm256_cvtss_f32(canonical(_mm256_set1_ps(denominator)))};
  }
  divide(before.row, n, before.denominator);
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

constinit const Table avx2_table{scores, softcap_row, softmax_rows, weighted_sum, add_row, canonicalize_row,
                                 exp_row, tanh_row, calls, &avx2_int8, &scalar_binary16, &avx2_state};

}  // namespace kvcert::optimized::kernels
