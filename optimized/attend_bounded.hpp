// Attention of every query head over trained sinks and the ring, by one ISA's kernels.
#pragma once

#include <cstddef>
#include <span>

#include "kvcert/storage.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/ring.hpp"
#include "optimized/rope.hpp"

namespace kvcert::optimized {

/// Checked arguments; outputs overlap nothing.
struct BoundedTask {
  const kernels::Table* kernels;
  Geometry geometry;
  const float* q;       ///< [NH × HD], any bits
  std::size_t heads;    ///< NH, a positive multiple of KVH
  BoundedSinks sinks;   ///< [KVH][S][HD] each
  const Rope* rope;     ///< of the ring's window, 2 · half ≤ HD
  float scale;          ///< finite
  float* out;           ///< [NH × HD]
};

/// Makes sure of memory for attend_bounded after one more insert, which then cannot fail. Throws std::bad_alloc.
void reserve_bounded(const BoundedTask& task, const Ring& ring);

/// The key at distance Δ meets the query rotated by Δ; sinks meet the query as it is. One softmax over sinks 0 … S − 1,
/// then the window, newest first. The ring holds a row. In the default floating-point environment.
void attend_bounded(const BoundedTask& task, const Ring& ring);

}  // namespace kvcert::optimized
