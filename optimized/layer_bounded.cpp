// The ring of a bounded layer.
#include <algorithm>
#include <string>
#include <utility>

#include "optimized/attend_bounded.hpp"
#include "optimized/failure.hpp"
#include "optimized/float_bits.hpp"
#include "optimized/layer_checks.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "optimized/overlap.hpp"
#include "optimized/stable_input.hpp"

namespace kvcert::optimized {

Result<void> LayerKvCache::install_bounded(std::size_t window) {
  return catching_memory([&]() -> Result<void> {
    if (auto pristine = check_pristine("install_bounded", true); !pristine) return pristine;
    const std::size_t row = geometry_.num_kv_heads * geometry_.head_dim;
    if (window == 0) return failure(ErrorCode::invalid_argument, 1, 0, "window is at least 1");
    if (window > max_count / row)
      return failure(ErrorCode::invalid_argument, max_count / row, window,
                     "num_kv_heads x window x head_dim exceeds 2^63 - 1");
    Buffer<std::uint8_t> all(geometry_.num_kv_heads);
    std::ranges::fill(all.view(), std::uint8_t{1});
    data_.ring.emplace(Ring(geometry_, window));
    data_.kind = WireKind::bounded;
    data_.rowless_alive.swap(all);
    data_.rows.release();
    return {};
  });
}

Result<void> LayerKvCache::check_bounded_step(std::span<const float> q, std::span<const float> k,
                                              std::span<const float> v, const BoundedSinks& sinks, const Rope& rope, float scale,
                                              std::size_t num_heads, std::span<float> out) const {
  const std::size_t head_dim = geometry_.head_dim;
  const std::size_t row = geometry_.num_kv_heads * head_dim;
  if (num_heads == 0 || num_heads % geometry_.num_kv_heads != 0)
    return failure(ErrorCode::shape_mismatch, geometry_.num_kv_heads, num_heads,
                   std::to_string(num_heads) + " query heads, a positive multiple of " +
                       std::to_string(geometry_.num_kv_heads) + " expected");
  const bool countable = num_heads <= max_count / head_dim;
  if (countable && q.size() != num_heads * head_dim) return wrong_length("q", num_heads * head_dim, q.size());
  if (k.size() != row) return wrong_length("k", row, k.size());
  if (v.size() != row) return wrong_length("v", row, v.size());
  if (sinks.keys.size() % row != 0)
    return failure(ErrorCode::shape_mismatch, row, sinks.keys.size(),
                   "sink keys have " + std::to_string(sinks.keys.size()) + " elements, a multiple of " +
                       std::to_string(row) + " expected");
  if (sinks.values.size() != sinks.keys.size())
    return wrong_length("sink values", sinks.keys.size(), sinks.values.size());
  if (rope.window() != data_.window())
    return failure(ErrorCode::shape_mismatch, data_.window(), rope.window(), "the rope is of another window");
  if (rope.half() > head_dim / 2)
    return failure(ErrorCode::shape_mismatch, head_dim / 2, rope.half(), "the rope turns more pairs than head_dim has");
  if (countable && out.size() != num_heads * head_dim) return wrong_length("out", num_heads * head_dim, out.size());

  if (!countable)
    return failure(ErrorCode::invalid_argument, max_count / head_dim, num_heads,
                   "num_heads x head_dim exceeds 2^63 - 1");
  if (!is_finite(scale)) return failure(ErrorCode::invalid_argument, 0, 0, "scale is not finite");
  for (const auto input : {q, k, v, sinks.keys, sinks.values, rope.cos(), rope.sin()})
    if (overlap(out, input)) return failure(ErrorCode::invalid_argument, 0, 0, "out overlaps an input");
  if (overlaps_layer(out)) return failure(ErrorCode::invalid_argument, 0, 0, "out overlaps the layer");
  if (seq_len() == max_count)
    return failure(ErrorCode::counter_exhausted, 0, 1, "seq_len would exceed 2^63 - 1");
  return {};
}

Result<void> LayerKvCache::bounded_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                                        const BoundedSinks& sinks, const Rope& rope, float scale, std::size_t num_heads,
                                        std::span<float> out) {
  return catching_memory([&]() -> Result<void> {
    if (state() != LayerState::bounded) return wrong_state("bounded_step", state());
    if (auto valid = check_bounded_step(q, k, v, sinks, rope, scale, num_heads, out); !valid) return valid;
    Ring& ring = *data_.ring;
    const auto in_ring = [&ring](std::span<const float> input) {
      return overlap(input, std::as_const(ring).keys()) || overlap(input, std::as_const(ring).values());
    };
    const StableInput query(q, in_ring(q)), key(k, in_ring(k)), value(v, in_ring(v));
    const StableInput sink_keys(sinks.keys, in_ring(sinks.keys)), sink_values(sinks.values, in_ring(sinks.values));
    const BoundedTask task{.kernels = kernels_,
                           .geometry = geometry_,
                           .q = query.data(),
                           .heads = num_heads,
                           .sinks = {.keys = sink_keys.view(), .values = sink_values.view()},
                           .rope = &rope,
                           .scale = scale,
                           .out = out.data()};
    reserve_bounded(task, ring);
    ring.insert(key.data(), value.data());
    attend_bounded(task, ring);
    return {};
  });
}

Result<std::optional<RingSnapshot>> LayerKvCache::bounded_snapshot() const {
  return catching_memory([&]() -> Result<std::optional<RingSnapshot>> {
    if (!data_.ring) return std::nullopt;
    return data_.ring->snapshot();
  });
}

Result<void> LayerKvCache::bounded_restore(const RingSnapshot& saved) {
  return catching_memory([&]() -> Result<void> {
    if (state() != LayerState::bounded) return wrong_state("bounded_restore", state());
    if (saved.geometry() != geometry_ || saved.window() != data_.window())
      return failure(ErrorCode::shape_mismatch, data_.window(), saved.window(),
                     "the snapshot is of another geometry or ring size");
    data_.ring->restore(saved);
    return {};
  });
}

std::span<const float> LayerKvCache::bounded_keys() const {
  if (!data_.ring) return {};
  return data_.ring->keys();
}

std::span<const float> LayerKvCache::bounded_values() const {
  if (!data_.ring) return {};
  return data_.ring->values();
}

std::uint64_t LayerKvCache::bounded_state_bytes() const {
  return data_.ring ? 4 * (2 * bounded_keys().size()) + 8 : 0;
}

}  // namespace kvcert::optimized
