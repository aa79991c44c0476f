// Attending: check, compute the canonical answer beside everything, then write.
#include <algorithm>

#include "reference/binary32.hpp"
#include "reference/checks.hpp"
#include "reference/evaluate.hpp"
#include "reference/layer_kv_cache.hpp"

namespace kvcert::reference {

namespace {

constexpr std::size_t all_rows = SIZE_MAX;

/// total[i] += mass[i] for as many as both have, ascending.
void accumulate(std::span<float> total, std::span<const float> mass) {
  const Binary32Section section;
  for (std::size_t i = 0; i < std::min(total.size(), mass.size()); ++i) {
    total[i] = (Binary32::of(total[i]) + Binary32::of(mass[i])).carrier();
  }
}

Result<void> check_scalars(const Query& query) {
  const auto bits = [](float value) { return Binary32::of(value).bits(); };
  if (!Binary32::of(query.scale).is_finite()) {
    return refuse(ErrorCode::invalid_argument, 0, bits(query.scale),
                  sentence("scale is not finite (bits ", bits(query.scale), ")"));
  }
  const Binary32 softcap = Binary32::of(query.softcap);
  if (!softcap.is_finite() || softcap < Binary32()) {
    return refuse(ErrorCode::invalid_argument, 0, bits(query.softcap),
                  sentence("softcap is neither 0 nor positive and finite (bits ", bits(query.softcap), ")"));
  }
  return {};
}

std::unexpected<Error> refuse_overlap(const char* output, const char* other) {
  return refuse(ErrorCode::invalid_argument, 0, 0, sentence(output, " overlaps ", other));
}

}  // namespace

bool LayerKvCache::overlaps_layer(std::span<const float> output) const {
  const auto meets = [&](const std::vector<float>& storage) { return overlap(output, std::span(storage)); };
  return meets(sinks_) || meets(state_.importance) || meets(state_.linear_state) ||
         std::ranges::any_of(state_.heads,
                             [&](const HeadRows& head) { return meets(head.keys) || meets(head.values); });
}

Result<void> LayerKvCache::check_query(const Query& query, std::span<float> out, std::span<float> acc) const {
  const std::size_t head_dim = geometry_.head_dim;
  if (auto exists = check_head(query.kv_head, geometry_); !exists) return exists;
  if (query.q_group.size() % head_dim != 0) {
    return refuse(ErrorCode::shape_mismatch, head_dim, query.q_group.size(),
                  sentence("q_group has ", query.q_group.size(), " floats, which is no multiple of head_dim ",
                           head_dim));
  }
  if (auto fits = check_length("out", out.size(), query.q_group.size(), "the length of q_group"); !fits) return fits;
  if (!query.sinks.empty()) {
    const std::size_t heads = query.q_group.size() / head_dim;
    if (auto fits = check_length("sinks", query.sinks.size(), heads, "the number of query heads"); !fits) return fits;
  }
  if (auto fits = check_scalars(query); !fits) return fits;

  const std::span<const float> output = out;
  const std::span<const float> accumulator = acc;
  if (overlap(output, accumulator)) return refuse_overlap("out", "the accumulator");
  if (overlap(output, query.q_group)) return refuse_overlap("out", "q_group");
  if (overlap(output, query.sinks)) return refuse_overlap("out", "sinks");
  if (overlap(accumulator, query.q_group)) return refuse_overlap("the accumulator", "q_group");
  if (overlap(accumulator, query.sinks)) return refuse_overlap("the accumulator", "sinks");
  if (overlaps_layer(output)) return refuse_overlap("out", "the layer");
  if (overlaps_layer(accumulator)) return refuse_overlap("the accumulator", "the layer");
  return {};
}

Result<Attended> LayerKvCache::attend(std::span<const float> q, std::size_t kv_head) const {
  return or_out_of_memory([&]() -> Result<Attended> {
    if (auto exists = check_head(kv_head, geometry_); !exists) return handed_on(exists);
    if (auto fits = check_length("q", q.size(), geometry_.head_dim, "head_dim"); !fits) return handed_on(fits);
    const Query query{.q_group = q, .kv_head = kv_head, .scale = default_scale(geometry_.head_dim)};
    const HeadRows& head = state_.heads[kv_head];
    GroupAnswer answer = canonical_attend_group(query, head.keys, head.values, geometry_.head_dim, all_rows);
    return Attended{std::move(answer.output), std::move(answer.probabilities)};
  });
}

Result<void> LayerKvCache::attend_group(const Query& query, std::span<float> out, std::span<float> acc) const {
  return attend_group_upto(query, all_rows, out, acc);
}

Result<void> LayerKvCache::attend_group_upto(const Query& query, std::size_t upto, std::span<float> out,
                                             std::span<float> acc) const {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto accepted = check_query(query, out, acc); !accepted) return accepted;
    const HeadRows& head = state_.heads[query.kv_head];
    const GroupAnswer answer = canonical_attend_group(query, head.keys, head.values, geometry_.head_dim, upto);

    // From here on nothing fails.
    std::ranges::copy(answer.output, out.begin());
    const std::size_t visible = answer.rows - answer.first;
    if (visible == 0 || answer.first >= acc.size()) return {};
    const std::span<float> visible_acc = acc.subspan(answer.first);
    for (std::size_t from = 0; from < answer.probabilities.size(); from += visible) {  // one query head each, ascending
      accumulate(visible_acc, std::span(answer.probabilities).subspan(from, visible));
    }
    return {};
  });
}

Result<void> LayerKvCache::accumulate_imp(std::span<const float> probabilities) {
  return or_out_of_memory([&]() -> Result<void> {
    if (probabilities.size() > state_.importance.size()) {
      return refuse(ErrorCode::shape_mismatch, state_.importance.size(), probabilities.size(),
                    sentence("probabilities has ", probabilities.size(), " entries, but there are ",
                             state_.importance.size(), " positions"));
    }
    // A view of importance itself is welcome: it starts at or after importance[0], so going up, an entry is read before
    // it is written to.
    accumulate(state_.importance, probabilities);
    return {};
  });
}

}  // namespace kvcert::reference
