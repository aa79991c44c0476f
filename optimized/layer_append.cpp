// Appending rows and importance.
#include <string>

#include "optimized/attend.hpp"
#include "optimized/failure.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/layer_checks.hpp"
#include "optimized/layer_kv_cache.hpp"

namespace kvcert::optimized {

Result<void> LayerKvCache::check_rows(std::string_view operation) const {
  if (state() == LayerState::plain || state() == LayerState::collecting) return {};
  return wrong_state(operation, state());
}

Result<void> LayerKvCache::append(std::span<const float> k, std::span<const float> v, Alive alive) {
  return append_chunk(k, v, 1, alive);
}

Result<void> LayerKvCache::append_chunk(std::span<const float> k, std::span<const float> v, std::size_t n,
                                        Alive alive) {
  return catching_memory([&]() -> Result<void> {
    if (auto has_rows = check_rows("append"); !has_rows) return has_rows;
    const std::size_t row = geometry_.num_kv_heads * geometry_.head_dim;
    const bool countable = n <= max_count / row;
    if (countable && k.size() != n * row) return wrong_length("k", n * row, k.size());
    if (countable && v.size() != n * row) return wrong_length("v", n * row, v.size());
    if (!alive.empty() && alive.size() != geometry_.num_kv_heads)
      return wrong_length("alive", geometry_.num_kv_heads, alive.size());
    if (!countable)
      return failure(ErrorCode::invalid_argument, max_count / row, n, "n x num_kv_heads x head_dim exceeds 2^63 - 1");
    if (seq_len() != 0) {
      const auto fixed = data_.rows.alive();
      for (std::size_t head = 0; head < fixed.size(); ++head) {
        const bool given = alive.empty() || alive[head] != 0;
        if (given != (fixed[head] != 0))
          return failure(ErrorCode::alive_changed, fixed[head], given ? 1 : 0,
                         "KV head " + std::to_string(head) + (given ? " is dead" : " is alive") +
                             " in this sequence, as its first append said");
      }
    }
    if (n > max_count - seq_len())
      return failure(ErrorCode::counter_exhausted, max_count - seq_len(), n, "seq_len would exceed 2^63 - 1");
    if (n == 0) return {};
    return data_.rows.append(k.data(), v.data(), n, alive, *kernels_->int8);
  });
}

Result<void> LayerKvCache::accumulate_imp(std::span<const float> probabilities) {
  return catching_memory([&]() -> Result<void> {
    if (auto has_rows = check_rows("accumulate_imp"); !has_rows) return has_rows;
    if (probabilities.size() > seq_len())
      return wrong_length("probabilities, at most seq_len of them,", seq_len(), probabilities.size());
    if (!probabilities.empty()) add_row(*kernels_, data_.rows.importance(), probabilities);
    return {};
  });
}

}  // namespace kvcert::optimized
