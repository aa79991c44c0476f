// Attention three ways: in two passes, tile by tile with a running maximum, and in the canonical order.
#include <algorithm>
#include <cmath>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tests/broken/engine.hpp"

namespace broken {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Visible {
  std::size_t first, end;
};

Visible visible(const Layer& l, std::size_t position, std::size_t i, std::size_t n) {
  std::size_t W = l.window;
  if (is(Fault::window_plus_one) && W != 0) ++W;
  if (is(Fault::window_minus_one) && W > 1) --W;
  if (is(Fault::window_wide_in_prefill) && n > 1 && W != 0) ++W;
  if (is(Fault::window_ignored) && n == 1) W = 0;
  if (is(Fault::window_rolls_early) && position + 1 == W && W > 1) --W;
  Visible rows{W == 0 || position + 1 < W ? 0 : position + 1 - W, position + 1};
  if (is(Fault::sees_next_row) && rows.end < l.T) ++rows.end;
  if (is(Fault::sees_whole_chunk)) rows.end = position + n - i;
  return rows;
}

float cap(const Layer& l, float s) {
  if (l.softcap == 0 || is(Fault::cap_dropped)) return s;
  if (is(Fault::cap_x_tanh)) return s * std::tanh(s / l.softcap);
  if (is(Fault::cap_clamps)) return std::clamp(s, -l.softcap, l.softcap);
  return l.softcap * std::tanh(s / l.softcap);
}

float score(const Layer& l, const float* q, const float* k) {
  float dot = 0;
  for (std::size_t d = 0; d < l.dim; ++d) {
    if (is(Fault::one_variant_only) && l.variant == 1 && d >= l.dim / 8 * 8 && l.dim > 8) continue;
    dot += q[d] * k[d];
    if (is(Fault::f16_dot_overflows)) dot = f16_round(dot);
  }
  float scale = l.scale;
  if (is(Fault::scale_missing)) scale = 1;
  if (is(Fault::scale_twice)) scale *= scale;
  if (is(Fault::scale_inverse_dim)) scale = 1 / static_cast<float>(l.dim);
  if (is(Fault::cap_before_scale)) return cap(l, dot) * scale;
  return cap(l, dot * scale);
}

/// The sink's share of a head; −infinity where there is none.
float sink_of(const Layer& l, std::size_t head, std::size_t i) {
  if (l.sinks.empty() || is(Fault::sink_dropped) || (is(Fault::sink_once_per_chunk) && i > 0)) return -infinity;
  const float sink = l.sinks[is(Fault::sink_of_kv_head) ? head / (l.query_heads / l.kv_heads) : head];
  if (is(Fault::sink_twice)) return sink + 0.6931472F;
  return is(Fault::sink_capped) ? cap(l, sink) : sink;
}

std::size_t kv_head_of(const Layer& l, std::size_t head) {
  if (is(Fault::heads_tiled)) return head % l.kv_heads;
  if (is(Fault::heads_all_first)) return 0;
  return std::min(head / std::max<std::size_t>(1, l.query_heads / l.kv_heads), l.kv_heads - 1);
}

/// Scores of rows first ... end − 1, and rows that a fault adds to them.
std::vector<float> scores_of(const Layer& l, const float* q, std::size_t kv, Visible rows, std::size_t position) {
  std::vector<float> scores;
  for (std::size_t p = rows.first; p < rows.end; ++p) scores.push_back(score(l, q, is(Fault::kv_swapped) ? l.value(p, kv) : l.key(p, kv)));
  if (is(Fault::ring_counts_padding) && position + 1 < l.window) scores.resize(l.window, 0.0F);
  if (is(Fault::tail_tile_counts)) scores.resize((scores.size() + 3) / 4 * 4, 0.0F);
  return scores;
}

void two_pass(const Layer& l, std::size_t kv, Visible rows, const std::vector<float>& scores, float sink, bool backwards, float* out) {
  float m = is(Fault::finite_sentinel) ? -5.0e4F : -infinity;
  for (float s : scores) m = std::max(m, s);
  m = std::max(m, sink);
  if (is(Fault::no_maximum) || is(Fault::nan_hidden)) m = 0;
  if (is(Fault::constant_shift)) m = 10;
  float den = sink == -infinity ? 0.0F : std::exp(sink - m);
  const float sink_weight = den;
  for (std::size_t j = 0; j < scores.size(); ++j) den += std::exp(scores[backwards ? scores.size() - 1 - j : j] - m);
  for (std::size_t d = 0; d < l.dim; ++d) out[d] = is(Fault::sink_has_value) ? sink_weight / den : 0.0F;
  if (is(Fault::nan_times_zero)) {  // a mask that multiplies
    for (std::size_t p = 0; p < l.T; ++p) {
      const bool hidden = p < rows.first || p >= rows.end;
      for (std::size_t d = 0; hidden && d < l.dim; ++d) out[d] += 0.0F * l.value(p, kv)[d];
    }
  }
  if (is(Fault::cap_after_mask) && l.softcap != 0) {
    const float hidden = std::exp(-l.softcap - m);
    for (std::size_t p = 0; p < rows.first; ++p) den += hidden;
    for (std::size_t p = 0; p < rows.first; ++p) {
      for (std::size_t d = 0; d < l.dim; ++d) out[d] += hidden / den * l.value(p, kv)[d];
    }
  }
  for (std::size_t j = 0; j < rows.end - rows.first; ++j) {
    const std::size_t at = backwards ? rows.end - rows.first - 1 - j : j;
    const float weight = std::exp(scores[at] - m) / den;
    const float* v = is(Fault::kv_swapped) ? l.key(rows.first + at, kv) : l.value(rows.first + at, kv);
    for (std::size_t d = 0; d < l.dim; ++d) out[d] += weight * v[d];
  }
}

/// Tiles of 4 rows from row 0, hidden rows at −infinity, a running maximum, division at the end.
void online(const Layer& l, const float* q, std::size_t kv, Visible rows, float sink, float* out) {
  constexpr std::size_t tile = 4;
  float m = -infinity;
  float den = 0;
  std::fill(out, out + l.dim, 0.0F);
  for (std::size_t from = 0; from < rows.end; from += tile) {
    float scores[tile];
    float top = m;
    for (std::size_t j = 0; j < tile; ++j) {
      const std::size_t p = from + j;
      bool hidden = p < rows.first || p >= rows.end;
      if (is(Fault::partly_hidden_tile) && from + tile > rows.first && p < rows.end) hidden = false;
      if (is(Fault::tail_tile_counts) && p >= rows.end) scores[j] = 0;
      else scores[j] = hidden ? -infinity : score(l, q, l.key(p, kv));
      top = std::max(top, scores[j]);
    }
    if (top == -infinity && !is(Fault::hidden_tile_nan)) continue;
    const float shrink = m == -infinity && !is(Fault::hidden_tile_nan) ? 0.0F : std::exp(m - top);
    den *= shrink;
    if (!is(Fault::rescale_forgotten)) {
      for (std::size_t d = 0; d < l.dim; ++d) out[d] *= shrink;
    }
    m = top;
    for (std::size_t j = 0; j < tile; ++j) {
      const float weight = std::exp(scores[j] - m);
      den += weight;
      if (weight == 0 || from + j >= rows.end) continue;
      for (std::size_t d = 0; d < l.dim; ++d) out[d] += weight * l.value(from + j, kv)[d];
    }
  }
  if (sink != -infinity) {
    const float top = std::max(m, sink);
    for (std::size_t d = 0; d < l.dim; ++d) out[d] *= std::exp(m - top);
    den = den * std::exp(m - top) + std::exp(sink - top);
  }
  for (std::size_t d = 0; d < l.dim; ++d) out[d] /= den;
}

// exp and tanh through binary64: the second rounding goes astray about once in 2^29 arguments, which these tests do not meet.
float rounded_exp(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }
float rounded_tanh(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }

float fold(float* lanes) {
  for (std::size_t width : {8, 4, 2, 1}) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

/// docs/arithmetic.md, canonical order.
void canonical(const Layer& l, const float* q, std::size_t kv, Visible rows, float sink, float* out) {
  std::vector<float> dots;
  float m = -infinity;
  float scale = l.scale;
  for (std::size_t p = rows.first; p < rows.end; ++p) {
    float lanes[16] = {};
    for (std::size_t d = 0; d < l.dim; ++d) lanes[d % 16] = std::fma(q[d], l.key(p, kv)[d], lanes[d % 16]);
    float s = fold(lanes);
    const bool contracted = is(Fault::contraction) && l.softcap == 0;
    if (!contracted) s *= scale;
    if (l.softcap != 0) s = l.softcap * rounded_tanh(s / l.softcap);
    dots.push_back(s);
    const float top = contracted ? s * scale : s;
    if (top > m) m = top;
  }
  if (sink > m) m = sink;
  float lanes[16] = {};
  std::vector<float> weights;
  for (std::size_t p = rows.first; p < rows.end; ++p) {
    const float s = dots[p - rows.first];
    float shifted = is(Fault::contraction) && l.softcap == 0 ? std::fma(s, scale, -m) : s - m;
    if (is(Fault::minus_infinity_nan) && s == -infinity) shifted = s - s;
    weights.push_back(rounded_exp(shifted));
    lanes[p % 16] += weights.back();
  }
  float den = fold(lanes);
  if (!l.sinks.empty()) den += rounded_exp(sink - m);
  std::fill(out, out + l.dim, 0.0F);
  for (std::size_t p = rows.first; p < rows.end; ++p) {
    const float probability = weights[p - rows.first] / den;
    if (probability == 0) continue;
    for (std::size_t d = 0; d < l.dim; ++d) out[d] = std::fma(probability, l.value(p, kv)[d], out[d]);
  }
  for (std::size_t d = 0; d < l.dim; ++d) out[d] = std::isnan(out[d]) ? std::numeric_limits<float>::quiet_NaN() : out[d];
}

}  // namespace

void attend_head(const Layer& l, const float* q, std::size_t head, std::size_t position, std::size_t i, std::size_t n, float* out) {
  static unsigned calls = 0;
  const std::size_t kv = kv_head_of(l, head);
  const Visible rows = visible(l, position, i, n);
  const float sink = sink_of(l, head, i);
  if (kind == Kind::canonical) {
#if defined(__x86_64__)
    const unsigned control = _mm_getcsr();
    if (is(Fault::flushes_subnormals)) _mm_setcsr(control | 0x8040U);
    canonical(l, q, kv, rows, sink, out);
    _mm_setcsr(control);
#else
    canonical(l, q, kv, rows, sink, out);
#endif
    return;
  }
  if (kind == Kind::online) return online(l, q, kv, rows, sink, out);
  const bool backwards = (is(Fault::batch_dependent) && n > 1) || (is(Fault::run_dependent) && ++calls % 3 == 0);
  two_pass(l, kv, rows, scores_of(l, q, kv, rows, position), sink, backwards, out);
  for (std::size_t d = 0; is(Fault::nan_hidden) && d < l.dim; ++d) out[d] = std::isnan(out[d]) ? 0.0F : out[d];
}

}  // namespace broken
