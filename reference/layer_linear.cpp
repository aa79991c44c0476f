// Linear layers: a recurrent vector in place of rows, and its tentative successor while a speculative step is unverified.
#include <utility>

#include "reference/checks.hpp"
#include "reference/layer_kv_cache.hpp"

namespace kvcert::reference {

namespace {

Result<void> check_counter(std::uint64_t seq_len, std::uint64_t more) {
  if (more <= max_count - seq_len) return {};
  return refuse(ErrorCode::counter_exhausted, max_count - seq_len, more,
                sentence(more, " more positions after ", seq_len, " would be over 2^63 - 1"));
}

}  // namespace

Result<void> LayerKvCache::linear_commit(std::span<const float> state, std::uint64_t positions) {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto allowed = check_state("linear_commit", {LayerState::linear}); !allowed) return allowed;
    if (auto fits = check_counter(state_.seq_len, positions); !fits) return fits;
    state_.linear_state = std::vector<float>(state.begin(), state.end());  // a copy first: it may be a view of the old one
    state_.seq_len += positions;
    return {};
  });
}

Result<void> LayerKvCache::linear_set_scratch(std::span<const float> scratch) {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto allowed = check_state("linear_set_scratch", {LayerState::linear}); !allowed) return allowed;
    state_.linear_scratch = std::vector<float>(scratch.begin(), scratch.end());
    return {};
  });
}

Result<void> LayerKvCache::linear_accept_scratch() {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto allowed = check_state("linear_accept_scratch", {LayerState::linear}); !allowed) return allowed;
    if (!state_.linear_scratch) return refuse(ErrorCode::wrong_state, 1, 0, "there is no scratch to accept");
    if (auto fits = check_counter(state_.seq_len, 1); !fits) return fits;
    state_.linear_state = std::move(*state_.linear_scratch);
    state_.linear_scratch.reset();
    state_.seq_len += 1;
    return {};
  });
}

Result<void> LayerKvCache::discard_linear_scratch() {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto allowed = check_state("discard_linear_scratch", {LayerState::linear}); !allowed) return allowed;
    state_.linear_scratch.reset();
    return {};
  });
}

}  // namespace kvcert::reference
