// Attention of some query heads over the visible rows of their KV head, by one ISA's kernels.
#pragma once

#include <cstddef>
#include <span>

#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized {

/// Checked arguments; HD = head_dim. Arrays may have any 4-byte alignment, outputs overlap nothing.
struct AttendTask {
  const kernels::Table* kernels;
  std::span<const float> q;      ///< [heads × HD], any bits
  std::size_t heads;             ///< ≥ 1
  std::size_t head_dim;          ///< ≥ 1
  const float* keys;             ///< [rows × HD]; rows before first are not read
  const float* values;           ///< [rows × HD]; likewise
  std::size_t first;             ///< < rows
  std::size_t rows;              ///< ≥ 1
  float scale;                   ///< finite
  bool capped;                   ///< whether there is a soft cap
  float softcap;                 ///< then finite and > 0
  const float* sinks;            ///< nullptr or [heads]
  float* out;                    ///< [heads × HD]
  std::span<float> acc;          ///< any length; acc[p] += probability for visible p inside it
  std::span<float> probabilities;  ///< empty, or [rows] with heads = 1: head 0's, +0 before first
};

/// Runs in the default floating-point environment. K and V are each streamed once for every 64 heads: beyond that,
/// which no model has in one group, they are streamed again and the scratch stays bounded.
///
/// The scratch belongs to the calling thread: min(heads, 64) rows of probabilities, each of the visible rows rounded up
/// to 16, 4 bytes each. It grows to the largest need met so far, lives until the thread ends, and is only taken from
/// the allocator when it grows. Throws std::bad_alloc, and has then written nothing.
void attend(const AttendTask& task);

/// acc[i] += row[i], NaN canonical, in the default floating-point environment. row may overlap acc at or after its
/// begin.
void add_row(const kernels::Table& kernels, std::span<float> acc, std::span<const float> row);

}  // namespace kvcert::optimized
