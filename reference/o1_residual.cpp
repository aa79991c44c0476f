// The judge of a seal: M is computed by a Cholesky factorization whose backward error is bounded whatever the condition,
// so the residual is bounded a priori, entry by entry. Derivation: docs/arithmetic.md. Everything here is an enclosure.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "reference/binary32.hpp"
#include "reference/evaluate.hpp"
#include "reference/exact.hpp"
#include "reference/o1_seal.hpp"

namespace kvcert::reference {

namespace {

using Real = Exact<154>;  // 513 bits
using Matrix = std::vector<Real>;

/// γ_n = n·u / (1 − n·u), u = 2^−53: n roundings in a row. Source: Higham 2002, lemma 3.1.
Real gamma(std::size_t n) {
  const Real nu = Real::integer(static_cast<std::int64_t>(n)) * Real::power_of_two(-53);
  return nu / (Real::one() - nu);
}

/// More than a rounding to a subnormal binary64 can lose.
Real tiny() { return Real::power_of_two(-1074); }

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return Binary32::of(value).is_finite(); });
}

std::vector<float> magnitudes(std::span<const float> values) {
  std::vector<float> result;
  for (const float value : values) result.push_back(Binary32::from_bits(Binary32::of(value).bits() & 0x7FFFFFFF).carrier());
  return result;
}

/// The system (G + λI)·M = Aᵀ as real numbers, and how far from it the one may be that binary64 solved.
struct System {
  std::size_t m = 0;
  Matrix A, A_error;  ///< [m × m], row b, column a
  Matrix G, G_error;  ///< [m × m]
  Real mean, mean_error;  ///< of G's diagonal

  System(std::span<const float> keys, std::span<const float> queries, std::size_t head_dim, std::size_t landmarks,
         float scale)
      : m(landmarks) {
    const std::size_t t = keys.size() / head_dim;
    const std::vector<float> key_magnitudes = magnitudes(keys);
    const std::vector<float> query_magnitudes = magnitudes(queries);
    const auto means = [&](std::span<const float> rows) {
      return segment_means<Real>({rows, head_dim, head_dim}, t, m);
    };
    A = landmark_kernel(means(queries), means(keys), m, scale);

    // Exponents: a mean of c rows takes c roundings, a product one, a sum of HD at most HD − 1, the scale one.
    const Matrix K = means(key_magnitudes);
    const Matrix Q = means(query_magnitudes);
    const std::size_t longest = t / m + 1;
    const Real roundings = gamma(2 * longest + head_dim + 1);
    const Real factor = abs(Real::of(scale));
    for (std::size_t b = 0; b < m; ++b) {
      for (std::size_t a = 0; a < m; ++a) {
        Real products;
        Real lost = tiny();
        for (std::size_t d = 0; d < head_dim; ++d) {
          const Real& q = Q[b * head_dim + d];
          const Real& k = K[a * head_dim + d];
          products = products + q * k;
          lost = lost + (q + k + Real::integer(2)) * tiny();
        }
        const Real delta = factor * (products * roundings + lost) + tiny();
        const Real& exact = A[b * m + a];
        // exp is correctly rounded: one more u.
        A_error.push_back(exact * (exp(delta) * (Real::one() + Real::power_of_two(-53)) - Real::one()) + tiny());
      }
    }

    // AᵀA of numbers that are too large by their error, each sum of m products with m roundings.
    Matrix largest;
    for (std::size_t i = 0; i < A.size(); ++i) largest.push_back(A[i] + A_error[i]);
    G = gram(A, m);
    const Real growth = Real::one() + gamma(m);
    const Real lost = Real::integer(static_cast<std::int64_t>(m)) * tiny();
    Matrix G_largest = gram(largest, m);
    for (std::size_t i = 0; i < G.size(); ++i) {
      G_largest[i] = G_largest[i] * growth + lost;
      G_error.push_back(G_largest[i] - G[i]);
    }
    mean = mean_diagonal(G, m);
    mean_error = mean_diagonal(G_largest, m) * (Real::one() + gamma(m)) - mean + tiny();
  }
};

