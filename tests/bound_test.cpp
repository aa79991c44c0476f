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
  const std::size_t N = n + (sink ? 1 : 0);
  const Real u = e.u, lambda = e.lambda, plus = e.lambda_add, c = in.softcap, scale = std::fabs(Real{in.scale});
  const auto real = [](std::size_t k) { return static_cast<Real>(k); };
  const auto up = [&](std::size_t k) { return std::pow(1 + u, real(k)); };
  const auto down = [&](std::size_t k) { return std::pow(1 - u, real(k)); };
  std::vector<Real> t(N), D(N);
  for (std::size_t p = 0; p < n; ++p) {
    Real z = 0, A = 0;
    for (std::size_t j = 0; j < HD; ++j) {
      const Real product = Real{in.q[j]} * Real{in.keys[p * HD + j]};
      z += product;
      A += std::fabs(product);
    }
    const Real s = Real{in.scale} * z;
    const Real D0 = scale * A * ((1 + Real{e.u_q}) * (1 + Real{e.u_k}) * up(e.h_q + e.r) - 1) +
                    (scale * real(HD) * (lambda + plus) * up(e.h_q) + real(e.r) * lambda) * up(e.r);
    t[p] = s;
    D[p] = D0;
    if (c == 0) continue;
    t[p] = c * std::tanh(s / c);
    const Real tanh_factor = (1 + Real{e.tau}) * (1 + u);
    const Real reach = std::fabs(s) + D0;
    D[p] = tanh_factor * (D0 + (up(e.g_c) - 1) * reach + c * lambda * (1 + real(e.g_c - 1) * (1 + u) * reach)) +
           (tanh_factor - 1) * std::fabs(t[p]) + c * Real{e.omega_tanh} * (1 + u) + lambda;
  }
  if (sink) {
    t[n] = *in.sink;
    D[n] = std::fabs(t[n]) * (up(e.r_sigma) - 1) + real(e.r_sigma) * lambda * up(e.r_sigma);
  }
  Real m_plus = -INFINITY, m_minus = -INFINITY;
  for (std::size_t p = 0; p < N; ++p) m_plus = std::max(m_plus, t[p] + D[p]);
  for (std::size_t p = 0; p < n; ++p) m_minus = std::max(m_minus, t[p] - D[p]);
  Real S_min = 0, K = 0, H = 0;
  for (const Real x : t) S_min += std::exp(x - m_plus);
  const Real steps = real(e.rescalings) + 1, epsilon = e.epsilon, omega = e.omega;
  std::vector<Real> w(N), B(N);
  for (std::size_t p = 0; p < N; ++p) {
    w[p] = std::exp(t[p] - m_plus) / S_min;
    B[p] = D[p] + u * (std::max(m_plus - t[p], t[p] - m_minus) + D[p]) + steps * (epsilon / (1 - epsilon) + plus);
    K += w[p] * std::exp(B[p]);
    H += w[p] * std::exp(-B[p]);
  }
  const std::size_t L = e.rescalings;
  const Real C = 1 / down(e.h_s + L);
  const Real F = 1 / (down(1 + e.h_v + L + e.g) * (1 - Real{e.u_P}) * (1 - Real{e.u_v}));
  const Real G = std::pow(1 + epsilon + omega, real(L)), Lambda = steps * lambda + plus;
  const Real Delta = up(e.h_s + L) * G * real(N) * (steps * omega + Lambda);
  const Real S = down(e.h_s + L) * S_min * H - Delta;
  Real main = 0, T = 0, V = 0;
  for (std::size_t p = 0; p < n; ++p) {
    const Real v = std::fabs(Real{in.values[p * HD + d]});
    const Real F_C = std::exp(B[p]) * F * C;
    main += w[p] * v * std::max(F_C / H - 1, 1 - 1 / (F_C * K));
    T += w[p] * v * F_C / H;
    V += v;
  }
  const Real narrow = e.lambda_P;
  const Real U = (T * Delta + F * G * (steps * (omega + narrow) * V + real(n) * Lambda)) / S +
                 F * ((lambda + narrow) * V + real(n) * Lambda + lambda);
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
    e.lambda_add = random.pick({0.0, 0x1p-12, 0x1p-126});
    e.u_q = random.pick({0.0, 0x1p-9});
    e.u_k = random.pick({0.0, 0x1p-11});
    e.u_v = random.pick({0.0, 0x1p-10});
    e.u_P = random.pick({0.0, 0x1p-9});
    e.lambda_P = random.pick({0.0, 0x1p-13});
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
  BOOST_TEST(e.lambda_add == 0);
  BOOST_TEST(e.u_q + e.u_k + e.u_v + e.u_P + e.lambda_P == 0);
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
