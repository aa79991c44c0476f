#include "certify/bound.hpp"

#include <fmt/format.h>
#include <mpfr.h>

#include <boost/multiprecision/mpfi.hpp>
#include <cmath>
#include <limits>

namespace kvcert::certify {
namespace {

// 60 decimal digits are 200 bits: dots of head_dim ≤ 4096 over the full binary32 range lose less than 2^-180 of A_p.
using Interval = boost::multiprecision::number<boost::multiprecision::mpfi_float_backend<60>,
                                               boost::multiprecision::et_off>;
using Real = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<60>, boost::multiprecision::et_off>;

Interval real(double x) { return Interval(x); }
Interval count(std::size_t n) { return Interval(static_cast<unsigned long>(n)); }

double upper_end(const Interval& x) { return mpfr_get_d(&x.backend().data()->right, MPFR_RNDU); }
double nearest(const Interval& x) {
  Real middle;
  mpfi_mid(middle.backend().data(), x.backend().data());
  return mpfr_get_d(middle.backend().data(), MPFR_RNDN);
}

bool certainly_less(const Interval& a, const Interval& b) {
  return mpfr_less_p(&a.backend().data()->right, &b.backend().data()->left) != 0;
}

/// The interval of max(a, b).
Interval maximum(const Interval& a, const Interval& b) {
  Interval result;
  auto* to = result.backend().data();
  mpfr_max(&to->left, &a.backend().data()->left, &b.backend().data()->left, MPFR_RNDD);
  mpfr_max(&to->right, &a.backend().data()->right, &b.backend().data()->right, MPFR_RNDU);
  return result;
}

Interval power(const Interval& base, std::size_t exponent) {
  Interval result = 1;
  Interval square = base;
  for (; exponent != 0; exponent >>= 1U) {
    if ((exponent & 1U) != 0) result *= square;
    square *= square;
  }
  return result;
}

Interval magnitude(float x) { return real(std::fabs(static_cast<double>(x))); }

/// Per visible row: the real score after scaling and cap, and D, how far a computed one may lie from it.
struct Score {
  Interval t, D;
};

Score score(const HeadInput& in, std::size_t row, const EngineParameters& e, const Interval& one_u, Interval& worst_product) {
  const std::size_t dim = in.q.size();
  Interval z = 0;
  Interval A = 0;  // Σ |q_j k_pj|
  Interval stored = 0;  // Σ of what absolute errors of storage add
  for (std::size_t j = 0; j < dim; ++j) {
    // Products of two binary32 are exact in binary64, but for those below 2^-1022; the smallest is 2^-298.
    const double product = static_cast<double>(in.q[j]) * static_cast<double>(in.keys[row * dim + j]);
    z += product;
    A += std::fabs(product);
    if (!in.key_error.empty()) stored += (magnitude(in.q[j]) * (1 + real(e.u_q)) + real(e.query_error)) * magnitude(in.key_error[row * dim + j]);
    if (e.query_error != 0) stored += real(e.query_error) * magnitude(in.keys[row * dim + j]) * (1 + real(e.u_k));
  }
  worst_product = maximum(worst_product, A + stored);
  const Interval scale = in.scale;
  const Interval lambda = real(e.lambda);
  const Interval s = scale * z;
  // D⁰: storage (u_q, u_k, and what it adds absolutely), h_q + r roundings on the way, and what underflow adds.
  const Interval D0 = magnitude(in.scale) * A * ((1 + real(e.u_q)) * (1 + real(e.u_k)) * power(one_u, e.h_q + e.r) - 1) +
                      magnitude(in.scale) * stored * power(one_u, e.h_q + e.r) +
                      (magnitude(in.scale) * count(dim) + 1) * count(e.r) * lambda * power(one_u, dim + e.r);
  const Interval c = in.softcap;
  if (in.softcap == 0) return {s, D0};
  const Interval t = c * tanh(s / c);
  const Interval tanh_factor = (1 + real(e.tau)) * one_u;
  const Interval reach = abs(s) + D0;
  const Interval D = tanh_factor * (D0 + (power(one_u, e.g_c) - 1) * reach + c * lambda +
                                    count(e.g_c - 1) * c * lambda * reach) +
                     (tanh_factor - 1) * abs(t) + c * real(e.omega_tanh) * one_u + lambda;
  return {t, D};
}

}  // namespace

EngineParameters canonical_parameters(std::size_t head_dim, std::size_t visible_rows) {
  EngineParameters e;
  e.h_q = (head_dim + 15) / 16 + 4;
  e.h_v = visible_rows == 0 ? 0 : visible_rows - 1;
  e.h_s = (visible_rows + 15) / 16 + 4;
  return e;
}

HeadBound evaluate_bound(const HeadInput& in, const EngineParameters& e, std::span<const float> output) {
  HeadBound result;
  const std::size_t dim = in.q.size();
  const std::size_t n = in.keys.size() / dim;
  const auto not_covered = [&](std::string why) {
    result.not_covered = std::move(why);
    return result;
  };
  const auto finite = [](std::span<const float> numbers) {
    for (float x : numbers) {
      if (!std::isfinite(x)) return false;
    }
    return true;
  };
  if (n == 0) return not_covered("no visible row");
  if (!finite(in.q) || !finite(in.keys) || !finite(in.values)) return not_covered("an input is not finite");
  if (!std::isfinite(in.scale) || !std::isfinite(in.softcap)) return not_covered("scale or softcap is not finite");
  const bool sink = in.sink && *in.sink != -std::numeric_limits<float>::infinity();
  if (sink && !std::isfinite(*in.sink)) return not_covered("the sink is not finite");
  const std::size_t N = n + (sink ? 1 : 0);

  const Interval u = real(e.u);
  const Interval one_u = 1 + u;
  const Interval lambda = real(e.lambda);
  const Interval omega = real(e.omega + e.P_error);  // a cast of e^(s − m) loses what exp may
  const Interval epsilon = real(e.epsilon);
  const std::size_t L = e.rescalings;

  // 1. scores
  std::vector<Score> scores;
  scores.reserve(n);
  Interval worst_product = 0;
  for (std::size_t p = 0; p < n; ++p) scores.push_back(score(in, p, e, one_u, worst_product));
  const Interval sigma = sink ? *in.sink : 0.0F;
  const Interval D_sigma = abs(sigma) * (power(one_u, e.r_sigma) - 1);
  Interval m_plus = scores[0].t + scores[0].D;
  Interval m_minus = scores[0].t - scores[0].D;
  Interval m_exact = scores[0].t;
  for (const Score& s : scores) {
    m_plus = maximum(m_plus, s.t + s.D);
    m_minus = maximum(m_minus, s.t - s.D);
    m_exact = maximum(m_exact, s.t);
  }
  if (sink) {
    m_plus = maximum(m_plus, sigma + D_sigma);
    m_exact = maximum(m_exact, sigma);
  }
  const Interval overflow = real(e.overflow);
  if (!certainly_less(worst_product * maximum(Interval(1), magnitude(in.scale)) * power(one_u, dim + e.r), overflow)) {
    return not_covered("a score may overflow");
  }

  // 2. exact softmax weights, shifted by a common real number
  Real shift;
  mpfi_mid(shift.backend().data(), m_exact.backend().data());
  std::vector<Interval> w;
  w.reserve(n);
  Interval mass = 0;
  for (const Score& s : scores) {
    w.push_back(exp(s.t - Interval(shift)));
    mass += w.back();
  }
  Interval w_sigma = 0;
  if (sink) {
    w_sigma = exp(sigma - Interval(shift));
    mass += w_sigma;
  }
  for (Interval& x : w) x /= mass;
  w_sigma /= mass;

  // 3. how far a weight may be off: e^{±B}
  const Interval exp_part = count(L + 1) * (epsilon / (1 - epsilon));
  std::vector<Interval> growth;  // e^{B_p}
  growth.reserve(n);
  Interval K = 0;
  Interval H = 0;
  Interval S_min = 0;
  for (std::size_t p = 0; p < n; ++p) {
    const auto& [t, D] = scores[p];
    const Interval B = D + u * (m_plus - t + D) + exp_part;
    growth.push_back(exp(B));
    K += w[p] * growth[p];
    H += w[p] / growth[p];
    S_min += exp(t - m_plus);
  }
  if (sink) {
    const Interval B = D_sigma + u * (maximum(m_plus - sigma, sigma - m_minus) + D_sigma) + exp_part;
    const Interval grown = exp(B);
    K += w_sigma * grown;
    H += w_sigma / grown;
    S_min += exp(sigma - m_plus);
  }
  double largest_value = 0;
  for (float x : in.values) largest_value = std::max(largest_value, std::fabs(static_cast<double>(x)));
  double largest_error = 0;
  for (float x : in.value_error) largest_error = std::max(largest_error, 2 * std::fabs(static_cast<double>(x)));
  largest_value += largest_error;
  const std::size_t J = 1 + e.h_v + e.h_s + 2 * L + e.g;
  const Interval shrink = 1 - u;
  // An engine that rescales adds up before it divides.
  if (!certainly_less(real(largest_value) * (L == 0 ? K : maximum(K, count(n))) / power(shrink, J), overflow)) {
    return not_covered("a weighted sum may overflow, or the scores are too uncertain to say anything");
  }

  // 4. underflow of exponentials, and the smallest denominator
  const Interval G = power(1 + epsilon + omega, L);
  const Interval Omega = count(L + 1) * omega * G;
  const Interval Delta = (count(N) * Omega + count(L) * lambda) * G / power(shrink, N + L);
  const Interval S = power(shrink, e.h_s + L) * S_min * H - Delta;
  if (!certainly_less(Interval(0), S)) return not_covered("the denominator may vanish");

  // 5. per dimension. w_p·R_p is taken as a double rounded up; sums of n nonnegative doubles are within (1 + 2^-53)^(n+1).
  std::vector<double> wR(n), w_up(n);
  const Interval factor = K / (power(shrink, J) * (1 - real(e.u_P)) * (1 - real(e.u_v)));
  for (std::size_t p = 0; p < n; ++p) {
    wR[p] = upper_end(w[p] * (growth[p] * factor - 1));
    w_up[p] = upper_end(w[p]);
  }
  const double slack = 1.0 + static_cast<double>(n + 4) * 0x1p-52;
  constexpr double tiny = std::numeric_limits<double>::min();  // products that fell below the subnormals
  const Interval scatter = G / power(shrink, n + L + e.g);
  const Interval loss = count(N) * Omega + count(L) * lambda;
  const Interval gather = (lambda + real(e.P_error)) / power(shrink, n);
  for (std::size_t d = 0; d < dim; ++d) {
    double sum_wR = 0;
    double sum_w = 0;
    double sum_v = 0;
    double sum_stored = 0;  // Σ w_p · what storage may have added to v_pd: that much is not the engine's arithmetic
    Interval o = 0;
    for (std::size_t p = 0; p < n; ++p) {
      const double v = in.values[p * dim + d];
      const double added = in.value_error.empty() ? 0.0 : std::fabs(double{in.value_error[p * dim + d]}) / (1 - e.u_v) * slack;
      const double held = std::fabs(v) + added;
      sum_wR += wR[p] * held;
      sum_w += w_up[p] * held;
      sum_v += held;
      sum_stored += w_up[p] * added;
      if (v != 0) o += w[p] * v;
    }
    sum_wR = sum_wR * slack + static_cast<double>(n) * tiny;
    const Interval T = real(sum_wR) + real(sum_w * slack + static_cast<double>(n) * tiny);
    const Interval V = real(sum_v * slack);
    const Interval U = scatter * (Omega * V + count(n + L) * lambda + T * loss) / S + gather * (V + count(n + 1));
    result.bound.push_back(upper_end(real(sum_wR) + U + real(sum_stored * slack)));
    result.unit.push_back(e.u * sum_w);
    result.exact.push_back(nearest(o));
    if (!output.empty()) {
      const bool number = std::isfinite(output[d]);
      result.error.push_back(number ? upper_end(abs(real(output[d]) - o)) : std::numeric_limits<double>::infinity());
    }
  }
  return result;
}

}  // namespace kvcert::certify
