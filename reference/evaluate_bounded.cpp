// The bounded step's attention over plain spans.
#include <algorithm>
#include <iterator>

#include "reference/binary32.hpp"
#include "reference/checks.hpp"
#include "reference/decide.hpp"
#include "reference/evaluate.hpp"

namespace kvcert::reference {

namespace {

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return Binary32::of(value).is_finite(); });
}

bool fits(const BoundedQuery& query, const BoundedWindow& ring) {
  const auto& [num_kv_heads, head_dim] = ring.geometry;
  const auto row = checked_product({num_kv_heads, head_dim});
  const auto floats = checked_product({num_kv_heads, ring.window, head_dim});
  const auto heads = checked_product({query.query_heads, head_dim});
  const auto entries = checked_product({ring.window, query.rope.half});
  return row && floats && heads && entries && *row != 0 && ring.window != 0 && ring.position != 0 &&
         query.query_heads != 0 && query.query_heads % num_kv_heads == 0 && query.q.size() == *heads &&
         ring.keys.size() == *floats && ring.values.size() == *floats && query.sinks.keys.size() % *row == 0 &&
         query.sinks.values.size() == query.sinks.keys.size() && query.rope.half <= head_dim / 2 &&
         query.rope.cos.size() == *entries && query.rope.sin.size() == *entries;
}

/// What query head h sees: its KV head's sinks, and the last min(T, W) rows, newest first.
BoundedHead head_of(const BoundedQuery& query, const BoundedWindow& ring, std::size_t h) {
  const auto& [num_kv_heads, head_dim] = ring.geometry;
  const std::size_t kv_head = h / (query.query_heads / num_kv_heads);
  const std::size_t sink_floats = query.sinks.keys.size() / num_kv_heads;  // [S × HD]
  BoundedHead head{.q = query.q.subspan(h * head_dim, head_dim),
                   .sink_keys = query.sinks.keys.subspan(kv_head * sink_floats, sink_floats),
                   .sink_values = query.sinks.values.subspan(kv_head * sink_floats, sink_floats),
                   .keys = {},
                   .values = {},
                   .rope = query.rope,
                   .scale = query.scale};
  const std::uint64_t visible = std::min<std::uint64_t>(ring.position, ring.window);
  for (std::uint64_t delta = 0; delta < visible; ++delta) {
    const std::uint64_t slot = (ring.position - 1 - delta) % ring.window;
    const std::size_t at = (kv_head * ring.window + slot) * head_dim;
    head.keys.push_back(ring.keys.subspan(at, head_dim));
    head.values.push_back(ring.values.subspan(at, head_dim));
  }
  return head;
}

bool in_exact_domain(const BoundedHead& head) {
  return all_finite(head.q) && all_finite(std::span(&head.scale, 1)) && all_finite(head.sink_keys) &&
         all_finite(head.sink_values) && all_finite(head.rope.cos) && all_finite(head.rope.sin) &&
         std::ranges::all_of(head.keys, all_finite) && std::ranges::all_of(head.values, all_finite);
}

}  // namespace

OutputAnswer canonical_bounded(const BoundedQuery& query, const BoundedWindow& ring) {
  OutputAnswer answer;
  if (!fits(query, ring)) return answer;
  const Binary32Section section;
  for (std::size_t h = 0; h < query.query_heads; ++h) {
    std::ranges::transform(attend_bounded<Binary32>(head_of(query, ring, h)), std::back_inserter(answer.output),
                           &Binary32::carrier);
  }
  return answer;
}

std::optional<OutputAnswer> exact_bounded(const BoundedQuery& query, const BoundedWindow& ring) {
  OutputAnswer answer;
  if (!fits(query, ring)) return answer;
  const ExponentRange range = ExponentRange::widest();
  for (std::size_t h = 0; h < query.query_heads; ++h) {
    const BoundedHead head = head_of(query, ring, h);
    if (!in_exact_domain(head)) return std::nullopt;
    const auto entries =
        decide_all([&]<class Real>() { return std::optional(attend_bounded<Real>(head)); }, answer.ties);
    if (!entries) return std::nullopt;  // no input is known to come here
    std::ranges::copy(*entries, std::back_inserter(answer.output));
  }
  return answer;
}

}  // namespace kvcert::reference
