// Sealing: from a prefill's keys and queries to landmarks and M, in the order of docs/arithmetic.md. On Binary64 these are
// the canonical bits; the judge of a seal runs the first half on enclosures.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvcert/storage.hpp"

namespace kvcert::reference {

/// Whether t rows are too few for a far field: t ≤ w + sink + 8, a sum that may be beyond any t.
inline bool o1_stays_exact(const O1Config& config, std::size_t t) {
  if (t <= o1_boundary || t - o1_boundary <= config.sink) return true;
  return t - o1_boundary - config.sink <= config.window;
}

/// How many landmarks a prefill of t rows gets, of at most m ≥ 4.
inline std::size_t landmarks_for(std::size_t t, std::size_t m) { return std::clamp<std::size_t>(t / 8, 4, m); }

/// Rows [t] of [HD] that lie `stride` floats apart.
struct StridedRows {
  std::span<const float> floats;
  std::size_t stride;
  std::size_t head_dim;

  std::span<const float> operator[](std::size_t i) const { return floats.subspan(i * stride, head_dim); }
};

/// Landmarks [m × HD]: row i is the mean of rows ⌊i·t/m⌋ … ⌊(i+1)·t/m⌋ − 1.
template <class Real>
std::vector<Real> segment_means(const StridedRows& rows, std::size_t t, std::size_t m) {
  std::vector<Real> means;
  for (std::size_t i = 0; i < m; ++i) {
    const std::size_t from = i * t / m;
    const std::size_t end = (i + 1) * t / m;
    for (std::size_t d = 0; d < rows.head_dim; ++d) {
      Real sum = Real::of(rows[from][d]);
      for (std::size_t row = from + 1; row < end; ++row) sum = sum + Real::of(rows[row][d]);
      means.push_back(sum / Real::integer(static_cast<std::int64_t>(end - from)));
    }
  }
  return means;
}

/// A [m × m], row b, column a: exp(scale · ⟨q̃_b, k̃_a⟩).
template <class Real>
std::vector<Real> landmark_kernel(const std::vector<Real>& Q, const std::vector<Real>& K, std::size_t m, float scale) {
  const std::size_t head_dim = K.size() / m;
  std::vector<Real> A;
  for (std::size_t b = 0; b < m; ++b) {
    for (std::size_t a = 0; a < m; ++a) {
      Real sum = Q[b * head_dim] * K[a * head_dim];
      for (std::size_t d = 1; d < head_dim; ++d) sum = sum + Q[b * head_dim + d] * K[a * head_dim + d];
      A.push_back(exp(sum * Real::of(scale)));
    }
  }
  return A;
}

/// G = AᵀA [m × m].
template <class Real>
std::vector<Real> gram(const std::vector<Real>& A, std::size_t m) {
  std::vector<Real> G;
  for (std::size_t a = 0; a < m; ++a) {
    for (std::size_t c = 0; c < m; ++c) {
      Real sum = A[a] * A[c];
      for (std::size_t b = 1; b < m; ++b) sum = sum + A[b * m + a] * A[b * m + c];
      G.push_back(sum);
    }
  }
  return G;
}

/// (Σ_a G_aa) / m.
template <class Real>
Real mean_diagonal(const std::vector<Real>& G, std::size_t m) {
  Real sum = G[0];
  for (std::size_t a = 1; a < m; ++a) sum = sum + G[a * m + a];
  return sum / Real::integer(static_cast<std::int64_t>(m));
}

/// L [m × m], lower, with L·Lᵀ = G + λI; nullopt where a pivot is not in (0, ∞). Source: Higham 2002, algorithm 10.2.
template <class Real>
std::optional<std::vector<Real>> cholesky(const std::vector<Real>& G, const Real& lambda, std::size_t m) {
  std::vector<Real> L(m * m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      Real t = G[i * m + j];
      if (i == j) t = t + lambda;
      for (std::size_t k = 0; k < j; ++k) t = t - L[i * m + k] * L[j * m + k];
      if (i == j) {
        if (!(Real() < t) || !t.is_finite()) return std::nullopt;
        L[i * m + i] = sqrt(t);
      } else {
        L[i * m + j] = t / L[j * m + j];
      }
    }
  }
  return L;
}

/// x [m] with L·Lᵀ·x = b: forward, then back.
template <class Real>
std::vector<Real> solve(const std::vector<Real>& L, std::vector<Real> b, std::size_t m) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] = b[i] - L[i * m + k] * b[k];
    b[i] = b[i] / L[i * m + i];
  }
  for (std::size_t i = m; i-- > 0;) {
    for (std::size_t k = i + 1; k < m; ++k) b[i] = b[i] - L[k * m + i] * b[k];
    b[i] = b[i] / L[i * m + i];
  }
  return b;
}

inline constexpr int seal_attempts = 13;  ///< λ, and 12 times tenfold

/// L of G + λI with λ = 1e-6 · mean diag(G), tenfold while a pivot fails; nullopt where the last attempt fails too.
template <class Real>
std::optional<std::vector<Real>> regularized_factor(const std::vector<Real>& G, std::size_t m) {
  const Real mean = mean_diagonal(G, m);
  Real lambda = Real::millionth() * (mean < Real::smallest_normal() ? Real::smallest_normal() : mean);
  std::optional<std::vector<Real>> L = cholesky(G, lambda, m);
  for (int attempt = 1; attempt < seal_attempts && !L; ++attempt) {
    lambda = lambda * Real::integer(10);
    L = cholesky(G, lambda, m);
  }
  return L;
}

/// M [m × m], row a, column b: (AᵀA + λI)⁻¹Aᵀ; nullopt where there is no L.
template <class Real>
std::optional<std::vector<Real>> regularized_inverse(const std::vector<Real>& A, std::size_t m) {
  const std::optional<std::vector<Real>> L = regularized_factor(gram(A, m), m);
  if (!L) return std::nullopt;
  std::vector<Real> M(m * m);
  for (std::size_t b = 0; b < m; ++b) {
    std::vector<Real> column;  // of Aᵀ: row b of A
    for (std::size_t a = 0; a < m; ++a) column.push_back(A[b * m + a]);
    column = solve(*L, std::move(column), m);
    for (std::size_t a = 0; a < m; ++a) M[a * m + b] = column[a];
  }
  return M;
}

}  // namespace kvcert::reference
