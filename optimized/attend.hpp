// Attention of the query heads of one KV group, at one position or several, over stored rows, by one ISA's kernels.
#pragma once

#include <cstddef>
#include <span>

#include "optimized/kernels/kernels.hpp"
#include "optimized/tensor_rows.hpp"

namespace kvcert::optimized {

/// Checked arguments; HD = head_dim. Arrays may have any 4-byte alignment, outputs overlap nothing. Position i sees
/// rows [max(first, end + i − window), end + i), without the middle term where window = 0; first < end.
struct AttendTask {
  const kernels::Table* kernels;
  std::span<const float> q;        ///< [positions][heads × HD], any bits
  std::size_t positions;           ///< ≥ 1
  std::size_t heads;               ///< ≥ 1
  std::size_t head_dim;            ///< ≥ 1
  StoredRows keys;                 ///< rows that no position sees may be read, never used
  StoredRows values;
  std::size_t first;
  std::size_t end;                 ///< ≥ 1
  std::size_t window;
  float scale;                     ///< finite
  bool capped;                     ///< whether there is a soft cap
  float softcap;                   ///< then finite and > 0
  const float* sinks;              ///< nullptr or [heads]
  float* out;                      ///< [positions][heads × HD]
  std::span<float> acc;            ///< any length; acc[p] += probability for visible p inside it, positions, then heads
  std::span<float> probabilities;  ///< empty, or [end] with one position and one head: its own, +0 before first
};

/// Runs in the default floating-point environment. K and V are each streamed once for every tile of 64 queries,
/// whatever positions and heads they belong to; a tile reads the rows that some query of it sees. While exponentials are
/// computed, the caches are asked for the beginning of V.
///
/// The scratch belongs to the calling thread: for at most 64 queries one row of probabilities each, of the rows of its
/// tile rounded up to 16, and a copy of the query, 4 bytes a number; int8 adds a few blocks. It grows to the largest need
/// met so far, lives until the thread ends, and is only taken from the allocator when it grows. Throws std::bad_alloc, and
/// has then written nothing.
void attend(const AttendTask& task);

/// acc[i] += row[i], NaN canonical, in the default floating-point environment. row may overlap acc at or after its
/// begin.
void add_row(const kernels::Table& kernels, std::span<float> acc, std::span<const float> row);

}  // namespace kvcert::optimized
