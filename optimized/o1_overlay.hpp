// The O(1) overlay of a layer: none, collecting queries, sealed into one state per KV group, or aborted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvcert/storage.hpp"
#include "optimized/buffer.hpp"
#include "optimized/o1_group.hpp"

namespace kvcert::optimized {

/// The rotated queries of the positions so far, [positions][NH × HD].
struct O1Trace {
  Buffer<float> floats;      ///< room for more than there is
  std::size_t positions = 0;
  std::size_t row = 0;       ///< NH × HD; 0 while undecided

  std::size_t used() const { return positions * row; }
  /// Throws std::bad_alloc, having changed nothing. q may point into the trace.
  void push(std::span<const float> q);
  /// Keeps the first min(positions, n); none leaves NH undecided.
  void keep(std::uint64_t n);
};

struct O1Overlay {
  enum class Phase : std::uint8_t { none, collecting, sealed, aborted };
  Phase phase = Phase::none;
  O1Config config = {};
  O1Trace trace;                ///< collecting
  std::vector<O1Group> groups;  ///< sealed: one per KV head
};

}  // namespace kvcert::optimized
