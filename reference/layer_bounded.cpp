// The bounded anchor: installing the ring, one step at a time, and copies of the ring alone.
#include <algorithm>
#include <utility>

#include "reference/binary32.hpp"
#include "reference/checks.hpp"
#include "reference/evaluate.hpp"
#include "reference/layer_kv_cache.hpp"

namespace kvcert::reference {

std::span<const float> LayerKvCache::bounded_keys() const {
  return state_.ring ? state_.ring->keys() : std::span<const float>();
}

std::span<const float> LayerKvCache::bounded_values() const {
  return state_.ring ? state_.ring->values() : std::span<const float>();
}

std::uint64_t LayerKvCache::bounded_state_bytes() const {
  return state_.ring ? 4 * (bounded_keys().size() + bounded_values().size()) + 8 : 0;  // and the counter
}

Result<void> LayerKvCache::install_bounded(std::size_t window) {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto unused = check_unused("install_bounded", true); !unused) return unused;
    if (window < 1) return refuse(ErrorCode::invalid_argument, 1, 0, "the ring's window is 0, but is at least 1");
    if (!checked_product({geometry_.num_kv_heads, window, geometry_.head_dim})) {
      return refuse(ErrorCode::invalid_argument, max_count, window,
                    sentence("num_kv_heads x window ", window, " x head_dim is over 2^63 - 1"));
    }
    state_.ring = Ring(geometry_, window);
    std::ranges::fill(state_.alive, std::uint8_t{1});
    kind_ = WireKind::bounded;
    return {};
  });
}

Result<void> LayerKvCache::check_bounded_step(std::span<const float> q, std::span<const float> k,
                                              std::span<const float> v, const BoundedSinks& sinks, const Rope& rope,
                                              float scale, std::size_t query_heads, std::span<const float> out) const {
  const auto& [num_kv_heads, head_dim] = geometry_;
  const std::size_t row = num_kv_heads * head_dim;
  if (query_heads == 0 || query_heads % num_kv_heads != 0) {
    return refuse(ErrorCode::shape_mismatch, num_kv_heads, query_heads,
                  sentence(query_heads, " query heads are no positive multiple of num_kv_heads ", num_kv_heads));
  }
  const auto query_floats = checked_product({query_heads, head_dim});
  if (query_floats) {
    if (auto fits = check_length("q", q.size(), *query_floats, "query_heads x head_dim"); !fits) return fits;
  }
  if (auto fits = check_length("k", k.size(), row, "num_kv_heads x head_dim"); !fits) return fits;
  if (auto fits = check_length("v", v.size(), row, "num_kv_heads x head_dim"); !fits) return fits;
  if (sinks.keys.size() % row != 0) {
    return refuse(ErrorCode::shape_mismatch, row, sinks.keys.size(),
                  sentence("the sinks' keys have ", sinks.keys.size(), " floats, which is no multiple of ", row));
  }
  if (auto fits = check_length("the sinks' values", sinks.values.size(), sinks.keys.size(), "that of their keys"); !fits) {
    return fits;
  }
  if (rope.window() != bounded_window()) {
    return refuse(ErrorCode::shape_mismatch, bounded_window(), rope.window(),
                  sentence("the rope's window is ", rope.window(), ", the ring's ", bounded_window()));
  }
  if (rope.half() > head_dim / 2) {
    return refuse(ErrorCode::shape_mismatch, head_dim / 2, rope.half(),
                  sentence("the rope turns ", rope.half(), " pairs, more than head_dim ", head_dim, " has"));
  }
  if (auto fits = check_length("out", out.size(), query_floats.value_or(out.size()), "query_heads x head_dim"); !fits) {
    return fits;
  }

  if (!query_floats) {
    return refuse(ErrorCode::invalid_argument, max_count, query_heads,
                  sentence(query_heads, " query heads times head_dim ", head_dim, " is over 2^63 - 1"));
  }
  if (!Binary32::of(scale).is_finite()) {
    return refuse(ErrorCode::invalid_argument, 0, Binary32::of(scale).bits(),
                  sentence("scale is not finite (bits ", Binary32::of(scale).bits(), ")"));
  }
  for (const std::span<const float> input : {q, k, v, sinks.keys, sinks.values, rope.cos(), rope.sin()}) {
    if (overlap(out, input)) return refuse_overlap("out", "an input");
  }
  if (overlaps_layer(out)) return refuse_overlap("out", "the layer");

  if (state_.seq_len == max_count) {
    return refuse(ErrorCode::counter_exhausted, 0, 1, "one more position would be over 2^63 - 1");
  }
  return {};
}

Result<void> LayerKvCache::bounded_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                                        const BoundedSinks& sinks, const Rope& rope, float scale,
                                        std::size_t query_heads, std::span<float> out) {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto allowed = check_state("bounded_step", {LayerState::bounded}); !allowed) return allowed;
    if (auto accepted = check_bounded_step(q, k, v, sinks, rope, scale, query_heads, out); !accepted) return accepted;

    // The next ring beside this one, which any input may be a view of.
    Ring next = *state_.ring;
    next.insert(state_.seq_len, k, v);
    const OutputAnswer answer = canonical_bounded(
        {.q = q, .query_heads = query_heads, .sinks = sinks, .rope = {rope.half(), rope.cos(), rope.sin()}, .scale = scale},
        {.geometry = geometry_,
         .window = next.window(),
         .position = state_.seq_len + 1,
         .keys = next.keys(),
         .values = next.values()});

    // From here on nothing fails.
    std::ranges::copy(answer.output, out.begin());
    state_.ring = std::move(next);
    state_.seq_len += 1;
    return {};
  });
}

Result<std::optional<LayerKvCache::RingSnapshot>> LayerKvCache::bounded_snapshot() const {
  return or_out_of_memory([&]() -> Result<std::optional<RingSnapshot>> {
    if (state() != LayerState::bounded) return std::nullopt;
    auto ring = std::make_shared<Ring>(*state_.ring);
    ring->forget_overwritten();
    RingSnapshot saved;
    saved.seq_len_ = state_.seq_len;
    saved.ring_ = std::move(ring);
    return saved;
  });
}

Result<void> LayerKvCache::bounded_restore(const RingSnapshot& saved) {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto allowed = check_state("bounded_restore", {LayerState::bounded}); !allowed) return allowed;
    if (!saved.ring_ || saved.ring_->geometry() != geometry_ || saved.ring_->window() != bounded_window()) {
      const std::size_t found = saved.ring_ ? saved.ring_->window() : 0;
      return refuse(ErrorCode::shape_mismatch, bounded_window(), found,
                    sentence("the snapshot's ring, of window ", found, ", is not of this layer's geometry and window ",
                             bounded_window()));
    }
    Ring copy = *saved.ring_;
    state_.ring = std::move(copy);
    state_.seq_len = saved.seq_len_;
    return {};
  });
}

}  // namespace kvcert::reference
