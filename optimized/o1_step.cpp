// One position of a group: the row enters, what leaves the ring is absorbed, every head attends.
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "optimized/float_environment.hpp"
#include "optimized/fused.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/o1_group.hpp"
#include "optimized/scratch.hpp"

namespace kvcert::optimized {
namespace {

constexpr float nan = std::bit_cast<float>(kernels::canonical_nan);
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr float smallest_normal = std::numeric_limits<float>::min();

float canonical(float x) { return x != x ? nan : x; }

/// NaN where an operand is.
float maximum(float a, float b) {
  if (a != a || b != b) return nan;
  return a > b ? a : b;
}

float maximum_of(const float* x, std::size_t n) {
  float m = minus_infinity;
  for (std::size_t i = 0; i < n; ++i) m = maximum(m, x[i]);
  return m;
}

}  // namespace

std::size_t O1Group::scratch_floats() const { return 2 * (near_rows() + 1) + 3 * state_.landmarks; }

// --- Inserting
// --------------------------------------------------------------------------------------------------------------

void O1Group::insert_rows(const float* k, const float* v, std::size_t rows) {
  float* memory = scratch(scratch_floats());
  const FloatEnvironment standard;
  for (std::size_t i = 0; i < rows; ++i) insert(k + i * head_dim_, v + i * head_dim_, memory);
}

void O1Group::insert(const float* k, const float* v, float* memory) {
  State& state = state_;
  if (state.exact_only) {
    state.exact_keys.copy_in(state.exact_rows * head_dim_, {k, head_dim_});
    state.exact_values.copy_in(state.exact_rows * head_dim_, {v, head_dim_});
    ++state.exact_rows;
    return;
  }
  const std::size_t at = state.ring_head * head_dim_;
  if (state.ring_length == config_.window) {
    absorb(state.ring_keys.data() + at, state.ring_values.data() + at, memory);
    ++state.far_count;
  } else {
    ++state.ring_length;
  }
  state.ring_keys.copy_in(at, {k, head_dim_});
  state.ring_values.copy_in(at, {v, head_dim_});
  state.ring_head = state.ring_head + 1 == config_.window ? 0 : state.ring_head + 1;
}

/// Not inlined, so that nothing of it can move out of the caller's FloatEnvironment. For every landmark: l =
/// q̃·k·scale, the sums rescaled where l is a new maximum, e^(l − μ) added.
[[gnu::noinline]] void O1Group::absorb(const float* k, const float* v, float* memory) {
  const std::size_t m = state_.landmarks;
  float* score = memory;
  float* rescale = score + m;
  float* weight = rescale + m;
  for (std::size_t h = 0; h < heads_; ++h) {
    kernels_->scores(state_.query_landmarks.data() + h * m * head_dim_, m, k, 1, head_dim_, scale_, score, 1);
    float* mu = state_.maxima.data() + h * m;
    for (std::size_t b = 0; b < m; ++b) {
      const bool grows = score[b] > mu[b];
      rescale[b] = grows ? mu[b] - score[b] : 0.0F;  // −∞ the first time: exp is 0
      weight[b] = score[b] - (grows ? score[b] : mu[b]);
    }
    kernels_->exp_row(rescale, rescale, m);
    kernels_->exp_row(weight, weight, m);
    for (std::size_t b = 0; b < m; ++b) {
      float& mass = state_.masses.data()[h * m + b];
      float* sum = state_.sums.data() + (h * m + b) * head_dim_;
      if (score[b] > mu[b]) {
        mass *= rescale[b];
        for (std::size_t d = 0; d < head_dim_; ++d) sum[d] *= rescale[b];
        mu[b] = score[b];
      }
      mass = canonical(mass + weight[b]);
      kernels_->state->fma_rows(weight + b, v, 1, head_dim_, sum);
    }
    kernels_->canonicalize_row(state_.sums.data() + h * m * head_dim_, m * head_dim_);
  }
}

// --- Attending
// --------------------------------------------------------------------------------------------------------------

/// Exact rows, then the ring, oldest first: until it is full that is slot 0, then the one written next.
void O1Group::near_scores(const float* q, float* out) const {
  const auto score = [&](const float* keys, std::size_t rows) {
    if (rows != 0) kernels_->scores(q, 1, keys, rows, head_dim_, scale_, out, rows);
    out += rows;
  };
  score(state_.exact_keys.data(), state_.exact_rows);
  if (state_.exact_only) return;
  const std::size_t oldest = state_.ring_length == config_.window ? state_.ring_head : 0;
  score(state_.ring_keys.data() + oldest * head_dim_, state_.ring_length - oldest);
  score(state_.ring_keys.data(), oldest);
}

/// out = fma(weight_j, v_j, out) over the same rows in the same order.
void O1Group::add_near_values(const float* weight, float* out) const {
  const auto add = [&](const float* values, std::size_t rows) {
    if (rows != 0) kernels_->state->fma_rows(weight, values, rows, head_dim_, out);
    weight += rows;
  };
  add(state_.exact_values.data(), state_.exact_rows);
  if (state_.exact_only) return;
  const std::size_t oldest = state_.ring_length == config_.window ? state_.ring_head : 0;
  add(state_.ring_values.data() + oldest * head_dim_, state_.ring_length - oldest);
  add(state_.ring_values.data(), oldest);
}

/// Landmark weights u = F·M of a query, exponents[b] = g + μ_b, and the largest of these where u_b ≠ 0. memory [m].
float O1Group::landmark_weights(std::size_t head, const float* q, float* u, float* exponents, float* memory) const {
  const std::size_t m = state_.landmarks;
  float* F = memory;
  kernels_->scores(q, 1, state_.key_landmarks.data(), m, head_dim_, scale_, F, m);
  const float g = maximum_of(F, m);
  for (std::size_t a = 0; a < m; ++a) F[a] -= g;
  kernels_->exp_row(F, F, m);
  std::fill_n(u, m, 0.0F);
  kernels_->state->fma_rows(F, state_.mixing.data() + head * m * m, m, m, u);
  float largest = minus_infinity;
  for (std::size_t b = 0; b < m; ++b) {
    if (config_.rect == O1Rect::fm) u[b] = maximum(u[b], 0.0F);
    exponents[b] = g + state_.maxima.data()[head * m + b];
    if (u[b] != 0) largest = maximum(largest, exponents[b]);
  }
  return largest;
}

[[gnu::noinline]] void O1Group::attend(std::size_t head, const float* q, float* out, float* memory) const {
  const std::size_t near = near_rows(), m = state_.landmarks;
  float* score = memory;
  float* weight = score + near;
  float* u = weight + near;
  float* exponent = u + m;
  float* rest = exponent + m;
  near_scores(q, score);
  const float near_maximum = maximum_of(score, near);

  // 1. the far field: y_b = u_b · exp(g + μ_b − c), and its part of the denominator. A b with u_b = 0 gives no term.
  bool far = state_.far_count != 0;
  float shift = near_maximum;
  float denominator = 0;
  if (far) {
    shift = maximum(near_maximum, landmark_weights(head, q, u, exponent, rest));
    for (std::size_t b = 0; b < m; ++b) exponent[b] -= shift;
    kernels_->exp_row(exponent, exponent, m);
    for (std::size_t b = 0; b < m; ++b) {
      if (u[b] == 0) continue;
      rest[b] = u[b] * exponent[b];
      denominator = fused(rest[b], state_.masses.data()[head * m + b], denominator);
    }
    if (config_.rect == O1Rect::aggregate && denominator <= 0) {
      far = false;
      shift = near_maximum;
      denominator = 0;
    }
  }

  // 2. the near field's weights
  for (std::size_t j = 0; j < near; ++j) weight[j] = score[j] - shift;
  kernels_->exp_row(weight, weight, near);

  // 3. both, far first, each in its order
  std::fill_n(out, head_dim_, 0.0F);
  for (std::size_t b = 0; far && b < m; ++b)
    if (u[b] != 0)
      kernels_->state->fma_rows(rest + b, state_.sums.data() + (head * m + b) * head_dim_, 1, head_dim_, out);
  add_near_values(weight, out);
  for (std::size_t j = 0; j < near; ++j) denominator += weight[j];
  denominator = maximum(denominator, smallest_normal);
  for (std::size_t d = 0; d < head_dim_; ++d) out[d] = canonical(out[d] / denominator);
}

void O1Group::insert_and_attend(const float* q, const float* k, const float* v, float* out) {
  float* memory = scratch(scratch_floats());  // for one row more than there is
  const FloatEnvironment standard;
  insert(k, v, memory);
  for (std::size_t head = 0; head < heads_; ++head) attend(head, q + head * head_dim_, out + head * head_dim_, memory);
}

}  // namespace kvcert::optimized
