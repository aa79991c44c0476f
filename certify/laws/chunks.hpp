// Law 2 for chunked attention, and law 15: what eviction keeps.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "certify/laws/law.hpp"
#include "certify/laws/state.hpp"
#include "certify/random.hpp"

namespace kvcert::certify::laws {

/// Law 2, attend_chunk = the attend_group_upto of its positions, in order, accumulator included; and computing fewer
/// positions or heads beside changes no bit.
template <class Engine>
Outcome chunk_attention(const Engine& engine, const TestCase& test) {
  if (test.positions == 0) return not_exercised();
  Random random(test.salt + 3);
  const std::size_t dim = test.geometry.head_dim;
  const std::size_t heads = test.heads();
  const std::size_t b = random.between(1, std::min<std::size_t>(test.positions, 9));
  const std::size_t s0 = random.below(test.positions - b + 1);
  const std::size_t window = random.chance(1, 4) ? 0 : random.pick<std::size_t>({1, 2, 3, 16, random.between(1, test.positions + 2)});
  auto layer = must(engine.make(test.geometry), "create");
  const KvMode mode = random.pick({KvMode::f32, KvMode::f32, KvMode::q8, KvMode::q8_keys, KvMode::q8_values});
  const bool finite = std::all_of(test.k.begin(), test.k.end(), [](float x) { return std::fabs(x) < 1e18F; }) &&
                      std::all_of(test.v.begin(), test.v.end(), [](float x) { return std::fabs(x) < 1e18F; });
  if (finite) must(layer.set_mode(mode), "set_mode");
  must(layer.append_chunk(test.k, test.v, test.positions, test.alive), "append_chunk");

  std::vector<float> q;
  for (std::size_t i = 0; i < b; ++i) {
    for (float x : test.q) q.push_back(i % 3 == 2 ? -x : x);
  }
  Query query = test.query();
  query.q_group = q;
  Answer together{std::vector<float>(q.size(), 5.0F), test.acc};
  must(layer.attend_chunk(query, b, s0, window, together.out, together.acc), "attend_chunk");
  Answer apart{{}, test.acc};
  for (std::size_t i = 0; i < b; ++i) {
    Query one = query;
    one.q_group = std::span<const float>(q).subspan(i * heads * dim, heads * dim);
    one.first = window == 0 || window > s0 + i ? 0 : s0 + i + 1 - window;
    Answer answer = ask(layer, one, s0 + i + 1, std::move(apart.acc));
    apart.out.insert(apart.out.end(), answer.out.begin(), answer.out.end());
    apart.acc = std::move(answer.acc);
  }
  const auto context = fmt::format("positions {}..{}, window {}", s0, s0 + b - 1, window);
  if (auto found = difference(together, apart)) return violated(context + ": the chunk against its positions: " + *found);
  // The last position of the last head, alone.
  Query alone = query;
  alone.q_group = std::span<const float>(q).last(dim);
  if (!alone.sinks.empty()) alone.sinks = alone.sinks.last(1);
  std::vector<float> out(dim);
  must(layer.attend_chunk(alone, 1, s0 + b - 1, window, out, {}), "attend_chunk");
  return unless(difference("out", out, std::span<const float>(together.out).last(dim)), context + ": one head alone");
}

/// The positions that eviction by mass keeps, written down from the contract: a sort with NaN last and ties by index.
inline std::vector<std::size_t> kept_by_mass(std::span<const float> importance, std::size_t keep, std::size_t sink, std::size_t recent) {
  const std::size_t T = importance.size();
  std::vector<std::size_t> kept;
  for (std::size_t p = 0; p < std::min(sink, keep); ++p) kept.push_back(p);
  const std::size_t early = kept.size();
  const std::size_t late = std::min({recent, keep - early, T - early});
  std::vector<std::size_t> middle(T - early - late);
  std::iota(middle.begin(), middle.end(), early);
  std::stable_sort(middle.begin(), middle.end(), [&](std::size_t a, std::size_t b) {
    const float x = importance[a];
    const float y = importance[b];
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return x > y;
  });
  middle.resize(std::min(middle.size(), keep - early - late));
  kept.insert(kept.end(), middle.begin(), middle.end());
  for (std::size_t p = T - late; p < T; ++p) kept.push_back(p);
  std::sort(kept.begin(), kept.end());
  return kept;
}

/// Law 15, eviction: the kept set as specified, in order; rows, scales and importance stay aligned. In every storage.
template <class Engine>
Outcome eviction(const Engine& engine, const TestCase& test) {
  if (test.positions < 2) return not_exercised();
  Random random(test.salt + 4);
  auto layer = must(engine.make(test.geometry), "create");
  const KvMode mode = random.pick({KvMode::f32, KvMode::q8, KvMode::q8_keys, KvMode::q8_values});
  must(layer.set_mode(mode), "set_mode");
  if (!layer.append_chunk(test.k, test.v, test.positions, test.alive)) return not_exercised();  // not finite enough for int8
  std::vector<float> mass(test.positions);
  for (float& x : mass) x = random.pick({0.0F, -0.0F, 1.0F, random.normal(), random.normal(), random.any_bits()});
  must(layer.accumulate_imp(mass), "accumulate_imp");
  const std::vector<float> importance(layer.importance().begin(), layer.importance().end());
  const auto before = layer;
  const std::size_t keep = random.below(test.positions + 2);
  const std::size_t sink = random.below(8);
  const std::size_t recent = random.below(test.positions + 3);
  const bool by_mass = random.chance(2, 3);
  const std::size_t went = by_mass ? must(layer.evict_by_mass(keep, sink, recent), "evict_by_mass")
                                   : must(layer.evict_recent(keep), "evict_recent");
  std::vector<std::size_t> kept;
  if (test.positions <= keep) {
    kept.resize(test.positions);
    std::iota(kept.begin(), kept.end(), std::size_t{0});
  } else if (by_mass) {
    kept = kept_by_mass(importance, keep, sink, recent);
  } else {
    kept.resize(keep);
    std::iota(kept.begin(), kept.end(), test.positions - keep);
  }
  const auto context = by_mass ? fmt::format("evict_by_mass({}, {}, {}) of {}", keep, sink, recent, test.positions)
                               : fmt::format("evict_recent({}) of {}", keep, test.positions);
  if (went != test.positions - kept.size() || layer.seq_len() != kept.size()) {
    return violated(fmt::format("{} says {} went and leaves {}, expected {} to stay", context, went, layer.seq_len(), kept.size()));
  }
  const auto pick = [&](std::span<const float> rows, std::size_t width) {
    std::vector<float> picked;
    for (std::size_t p : kept) {
      const auto row = rows.subspan(p * width, width);
      picked.insert(picked.end(), row.begin(), row.end());
    }
    return picked;
  };
  if (auto found = difference("importance", layer.importance(), pick(importance, 1))) return violated(context + ": " + *found);
  const auto [heads, dim] = test.geometry;
  for (std::size_t head = 0; head < heads; ++head) {
    if (*before.head_len(head) == 0) continue;
    for (bool keys : {true, false}) {
      const auto old_rows = keys ? *before.head_keys(head) : *before.head_values(head);
      const auto new_rows = keys ? *layer.head_keys(head) : *layer.head_values(head);
      const Q8Rows old_q8 = keys ? *before.head_q8_keys(head) : *before.head_q8_values(head);
      const Q8Rows new_q8 = keys ? *layer.head_q8_keys(head) : *layer.head_q8_values(head);
      const auto tensor = fmt::format("{}: head {} {}", context, head, keys ? "key" : "value");
      if (!old_rows.empty()) {
        if (auto found = difference(tensor, new_rows, pick(old_rows, dim))) return violated(*found);
        continue;
      }
      const std::size_t scales = old_q8.scales.size() / test.positions;
      if (auto found = difference(tensor + " scale", new_q8.scales, pick(old_q8.scales, scales))) return violated(*found);
      for (std::size_t i = 0; i < kept.size() * dim; ++i) {
        if (new_q8.values[i] != old_q8.values[kept[i / dim] * dim + i % dim]) return violated(tensor + " values moved");
      }
    }
  }
  if (kept.empty() && layer.alive()) return violated(context + ": nothing is left, and liveness is still decided");
  return holds();
}

}  // namespace kvcert::certify::laws
