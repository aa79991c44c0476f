// The O(1) overlay of a layer.
#include <algorithm>
#include <string>
#include <utility>

#include "optimized/failure.hpp"
#include "optimized/layer_checks.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "optimized/overlap.hpp"
#include "optimized/stable_input.hpp"

namespace kvcert::optimized {

Result<void> LayerKvCache::o1_begin(const O1Config& config) {
  return catching_memory([&]() -> Result<void> {
    if (auto pristine = check_pristine("o1_begin", true); !pristine) return pristine;
    if (auto valid = check_o1_config(config); !valid) return valid;
    data_.o1.phase = O1Overlay::Phase::collecting;
    data_.o1.config = config;
    return {};
  });
}

Result<void> LayerKvCache::o1_push_q(std::span<const float> q) {
  return catching_memory([&]() -> Result<void> {
    if (state() != LayerState::collecting) return {};
    O1Trace& trace = data_.o1.trace;
    const std::size_t unit = geometry_.num_kv_heads * geometry_.head_dim;
    if (trace.row != 0 && q.size() != trace.row) return wrong_length("q", trace.row, q.size());
    if (q.empty() || q.size() % unit != 0)
      return failure(ErrorCode::shape_mismatch, unit, q.size(),
                     "q has " + std::to_string(q.size()) + " elements, a positive multiple of " + std::to_string(unit) +
                         " expected");
    trace.push(q);
    return {};
  });
}

Result<void> LayerKvCache::check_seal(std::size_t num_heads) const {
  const O1Trace& trace = data_.o1.trace;
  if (trace.positions != seq_len())
    return failure(ErrorCode::shape_mismatch, seq_len(), trace.positions, "the trace has not one entry per position");
  if (trace.row / geometry_.head_dim != num_heads)
    return failure(ErrorCode::shape_mismatch, trace.row / geometry_.head_dim, num_heads,
                   "the trace is of another number of query heads");
  for (std::size_t head = 0; head < geometry_.num_kv_heads; ++head)
    if (data_.rows.head_len(head) == 0)
      return failure(ErrorCode::invalid_argument, 1, 0, "KV head " + std::to_string(head) + " is dead");
  return {};
}

Result<bool> LayerKvCache::o1_seal(std::size_t num_heads) {
  return catching_memory([&]() -> Result<bool> {
    switch (state()) {
      case LayerState::aborted: return wrong_state("o1_seal", state());
      case LayerState::sealed: return true;
      case LayerState::plain:
      case LayerState::bounded:
      case LayerState::linear: return false;
      case LayerState::collecting: break;
    }
    O1Overlay& o1 = data_.o1;
    if (seq_len() <= last_exact_rows(o1.config)) return false;

    Buffer<std::uint8_t> alive(data_.rows.alive());
    std::vector<O1Group> groups;
    Result<void> sealed = check_seal(num_heads);
    if (sealed) groups.reserve(geometry_.num_kv_heads);
    const std::size_t heads = num_heads / geometry_.num_kv_heads;
    for (std::size_t head = 0; sealed && head < geometry_.num_kv_heads; ++head) {
      auto group = O1Group::build(o1.config, geometry_.head_dim, heads, data_.rows.keys(head).data(),
                                  data_.rows.values(head).data(), static_cast<std::size_t>(seq_len()),
                                  o1.trace.floats.data() + head * heads * geometry_.head_dim, o1.trace.row, kernels_);
      if (group)
        groups.push_back(std::move(*group));
      else
        sealed = std::unexpected(std::move(group.error()));
    }

    // Nothing fails from here on. Without a far field decoding must not go on as if it were exact: what is malformed
    // aborts.
    data_.counter = seq_len();
    o1.phase = sealed ? O1Overlay::Phase::sealed : O1Overlay::Phase::aborted;
    o1.groups = sealed ? std::move(groups) : std::vector<O1Group>();
    data_.rowless_alive.swap(alive);
    o1.trace = {};
    data_.rows.release();
    if (!sealed) return std::unexpected(std::move(sealed.error()));
    return true;
  });
}

Result<void> LayerKvCache::check_o1_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                                         std::size_t num_heads) const {
  const std::size_t row = geometry_.num_kv_heads * geometry_.head_dim;
  const std::size_t sealed_heads = geometry_.num_kv_heads * data_.o1.groups.front().heads();
  if (num_heads != sealed_heads)
    return failure(ErrorCode::shape_mismatch, sealed_heads, num_heads,
                   "the layer is sealed for another number of query heads");
  if (q.size() != num_heads * geometry_.head_dim) return wrong_length("q", num_heads * geometry_.head_dim, q.size());
  if (k.size() != row) return wrong_length("k", row, k.size());
  if (v.size() != row) return wrong_length("v", row, v.size());
  if (seq_len() == max_count) return failure(ErrorCode::counter_exhausted, 0, 1, "seq_len would exceed 2^63 - 1");
  return {};
}

Result<std::vector<float>> LayerKvCache::o1_step(std::span<const float> q, std::span<const float> k,
                                                 std::span<const float> v, std::size_t num_heads) {
  return catching_memory([&]() -> Result<std::vector<float>> {
    if (state() != LayerState::sealed) return wrong_state("o1_step", state());
    if (auto valid = check_o1_step(q, k, v, num_heads); !valid) return std::unexpected(valid.error());
    std::vector<O1Group>& groups = data_.o1.groups;
    const auto in_groups = [&groups](std::span<const float> input) {
      return std::ranges::any_of(groups, [&](const O1Group& group) { return group.overlaps(std::as_bytes(input)); });
    };
    const StableInput query(q, in_groups(q)), key(k, in_groups(k)), value(v, in_groups(v));
    std::vector<float> out(q.size());
    for (O1Group& group : groups) group.reserve();

    const std::size_t head_dim = geometry_.head_dim;
    for (std::size_t head = 0; head < groups.size(); ++head) {
      const std::size_t at = head * groups[head].heads() * head_dim;
      groups[head].insert_and_attend(query.data() + at, key.data() + head * head_dim, value.data() + head * head_dim,
                                     out.data() + at);
    }
    ++data_.counter;
    return out;
  });
}

std::optional<std::vector<O1GroupView>> LayerKvCache::o1_views() const {
  if (state() != LayerState::sealed) return std::nullopt;
  std::vector<O1GroupView> views;
  for (const O1Group& group : data_.o1.groups) {
    auto view = group.view();
    if (!view) return std::nullopt;
    views.push_back(std::move(*view));
  }
  return views;
}

std::uint64_t LayerKvCache::o1_memory_bytes() const {
  std::uint64_t floats = data_.o1.trace.used();
  for (const O1Group& group : data_.o1.groups) floats += group.view_floats();
  return 4 * floats;
}

}  // namespace kvcert::optimized
