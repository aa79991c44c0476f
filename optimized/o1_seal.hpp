// Landmarks and mixing matrices of a group, in binary64.
#pragma once

#include <cstddef>

namespace kvcert::optimized {

struct SealTask {
  std::size_t head_dim;
  std::size_t heads;         ///< HPK
  std::size_t rows;          ///< t ≥ landmarks
  std::size_t landmarks;     ///< m_eff ≥ 4
  float scale;
  const float* keys;         ///< [t × HD]
  const float* queries;      ///< head h at row i: queries + i · query_stride + h · HD
  std::size_t query_stride;
};

/// K̃ [m_eff × HD], Q̃ [HPK][m_eff × HD], M [HPK][m_eff × m_eff], each rounded to binary32 once. False where A, the
/// last pivot, or M as binary32 is not finite. In the default floating-point environment. Throws std::bad_alloc.
bool seal_landmarks(const SealTask& task, float* key_landmarks, float* query_landmarks, float* mixing);

}  // namespace kvcert::optimized