SealResidual judge(const System& system, const Matrix& M, int retries) {
  const std::size_t m = system.m;
  const Real millionth = Real::millionth();
  Real power = Real::one();
  for (int i = 0; i < retries; ++i) power = power * Real::integer(10);
  const Real lambda = millionth * power * system.mean;
  const Real lambda_largest = millionth * power * (system.mean + system.mean_error) * (Real::one() + gamma(14)) + tiny();
  const Real lambda_error = lambda_largest - lambda;

  // Cholesky: (Ĝ + λ̂I + E)·x̂ = b̂ with |E_ac| ≤ κ·d_a·d_c, d_a = √(Ĝ_aa + λ̂).
  const Real kappa = gamma(3 * m + 2) / (Real::one() - gamma(m + 2));
  Matrix d;
  for (std::size_t a = 0; a < m; ++a) {
    d.push_back(sqrt(system.G[a * m + a] + system.G_error[a * m + a] + lambda_largest));
  }
  const Real underflow = Real::integer(static_cast<std::int64_t>(m)) * Real::power_of_two(-1070);

  SealResidual found{.residual = 0, .bound = 0, .retries = retries, .within = true};
  double worst = -1;
  for (std::size_t b = 0; b < m; ++b) {
    Matrix rounding, largest;  // |x̂ − M| ≤ 2^−24·|M| + 2^−150, and |x̂|
    Real weighted, total;      // Σ_c d_c·|x̂_cb|, Σ_c |x̂_cb|
    for (std::size_t c = 0; c < m; ++c) {
      const Real magnitude = abs(M[c * m + b]);
      rounding.push_back(magnitude * Real::power_of_two(-24) + Real::power_of_two(-150));
      largest.push_back(magnitude + rounding[c]);
      weighted = weighted + d[c] * largest[c];
      total = total + largest[c];
    }
    for (std::size_t a = 0; a < m; ++a) {
      Real residual = lambda * M[a * m + b] - system.A[b * m + a];
      Real bound = lambda * rounding[a] + lambda_error * largest[a] + kappa * d[a] * weighted + system.A_error[b * m + a] +
                   underflow * (Real::one() + d[a]) * (Real::one() + total);
      for (std::size_t c = 0; c < m; ++c) {
        residual = residual + system.G[a * m + c] * M[c * m + b];
        bound = bound + system.G[a * m + c] * rounding[c] + system.G_error[a * m + c] * largest[c];
      }
      residual = abs(residual);
      found.within = found.within && certainly_at_most(residual, bound);
      const double share = (residual / bound).upper();
      if (share <= worst) continue;
      worst = share;
      found.residual = residual.upper();
      found.bound = bound.upper();
    }
  }
  return found;
}

}  // namespace

std::optional<SealResidual> seal_residual(std::span<const float> keys, std::span<const float> queries,
                                          const O1GroupView& view, std::size_t head) {
  const std::size_t m = view.m_eff;
  if (m == 0 || view.head_dim == 0 || head >= view.heads.size() || keys.size() != queries.size() ||
      keys.size() % view.head_dim != 0 || keys.size() / view.head_dim < m) {
    return std::nullopt;
  }
  const std::span<const float> M_bits = view.heads[head].M;
  if (M_bits.size() / m != m || M_bits.size() % m != 0 || !all_finite(keys) || !all_finite(queries) ||
      !all_finite(M_bits) || !all_finite(std::span(&view.scale, 1))) {
    return std::nullopt;
  }
  const ExponentRange range = ExponentRange::widest();
  const System system(keys, queries, view.head_dim, m, view.scale);
  Matrix M;
  for (const float element : M_bits) M.push_back(Real::of(element));

  // M does not say how often λ grew. The number of times that explains it best is the one.
  std::optional<SealResidual> best;
  for (int retries = 0; retries < seal_attempts; ++retries) {
    const SealResidual found = judge(system, M, retries);
    if (!best || found.residual * best->bound < best->residual * found.bound) best = found;
    if (best->within) break;
  }
  return best;
}

}  // namespace kvcert::reference
