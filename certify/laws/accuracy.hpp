// Law 14 for int8 rows and for the bounded anchor: canonical bits, an error within the bound, the exact mode rounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "certify/bound_rows.hpp"
#include "certify/judge.hpp"
#include "certify/laws/int8.hpp"
#include "certify/laws/ring.hpp"
#include "reference/evaluate.hpp"

namespace kvcert::certify::laws {

/// Holds one head's numbers against the bound, and adds to the tally. The sentence of the first that exceeds it.
inline std::optional<std::string> outside(const HeadBound& bound, std::span<const float> got, const std::string& where, Tally& tally) {
  if (!bound.not_covered.empty()) {
    ++tally.heads[Judgement::not_judged];
    ++tally.not_judged[bound.not_covered];
    return std::nullopt;
  }
  for (std::size_t d = 0; d < got.size(); ++d) {
    if (!(bound.error[d] <= bound.bound[d])) {
      ++tally.heads[Judgement::wrong];
      return fmt::format("{}: out[{}] is {}; the real value is {:.17g}, so the error is {:.3g}, and the bound is {:.3g}", where, d,
                         show(got[d]), bound.exact[d], bound.error[d], bound.bound[d]);
    }
    tally.count(bound, d);
  }
  ++tally.heads[Judgement::bit_identical];
  return std::nullopt;
}

/// No neighbour of an exact mode's number is nearer to the real value.
inline std::optional<std::string> not_rounded(const HeadBound& bound, std::span<const float> exact, const std::string& where) {
  if (!bound.not_covered.empty()) return std::nullopt;
  for (std::size_t d = 0; d < exact.size(); ++d) {
    const double distance = std::fabs(double{exact[d]} - bound.exact[d]);
    const double slack = std::fabs(bound.exact[d]) * 0x1p-52;  // bound.exact is a double: a tie may look decided by its last bit
    for (float neighbour : {std::nextafter(exact[d], INFINITY), std::nextafter(exact[d], -INFINITY)}) {
      if (distance > std::fabs(double{neighbour} - bound.exact[d]) + slack) {
        return fmt::format("{}: exact out[{}] is {}, but {} is nearer to {:.17g}", where, d, show(exact[d]), show(neighbour), bound.exact[d]);
      }
    }
  }
  return std::nullopt;
}

/// What a head of a layer stores, visible rows only.
struct StoredHead {
  StoredRows keys, values;
};

template <class Cache>
StoredHead stored_head(const Cache& layer, std::size_t head, std::size_t first, std::size_t rows) {
  const std::size_t dim = layer.geometry().head_dim;
  const auto visible = [&](std::span<const float> f32, Q8Rows int8) {
    if (int8.values.empty()) return StoredRows{f32.subspan(first * dim, (rows - first) * dim), std::nullopt};
    const std::size_t scales = int8.scales.size() / (int8.values.size() / dim);
    return StoredRows{{}, Q8Rows{int8.values.subspan(first * dim, (rows - first) * dim),
                                 int8.scales.subspan(first * scales, (rows - first) * scales), int8.columns}};
  };
  return {visible(must(layer.head_keys(head), "head_keys"), must(layer.head_q8_keys(head), "head_q8_keys")),
          visible(must(layer.head_values(head), "head_values"), must(layer.head_q8_values(head), "head_q8_values"))};
}

/// Law 14, int8: attention over what the layer stores, in the three int8 storages, on both sides of the freeze: canonical bits,
/// within the bound of the real value, and in a third of the cases the exact mode, which has to be correctly rounded.
template <class Engine>
Outcome int8_accuracy(const Engine& engine, const TestCase& original, Tally& tally) {
  TestCase test = int8_case(original);
  if (test.alive[test.kv_head] == 0) return not_exercised();
  if (test.heads() > 2) {  // enclosures are dear
    test.q.resize(2 * test.geometry.head_dim);
    test.sinks.resize(std::min<std::size_t>(test.sinks.size(), 2));
  }
  auto layer = must(engine.make(test.geometry), "create");
  must(layer.set_mode(int8_mode(test)), "set_mode");
  must(layer.append_chunk(test.k, test.v, test.positions, test.alive), "append_chunk");
  const Answer answer = ask(layer, test);
  const StoredHead stored = stored_head(layer, test.kv_head, test.first_visible(), test.rows());
  const auto rows = [](const StoredRows& tensor) { return reference::Rows{.f32 = tensor.f32, .int8 = tensor.int8}; };
  Query query = test.query();
  query.first = 0;  // only visible rows are given
  const std::size_t n = test.rows() - test.first_visible();
  const std::size_t dim = test.geometry.head_dim;
  const auto before = tally.numbers;
  // Lanes go by a row's own index, and a turn of the lanes changes no bit, so visible rows alone give the same bits.
  const auto canonical = reference::canonical_attend_group(query, rows(stored.keys), rows(stored.values), dim, n);
  if (auto found = difference("out", answer.out, canonical.output)) return violated("against canonical: " + *found);
  const auto exact = test.salt % 3 == 0 ? reference::exact_attend_group(query, rows(stored.keys), rows(stored.values), dim, n) : std::nullopt;
  for (std::size_t head = 0; head < test.heads(); ++head) {
    Int8Input in{.q = std::span(test.q).subspan(head * dim, dim), .keys = stored.keys, .values = stored.values, .scale = test.scale,
                 .softcap = test.softcap, .sink = std::nullopt};
    if (!test.sinks.empty()) in.sink = test.sinks[head];
    const auto got = std::span<const float>(answer.out).subspan(head * dim, dim);
    const auto bound = evaluate_int8_bound(in, got);
    const auto where = fmt::format("{} rows, head {}", n, head);
    if (auto found = outside(bound, got, where, tally)) return violated(*found);
    tally.cover(test.geometry, {"int8 rows"});
    if (!exact) continue;
    if (auto found = not_rounded(bound, std::span<const float>(exact->output).subspan(head * dim, dim), where)) return violated(*found);
  }
  return tally.numbers == before ? not_exercised() : holds();
}

/// The bounded step's question as the bound takes it: query head `head`, after the layer's newest row was written.
template <class Cache>
BoundedInput bounded_input(const Cache& layer, const typename Cache::Rope& rope, std::span<const float> q, BoundedSinks sinks, float scale,
                           std::size_t query_heads, std::size_t head) {
  const auto [heads, dim] = layer.geometry();
  const std::size_t W = layer.bounded_window();
  const std::size_t kv_head = head / (query_heads / heads);
  const std::size_t floats = sinks.keys.size() / heads;
  BoundedInput in{.q = q.subspan(head * dim, dim), .sink_keys = sinks.keys.subspan(kv_head * floats, floats),
                  .sink_values = sinks.values.subspan(kv_head * floats, floats), .keys = {}, .values = {}, .cos = rope.cos(),
                  .sin = rope.sin(), .half = rope.half(), .scale = scale};
  for (std::uint64_t delta = 0; delta < std::min<std::uint64_t>(W, layer.seq_len()); ++delta) {
    const std::size_t at = (kv_head * W + static_cast<std::size_t>((layer.seq_len() - 1 - delta) % W)) * dim;
    in.keys.push_back(layer.bounded_keys().subspan(at, dim));
    in.values.push_back(layer.bounded_values().subspan(at, dim));
  }
  return in;
}

/// Law 14, bounded: every step of a ring: canonical bits, within the bound of the real value; now and then the exact mode too.
template <class Engine>
Outcome bounded_accuracy(const Engine& engine, const TestCase& test, Tally& tally) {
  const RingCase ring(test, 40);
  auto layer = bounded_layer(engine, test, ring);
  if (!layer) return not_exercised();
  const auto rope = rope_of<typename Engine::Cache>(ring);
  const std::size_t dim = test.geometry.head_dim;
  const BoundedSinks sinks{ring.sink_keys, ring.sink_values};
  const reference::RopeEntries entries{rope.half(), rope.cos(), rope.sin()};
  const std::size_t stride = 1 + ring.steps / 6;
  for (std::size_t i = 0; i < ring.steps; ++i) {
    const auto out = ring_step(*layer, rope, ring, i);
    if (i % stride != 0 && i + 1 != ring.steps) continue;
    const reference::BoundedQuery query{ring.q[i], ring.query_heads, sinks, entries, ring.scale};
    const reference::BoundedWindow window{test.geometry, ring.window, layer->seq_len(), layer->bounded_keys(), layer->bounded_values()};
    if (auto found = difference("out", out, reference::canonical_bounded(query, window).output)) {
      return violated(fmt::format("step {} against canonical: {}", i, *found));
    }
    const bool last = i + 1 == ring.steps;
    const auto exact = last ? reference::exact_bounded(query, window) : std::nullopt;
    for (std::size_t head = 0; head < ring.query_heads; ++head) {
      const auto got = std::span<const float>(out).subspan(head * dim, dim);
      const auto bound = evaluate_bounded_bound(bounded_input(*layer, rope, ring.q[i], sinks, ring.scale, ring.query_heads, head), got);
      const auto where = fmt::format("step {}, head {}", i, head);
      if (auto found = outside(bound, got, where, tally)) return violated(*found);
      tally.cover(test.geometry, {"ring"});
      if (!exact) continue;
      if (auto found = not_rounded(bound, std::span<const float>(exact->output).subspan(head * dim, dim), where)) return violated(*found);
    }
  }
  return holds();
}

}  // namespace kvcert::certify::laws
