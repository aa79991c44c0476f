// The recurrent vector of a linear layer.
#include <string>
#include <utility>

#include "optimized/failure.hpp"
#include "optimized/layer_checks.hpp"
#include "optimized/layer_kv_cache.hpp"

namespace kvcert::optimized {
namespace {

Result<void> check_counts(std::uint64_t counter, std::uint64_t positions) {
  if (positions <= max_count - counter) return {};
  return failure(ErrorCode::counter_exhausted, max_count - counter, positions, "seq_len would exceed 2^63 - 1");
}

}  // namespace

// Vectors are copied before the old ones go: the argument may be a view of either.

Result<void> LayerKvCache::linear_commit(std::span<const float> vector, std::uint64_t positions) {
  return catching_memory([&]() -> Result<void> {
    if (state() != LayerState::linear) return wrong_state("linear_commit", state());
    if (auto counts = check_counts(data_.counter, positions); !counts) return counts;
    data_.recurrence.state = Buffer<float>(vector);
    data_.counter += positions;
    return {};
  });
}

Result<void> LayerKvCache::linear_set_scratch(std::span<const float> vector) {
  return catching_memory([&]() -> Result<void> {
    if (state() != LayerState::linear) return wrong_state("linear_set_scratch", state());
    Buffer<float> copy(vector);
    data_.recurrence.scratch = std::move(copy);
    return {};
  });
}

Result<void> LayerKvCache::linear_accept_scratch() {
  return catching_memory([&]() -> Result<void> {
    if (state() != LayerState::linear || !data_.recurrence.scratch)
      return wrong_state("linear_accept_scratch", state());
    if (auto counts = check_counts(data_.counter, 1); !counts) return counts;
    data_.recurrence.state = std::move(*data_.recurrence.scratch);
    data_.recurrence.scratch.reset();
    ++data_.counter;
    return {};
  });
}

Result<void> LayerKvCache::discard_linear_scratch() {
  return catching_memory([&]() -> Result<void> {
    if (state() != LayerState::linear) return wrong_state("discard_linear_scratch", state());
    data_.recurrence.scratch.reset();
    return {};
  });
}

std::optional<std::span<const float>> LayerKvCache::linear_scratch() const {
  if (!data_.recurrence.scratch) return std::nullopt;
  return data_.recurrence.scratch->view();
}

}  // namespace kvcert::optimized
