// The O(1) overlay's two operators on its state: a query's answer, and a row's absorption.
//
// Near keys (sinks and ring) are met exactly. The rest of the sequence is known through landmarks only: F_a, the query
// against key landmark a, goes through M, the regularized inverse of landmark against landmark, to a weight u_b for the
// sums T_b and Z_b that query landmark b has gathered. Source: Xiong et al. 2021, eq. 13, with its third factor kept as
// running sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvcert/storage.hpp"
#include "reference/lanes.hpp"

namespace kvcert::reference {

/// The rows met exactly, [HD] each: sinks, then the ring, oldest first.
struct NearRows {
  std::vector<std::span<const float>> keys;
  std::vector<std::span<const float>> values;
};

inline NearRows near_rows(const O1GroupView& view) {
  NearRows rows;
  const std::size_t head_dim = view.head_dim;
  for (std::size_t i = 0; i < view.sink_keys.size() / head_dim; ++i) {
    rows.keys.push_back(view.sink_keys.subspan(i * head_dim, head_dim));
    rows.values.push_back(view.sink_values.subspan(i * head_dim, head_dim));
  }
  for (std::size_t i = 0; i < view.ring_length; ++i) {
    const std::size_t slot = (view.ring_head + (view.window - view.ring_length) + i) % view.window;
    rows.keys.push_back(view.ring_keys.subspan(slot * head_dim, head_dim));
    rows.values.push_back(view.ring_values.subspan(slot * head_dim, head_dim));
  }
  return rows;
}

/// Σ weight · (mass, value): a near row has mass 1, a landmark Z_b. (fma(w, 1, Σ) is Σ + w, rounded once.)
template <class Real>
struct WeightedSum {
  std::vector<Real> values;  ///< [HD]
  Real mass{};

  void add(const Real& weight, std::span<const float> value, const Real& value_mass) {
    for (std::size_t d = 0; d < values.size(); ++d) values[d] = fma(weight, Real::of(value[d]), values[d]);
    mass = fma(weight, value_mass, mass);
  }
};

/// Landmark weights: u = F·M, with F_a = e^(f_a − g) and g = max f_a.
template <class Real>
struct FarWeights {
  Real g = Real::minus_infinity();
  std::vector<Real> u;  ///< [m_eff]
};

template <class Real>
FarWeights<Real> far_weights(const std::vector<Real>& q, const O1GroupView& view, const O1HeadView& head) {
  const std::size_t m = view.m_eff;
  FarWeights<Real> far;
  std::vector<Real> f;  // [m]: f_a = scale · ⟨q, k̃_a⟩
  for (std::size_t a = 0; a < m; ++a) {
    f.push_back(dot<Real>(q, view.K_tilde.subspan(a * view.head_dim, view.head_dim)) * Real::of(view.scale));
    far.g = maximum_or_nan(far.g, f[a]);
  }
  for (Real& exponent : f) exponent = exp(exponent - far.g);  // F_a
  for (std::size_t b = 0; b < m; ++b) {
    Real u;  // +0
    for (std::size_t a = 0; a < m; ++a) u = fma(f[a], Real::of(head.M[a * m + b]), u);
    far.u.push_back(view.rect == O1Rect::fm ? not_below_zero(u) : u);
  }
  return far;
}

/// One query head's answer [HD] over the group's state, after this step's row was inserted. Needs at least one near row.
/// nullopt where Real cannot tell whether the far field stays; Binary32 always can.
template <class Real>
std::optional<std::vector<Real>> o1_decode(std::span<const float> q_bits, const O1GroupView& view,
                                           const O1HeadView& head) {
  const std::vector<Real> q = loaded<Real>(q_bits);
  const NearRows near = near_rows(view);

  // 1. Near scores l_j = scale · ⟨q, k_j⟩, and their maximum.
  std::vector<Real> scores;
  Real near_maximum = Real::minus_infinity();
  for (const std::span<const float> key : near.keys) {
    scores.push_back(dot<Real>(q, key) * Real::of(view.scale));
    near_maximum = maximum_or_nan(near_maximum, scores.back());
  }

  // 2. Far terms y_b · (Z_b, T_b), y_b = u_b · e^((g + μ_b) − c), under the shift c that near keys share, so that no exponent
  //    is positive. A landmark of weight 0 gives no term and has no say in c.
  Real c = near_maximum;
  WeightedSum<Real> sum{std::vector<Real>(view.head_dim)};
  if (view.far_count != 0) {
    const FarWeights<Real> far = far_weights(q, view, head);
    const auto reference = [&](std::size_t b) { return far.g + Real::of(head.mu[b]); };
    for (std::size_t b = 0; b < view.m_eff; ++b) {
      if (!far.u[b].is_zero()) c = maximum_or_nan(c, reference(b));
    }
    for (std::size_t b = 0; b < view.m_eff; ++b) {
      if (far.u[b].is_zero()) continue;
      const Real y = far.u[b] * exp(reference(b) - c);
      sum.add(y, head.T.subspan(b * view.head_dim, view.head_dim), Real::of(head.Z[b]));
    }

    // 3. Aggregate: weights may cancel. A far field without positive mass is dropped, and its shift with it.
    if (view.rect == O1Rect::aggregate) {
      const std::optional<bool> far_stays = stays(sum.mass);
      if (!far_stays) return std::nullopt;
      if (!*far_stays) {
        sum = {std::vector<Real>(view.head_dim)};
        c = near_maximum;
      }
    }
  }

  // 4. Near terms e^(l_j − c) · (1, v_j), and the quotient.
  for (std::size_t j = 0; j < near.keys.size(); ++j) sum.add(exp(scores[j] - c), near.values[j], Real::one());
  for (Real& value : sum.values) value = value / divisor(sum.mass);
  return std::move(sum.values);
}

/// One landmark's running sums, and what a row does to them.
template <class Real>
struct Landmark {
  Real mu = Real::minus_infinity();  ///< the largest exponent so far
  Real Z{};                          ///< Σ e^(l − μ)
  std::vector<Real> T;               ///< [HD], Σ e^(l − μ) · v

  /// l = scale · ⟨q̃_b, k⟩. The first row finds μ = −∞, so r = e^(−∞) = 0 there.
  void absorb(const Real& l, std::span<const float> v) {
    if (mu < l) {
      const Real r = exp(mu - l);
      Z = Z * r;
      for (Real& t : T) t = t * r;
      mu = l;
    }
    const Real e = exp(l - mu);
    Z = Z + e;
    for (std::size_t d = 0; d < T.size(); ++d) T[d] = fma(e, Real::of(v[d]), T[d]);
  }
};

}  // namespace kvcert::reference
