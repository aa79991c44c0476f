// What a user would write instead: compiled for this machine, with everything -O3 allows.
#pragma once

#include <cstddef>

namespace kvcert::bench {

/// One KV head's attention at one position or at several, of which position i sees the first rows − positions + 1 + i.
struct Attention {
  std::size_t head_dim, fan_out, rows, positions;
  float scale;
  const float* k;  ///< [rows × head_dim]
  const float* v;
  const float* q;  ///< [positions × fan_out × head_dim]
  float* out;      ///< likewise
};

/// A loop per sum of the formula.
void plain_loops(const Attention& task);

/// Two matrix products and a softmax of arrays.
void with_eigen(const Attention& task);

}  // namespace kvcert::bench
