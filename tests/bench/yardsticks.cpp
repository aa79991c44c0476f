#include "tests/bench/yardsticks.hpp"

// g++ 12 takes the "any value" registers of its own AVX-512 header for somebody's mistake.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace kvcert::bench {

void plain_loops(const Attention& task) {
  static thread_local std::vector<float> p;
  p.resize(task.rows);
  for (std::size_t position = 0; position < task.positions; ++position) {
    const std::size_t rows = task.rows - task.positions + 1 + position;
    for (std::size_t head = 0; head < task.fan_out; ++head) {
      const float* q = task.q + (position * task.fan_out + head) * task.head_dim;
      float* out = task.out + (position * task.fan_out + head) * task.head_dim;
      float maximum = -std::numeric_limits<float>::infinity();
      for (std::size_t r = 0; r < rows; ++r) {
        float dot = 0;
        for (std::size_t d = 0; d < task.head_dim; ++d) dot += q[d] * task.k[r * task.head_dim + d];
        p[r] = dot * task.scale;
        maximum = std::max(maximum, p[r]);
      }
      float sum = 0;
      for (std::size_t r = 0; r < rows; ++r) sum += p[r] = std::exp(p[r] - maximum);
      std::fill_n(out, task.head_dim, 0.0F);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t d = 0; d < task.head_dim; ++d) out[d] += p[r] / sum * task.v[r * task.head_dim + d];
    }
  }
}

void with_eigen(const Attention& task) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Rows = Eigen::Map<const Matrix>;
  const auto index = [](std::size_t n) { return static_cast<Eigen::Index>(n); };
  const Rows k(task.k, index(task.rows), index(task.head_dim)), v(task.v, index(task.rows), index(task.head_dim));
  const Rows q(task.q, index(task.positions * task.fan_out), index(task.head_dim));
  static thread_local Matrix p;
  p.noalias() = q * k.transpose();
  for (std::size_t position = 0; position < task.positions; ++position) {
    const std::size_t rows = task.rows - task.positions + 1 + position;
    for (std::size_t head = 0; head < task.fan_out; ++head) {
      auto row = p.row(index(position * task.fan_out + head));
      auto seen = row.head(index(rows)).array();
      row.tail(index(task.rows - rows)).setZero();
      const float maximum = seen.maxCoeff();
      seen = ((seen - maximum) * task.scale).exp();
      seen /= seen.sum();
    }
  }
  Eigen::Map<Matrix>(task.out, index(task.positions * task.fan_out), index(task.head_dim)).noalias() = p * v;
}

}  // namespace kvcert::bench
