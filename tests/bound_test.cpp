// The accuracy bound, evaluated a second time: in plain long doubles, straight from docs/arithmetic.md, term by term. The
// two must agree to many digits for every parameter of an engine, so that no term can be lost on either side.
#include <algorithm>
#include <cmath>

#include "certify/bound.hpp"
#include "certify/random.hpp"
#include "tests/property.hpp"

using namespace kvcert;
using certify::EngineParameters;
using certify::HeadInput;

namespace {

using Real = long double;

/// |ô_d − o_d| may not exceed this, for dimension d.
Real bound_again(const HeadInput& in, const EngineParameters& e, std::size_t d) {
  const std::size_t HD = in.q.size();
  const std::size_t n = in.keys.size() / HD;
  const bool sink = in.sink.has_value();
  const Real N = static_cast<Real>(n) + (sink ? 1 : 0);
  const Real u = e.u, lambda = e.lambda, c = in.softcap, scale = std::fabs(Real{in.scale});
  const auto up = [&](Real count) { return std::pow(1 + u, count); };
  const auto down = [&](Real count) { return std::pow(1 - u, -count); };
  std::vector<Real> t(n), D(n);
  for (std::size_t p = 0; p < n; ++p) {
    Real z = 0, A = 0;
    for (std::size_t j = 0; j < HD; ++j) {
      const Real product = Real{in.q[j]} * Real{in.keys[p * HD + j]};
      z += product;
      A += std::fabs(product);
    }
    const Real s = Real{in.scale} * z;
    const Real r = static_cast<Real>(e.r);
    const Real D0 = scale * A * (up(static_cast<Real>(e.h_q) + r) - 1) + (scale * static_cast<Real>(HD) + 1) * r * lambda * up(static_cast<Real>(HD) + r);
    t[p] = s;
    D[p] = D0;
    if (c == 0) continue;
    t[p] = c * std::tanh(s / c);
    const Real T = (1 + Real{e.tau}) * (1 + u);
    const Real g_c = static_cast<Real>(e.g_c);
    D[p] = T * (D0 + (up(g_c) - 1) * (std::fabs(s) + D0) + c * lambda + (g_c - 1) * c * lambda * (std::fabs(s) + D0)) +
           (T - 1) * std::fabs(t[p]) + c * Real{e.omega_tanh} * (1 + u) + lambda;
  }
  const Real sigma = sink ? *in.sink : 0.0F;
  const Real D_sigma = std::fabs(sigma) * (up(static_cast<Real>(e.r_sigma)) - 1);
  Real m_plus = sink ? sigma + D_sigma : -INFINITY, m_minus = -INFINITY, top = sink ? sigma : -INFINITY;
  for (std::size_t p = 0; p < n; ++p) {
    m_plus = std::max(m_plus, t[p] + D[p]);
    m_minus = std::max(m_minus, t[p] - D[p]);
    top = std::max(top, t[p]);
  }
  Real mass = sink ? std::exp(sigma - top) : 0;
  for (Real x : t) mass += std::exp(x - top);
  const Real L = static_cast<Real>(e.rescalings), epsilon = e.epsilon, omega = e.omega;
  const Real steps = (L + 1) * epsilon / (1 - epsilon);
  std::vector<Real> w(n), B(n);
  Real K = 0, H = 0, S_min = 0;
  for (std::size_t p = 0; p < n; ++p) {
    w[p] = std::exp(t[p] - top) / mass;
    B[p] = D[p] + u * (m_plus - t[p] + D[p]) + steps;
    K += w[p] * std::exp(B[p]);
    H += w[p] * std::exp(-B[p]);
    S_min += std::exp(t[p] - m_plus);
  }
  if (sink) {
    const Real B_sigma = D_sigma + u * (std::max(m_plus - sigma, sigma - m_minus) + D_sigma) + steps;
    const Real w_sigma = std::exp(sigma - top) / mass;
    K += w_sigma * std::exp(B_sigma);
    H += w_sigma * std::exp(-B_sigma);
    S_min += std::exp(sigma - m_plus);
  }
  const Real h_v = static_cast<Real>(e.h_v), h_s = static_cast<Real>(e.h_s), g = static_cast<Real>(e.g), rows = static_cast<Real>(n);
  const Real J = 1 + h_v + h_s + 2 * L + g;
  const Real G = std::pow(1 + epsilon + omega, L), Omega = (L + 1) * omega * G;
  const Real Delta = (N * Omega + L * lambda) * G * down(N + L);
  const Real S = std::pow(1 - u, h_s + L) * S_min * H - Delta;
  Real main = 0, T_d = 0, V = 0;
  for (std::size_t p = 0; p < n; ++p) {
    const Real v = std::fabs(Real{in.values[p * HD + d]});
    const Real R = std::exp(B[p]) * K * down(J) - 1;
    main += w[p] * v * R;
    T_d += w[p] * v * (1 + R);
    V += v;
  }
  const Real U = down(rows + L + g) * G * (Omega * V + (rows + L) * lambda + T_d * (N * Omega + L * lambda)) / S + lambda * (V + rows + 1) * down(rows);
  return main + U;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bound)

BOOST_AUTO_TEST_CASE(no_term_is_lost) {
  certify::Random random(20);
  std::size_t compared = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t HD = random.between(1, 5), n = random.between(1, 6);
    std::vector<float> q(HD), k(n * HD), v(n * HD);
    for (auto* tensor : {&q, &k, &v}) {
      for (float& x : *tensor) x = random.normal();
    }
    HeadInput in{.q = q, .keys = k, .values = v, .scale = random.pick({1.0F, 0.5F, -2.0F}), .softcap = random.pick({0.0F, 3.0F, 0.25F}),
                 .sink = std::nullopt};
    if (random.chance(1, 2)) in.sink = random.normal() * 2;
    // Coarse units, each of its own size, so that every term weighs something.
    EngineParameters e;
    e.u = random.pick({0x1p-8, 0x1p-11, 0x1p-24});
    e.lambda = random.pick({0x1p-10, 0x1p-30, 0x1p-150});
    e.epsilon = random.pick({0x1p-7, 0x1p-12, 0x1p-24});
    e.omega = random.pick({0x1p-11, 0x1p-30, 0x1p-150});
    e.tau = random.pick({0x1p-6, 0x1p-24});
    e.omega_tanh = random.pick({0x1p-9, 0x1p-150});
    e.h_q = random.between(1, 9);
    e.r = random.between(0, 3);
    e.r_sigma = random.between(0, 2);
    e.g_c = random.between(1, 2);
    e.rescalings = random.between(0, 3);
    e.h_v = random.between(0, 6);
    e.h_s = random.between(0, 6);
    e.g = random.between(1, 2);
    const auto bound = certify::evaluate_bound(in, e);
    if (!bound.not_covered.empty()) continue;
    for (std::size_t d = 0; d < HD; ++d) {
      const Real again = bound_again(in, e, d);
      BOOST_TEST_REQUIRE(std::fabs(bound.bound[d] - again) <= again * 1e-9L,
                         "trial " << trial << ": bound.cpp says " << bound.bound[d] << ", the page " << static_cast<double>(again));
      ++compared;
    }
  }
  BOOST_TEST(compared > 500U);
}

BOOST_AUTO_TEST_CASE(canonical_parameters_are_those_of_the_page) {
  const auto e = certify::canonical_parameters(80, 33);
  BOOST_TEST(e.u == 0x1p-24);
  BOOST_TEST(e.lambda == 0x1p-150);
  BOOST_TEST(e.epsilon == 0x1p-24);
  BOOST_TEST(e.omega == 0x1p-150);
  BOOST_TEST(e.tau == 0x1p-24);
  BOOST_TEST(e.omega_tanh == 0x1p-150);
  BOOST_TEST(e.h_q == 5U + 4U);
  BOOST_TEST(e.r == 1U);
  BOOST_TEST(e.r_sigma == 0U);
  BOOST_TEST(e.g_c == 1U);
  BOOST_TEST(e.rescalings == 0U);
  BOOST_TEST(e.h_v == 32U);
  BOOST_TEST(e.h_s == 3U + 4U);
  BOOST_TEST(e.g == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
