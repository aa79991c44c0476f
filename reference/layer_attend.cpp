// Attending: check, compute the canonical answer beside everything, then write.
#include <algorithm>

#include "reference/binary32.hpp"
#include "reference/checks.hpp"
#include "reference/evaluate.hpp"
#include "reference/layer_kv_cache.hpp"

namespace kvcert::reference {

namespace {

constexpr std::size_t all_rows = SIZE_MAX;
constexpr std::initializer_list<LayerState> exact_states{LayerState::plain, LayerState::collecting};

/// total[i] += mass[i] for as many as both have, ascending.
void accumulate(std::span<float> total, std::span<const float> mass) {
  const Binary32Section section;
  for (std::size_t i = 0; i < std::min(total.size(), mass.size()); ++i) {
    total[i] = (Binary32::of(total[i]) + Binary32::of(mass[i])).carrier();
  }
}

/// acc[p] += probability of visible row p: one query head after the other.
void accumulate_heads(const GroupAnswer& answer, std::span<float> acc) {
  const std::size_t visible = answer.rows - answer.first;
  if (visible == 0 || answer.first >= acc.size()) return;
  const std::span<float> visible_acc = acc.subspan(answer.first);
  for (std::size_t from = 0; from < answer.probabilities.size(); from += visible) {
    accumulate(visible_acc, std::span(answer.probabilities).subspan(from, visible));
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

}  // namespace

VisibleRows LayerKvCache::stored_rows(std::size_t kv_head) const {
  const HeadRows& head = state_.heads[kv_head];
  const auto rows = [](const StoredRows& stored, bool int8) {
    return int8 ? Rows{.f32 = {}, .int8 = stored.view()} : Rows{.f32 = stored.f32, .int8 = {}};
  };
  return {rows(head.keys, int8_keys(state_.mode)), rows(head.values, int8_values(state_.mode)), geometry_.head_dim, 0, 0};
}

Result<void> LayerKvCache::check_query_overlap(const Query& query, std::span<float> out, std::span<float> acc) const {
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

/// Lengths and scalars of a query of `positions` positions: q_group and out [positions][heads][HD].
Result<void> LayerKvCache::check_query(const Query& query, std::size_t positions, std::span<float> out) const {
  if (auto exists = check_head(query.kv_head, geometry_); !exists) return exists;
  const std::size_t floats = query.q_group.size();
  const auto step = checked_product({positions, geometry_.head_dim});  // floats per query head
  if (step) {
    const bool whole = *step == 0 ? floats == 0 : floats % *step == 0;
    if (!whole) {
      return refuse(ErrorCode::shape_mismatch, *step, floats,
                    sentence("q_group has ", floats, " floats, which is no multiple of positions x head_dim = ", *step));
    }
  }
  if (auto fits = check_length("out", out.size(), floats, "the length of q_group"); !fits) return fits;
  if (!query.sinks.empty() && step && *step != 0) {
    auto fits = check_length("sinks", query.sinks.size(), floats / *step, "the number of query heads");
    if (!fits) return fits;
  }
  if (!step) {
    return refuse(ErrorCode::invalid_argument, max_count, positions,
                  sentence(positions, " positions times head_dim ", geometry_.head_dim, " is over 2^63 - 1"));
  }
  return check_scalars(query);
}

Result<Attended> LayerKvCache::attend(std::span<const float> q, std::size_t kv_head) const {
  return or_out_of_memory([&]() -> Result<Attended> {
    if (auto allowed = check_state("attend", exact_states); !allowed) return handed_on(allowed);
    if (auto exists = check_head(kv_head, geometry_); !exists) return handed_on(exists);
    if (auto fits = check_length("q", q.size(), geometry_.head_dim, "head_dim"); !fits) return handed_on(fits);
    const Query query{.q_group = q, .kv_head = kv_head, .scale = default_scale(geometry_.head_dim)};
    const VisibleRows rows = stored_rows(kv_head);
    GroupAnswer answer = canonical_attend_group(query, rows.keys, rows.values, geometry_.head_dim, all_rows);
    return Attended{std::move(answer.output), std::move(answer.probabilities)};
  });
}

Result<void> LayerKvCache::attend_group(const Query& query, std::span<float> out, std::span<float> acc) const {
  return attend_group_upto(query, all_rows, out, acc);
}

Result<void> LayerKvCache::attend_group_upto(const Query& query, std::size_t upto, std::span<float> out,
                                             std::span<float> acc) const {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto allowed = check_state("attend_group", exact_states); !allowed) return allowed;
    if (auto accepted = check_query(query, 1, out); !accepted) return accepted;
    if (auto apart = check_query_overlap(query, out, acc); !apart) return apart;
    const VisibleRows rows = stored_rows(query.kv_head);
    const GroupAnswer answer = canonical_attend_group(query, rows.keys, rows.values, geometry_.head_dim, upto);

    // From here on nothing fails.
    std::ranges::copy(answer.output, out.begin());
    accumulate_heads(answer, acc);
    return {};
  });
}

Result<void> LayerKvCache::attend_chunk(const Query& query, std::size_t b, std::size_t s0, std::size_t window,
                                        std::span<float> out, std::span<float> acc) const {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto allowed = check_state("attend_chunk", exact_states); !allowed) return allowed;
    if (auto accepted = check_query(query, b, out); !accepted) return accepted;
    if (s0 > state_.seq_len || b > state_.seq_len - s0) {
      return refuse(ErrorCode::invalid_argument, state_.seq_len, s0,
                    sentence(b, " positions from ", s0, " on are not all among the ", state_.seq_len, " there are"));
    }
    if (auto apart = check_query_overlap(query, out, acc); !apart) return apart;
    if (query.q_group.empty()) return {};

    // Position i is one query of its own: rows [max(0, s0 + i + 1 − window), s0 + i + 1).
    const VisibleRows rows = stored_rows(query.kv_head);
    const std::size_t floats = query.q_group.size() / b;  // of one position
    std::vector<GroupAnswer> answers;                     // [b]
    for (std::size_t i = 0; i < b; ++i) {
      const std::size_t upto = s0 + i + 1;
      Query one = query;
      one.q_group = query.q_group.subspan(i * floats, floats);
      one.first = window == 0 || window > upto ? 0 : upto - window;
      answers.push_back(canonical_attend_group(one, rows.keys, rows.values, geometry_.head_dim, upto));
    }

    // From here on nothing fails. Accumulated by positions, then by heads.
    for (std::size_t i = 0; i < b; ++i) {
      std::ranges::copy(answers[i].output, out.begin() + static_cast<std::ptrdiff_t>(i * floats));
      accumulate_heads(answers[i], acc);
    }
    return {};
  });
}

Result<void> LayerKvCache::accumulate_imp(std::span<const float> probabilities) {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto allowed = check_state("accumulate_imp", exact_states); !allowed) return allowed;
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
