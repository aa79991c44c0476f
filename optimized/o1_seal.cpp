#include "optimized/o1_seal.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "optimized/buffer.hpp"
#include "optimized/exp_binary64.hpp"
#include "optimized/float_bits.hpp"
#include "optimized/float_environment.hpp"
#include "optimized/head_block.hpp"

namespace kvcert::optimized {
namespace {

// Every sum goes from left to right and begins with its first term, not with +0; nothing is contracted.

struct Work {
  Buffer<double> key_means;    // [m × HD]
  Buffer<double> query_means;  // [m × HD]
  Buffer<double> kernel;       // A [m × m], row b, column a
  Buffer<double> gram;         // G = AᵀA [m × m]
  Buffer<double> factor;       // L [m × m], lower
  Buffer<double> column;       // [m]
};

/// ⌊i · t / m⌋ without forming i · t; m² is memory, so i · (t mod m) does not wrap.
std::size_t segment_begin(std::size_t i, std::size_t t, std::size_t m) { return i * (t / m) + i * (t % m) / m; }

/// Means of the m segments of t rows.
void segment_means(const float* rows, std::size_t stride, std::size_t t, std::size_t m, std::size_t head_dim,
                   double* means) {
  for (std::size_t i = 0; i < m; ++i) {
    const std::size_t begin = segment_begin(i, t, m), end = segment_begin(i + 1, t, m);
    double* mean = means + i * head_dim;
    for (std::size_t d = 0; d < head_dim; ++d) mean[d] = static_cast<double>(rows[begin * stride + d]);
    for (std::size_t row = begin + 1; row < end; ++row)
      for (std::size_t d = 0; d < head_dim; ++d) mean[d] += static_cast<double>(rows[row * stride + d]);
    for (std::size_t d = 0; d < head_dim; ++d) mean[d] /= static_cast<double>(end - begin);
  }
}

/// A_ba = exp(⟨q̃_b, k̃_a⟩ · scale). False where one is not finite.
bool exponentials(const SealTask& task, Work& work) {
  const std::size_t m = task.landmarks, head_dim = task.head_dim;
  for (std::size_t b = 0; b < m; ++b) {
    for (std::size_t a = 0; a < m; ++a) {
      const double* q = work.query_means.data() + b * head_dim;
      const double* k = work.key_means.data() + a * head_dim;
      double sum = q[0] * k[0];
      for (std::size_t d = 1; d < head_dim; ++d) sum += q[d] * k[d];
      const double value = exp_binary64(sum * static_cast<double>(task.scale));
      if (!(value <= std::numeric_limits<double>::max())) return false;  // +∞ or NaN
      work.kernel.data()[b * m + a] = value;
    }
  }
  return true;
}

/// G_ac = Σ_b A_ba · A_bc.
void gram_matrix(std::size_t m, Work& work) {
  const double* A = work.kernel.data();
  double* G = work.gram.data();
  for (std::size_t a = 0; a < m; ++a) {
    double* row = G + a * m;
    for (std::size_t c = 0; c < m; ++c) row[c] = A[a] * A[c];
    for (std::size_t b = 1; b < m; ++b)
      for (std::size_t c = 0; c < m; ++c) row[c] += A[b * m + a] * A[b * m + c];
  }
}

/// L of G + λI; false where a pivot is not positive and finite.
bool cholesky(std::size_t m, double lambda, Work& work) {
  const double* G = work.gram.data();
  double* L = work.factor.data();
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double t = G[i * m + j];
      if (i == j) t += lambda;
      for (std::size_t k = 0; k < j; ++k) t -= L[i * m + k] * L[j * m + k];
      if (i != j) {
        L[i * m + j] = t / L[j * m + j];
        continue;
      }
      if (!(t > 0 && t <= std::numeric_limits<double>::max())) return false;
      L[i * m + i] = std::sqrt(t);
    }
  }
  return true;
}

bool factorize(std::size_t m, Work& work) {
  const double* G = work.gram.data();
  double trace = G[0];
  for (std::size_t a = 1; a < m; ++a) trace += G[a * m + a];
  const double mean = trace / static_cast<double>(m);  // no NaN: a sum of squares
  double lambda = 1e-6 * std::max(mean, std::numeric_limits<double>::min());
  for (int attempt = 0; attempt < 13; ++attempt, lambda *= 10)
    if (cholesky(m, lambda, work)) return true;
  return false;
}

/// M = (AᵀA + λI)⁻¹ Aᵀ, column by column: row b of A is column b of Aᵀ. False where a binary32 of it is not finite.
bool solve(std::size_t m, Work& work, float* mixing) {
  const double* L = work.factor.data();
  double* x = work.column.data();
  for (std::size_t b = 0; b < m; ++b) {
    for (std::size_t i = 0; i < m; ++i) {
      double t = work.kernel.data()[b * m + i];
      for (std::size_t k = 0; k < i; ++k) t -= L[i * m + k] * x[k];
      x[i] = t / L[i * m + i];
    }
    for (std::size_t i = m; i-- > 0;) {
      double t = x[i];
      for (std::size_t k = i + 1; k < m; ++k) t -= L[k * m + i] * x[k];
      x[i] = t / L[i * m + i];
    }
    for (std::size_t a = 0; a < m; ++a) {
      const auto rounded = static_cast<float>(x[a]);
      if (!is_finite(rounded)) return false;
      mixing[a * m + b] = rounded;
    }
  }
  return true;
}

/// Not inlined, so that nothing of it can move out of the caller's FloatEnvironment.
[[gnu::noinline]] bool seal_all(const SealTask& task, Work& work, float* key_landmarks, float* query_landmarks,
                                float* mixing) {
  const std::size_t m = task.landmarks;
  const auto round_to = [&](const Buffer<double>& means, float* to) {
    std::ranges::transform(means.view(), to, [](double mean) { return static_cast<float>(mean); });
  };
  segment_means(task.keys, task.head_dim, task.rows, m, task.head_dim, work.key_means.data());
  round_to(work.key_means, key_landmarks);
  for (std::size_t head = 0; head < task.heads; ++head) {
    segment_means(task.queries + head * task.head_dim, task.query_stride, task.rows, m, task.head_dim,
                  work.query_means.data());
    round_to(work.query_means, query_landmarks + head * m * task.head_dim);
    if (!exponentials(task, work)) return false;
    gram_matrix(m, work);
    if (!factorize(m, work) || !solve(m, work, mixing + head * m * m)) return false;
  }
  return true;
}

}  // namespace

bool seal_landmarks(const SealTask& task, float* key_landmarks, float* query_landmarks, float* mixing) {
  const std::size_t m = task.landmarks;
  const std::size_t means = checked_product(m, task.head_dim), square = checked_product(m, m);
  Work work{Buffer<double>(means), Buffer<double>(means), Buffer<double>(square),
            Buffer<double>(square), Buffer<double>(square), Buffer<double>(m)};
  const FloatEnvironment standard;
  return seal_all(task, work, key_landmarks, query_landmarks, mixing);
}

}  // namespace kvcert::optimized
