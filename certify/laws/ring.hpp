// Laws 5–7 and 11 for the bounded anchor, and the linear layer's few.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "certify/laws/law.hpp"
#include "certify/laws/state.hpp"
#include "certify/random.hpp"

namespace kvcert::certify::laws {

/// What a bounded layer is fed: drawn from the case's salt, so that it needs no more than the case.
struct RingCase {
  std::size_t window = 1, query_heads = 1, steps = 0, sinks = 0;
  std::vector<float> inv_freq, sink_keys, sink_values;
  float rope_scale = 1, scale = 1;
  std::vector<std::vector<float>> q, k, v;  ///< per step

  explicit RingCase(const TestCase& test, std::size_t most_steps) {
    Random random(test.salt + 9);
    const auto [heads, dim] = test.geometry;
    window = random.pick<std::size_t>({1, 2, 3, 4, 7, 64, 70});
    query_heads = heads * random.between(1, 3);
    sinks = random.below(4);
    rope_scale = random.pick({1.0F, 1.2F, 0.7F});
    scale = random.pick({0.125F, 0.35355339F, 1.0F});
    const std::size_t half = dim < 2 ? 0 : random.between(1, dim / 2);
    for (std::size_t i = 0; i < half; ++i) inv_freq.push_back(i == 0 ? 1.0F : inv_freq.back() * 0.31622777F);
    const auto draw = [&](std::size_t n) {
      std::vector<float> numbers(n);
      for (float& x : numbers) x = random.normal();
      return numbers;
    };
    sink_keys = draw(sinks * heads * dim);
    sink_values = draw(sinks * heads * dim);
    steps = random.between(1, std::min(most_steps, 3 * window + 5));
    for (std::size_t i = 0; i < steps; ++i) {
      q.push_back(draw(query_heads * dim));
      k.push_back(draw(heads * dim));
      v.push_back(draw(heads * dim));
    }
  }
};

template <class Engine>
std::optional<typename Engine::Cache> bounded_layer(const Engine& engine, const TestCase& test, const RingCase& ring) {
  if (ring.inv_freq.empty()) return std::nullopt;  // head_dim 1 has no pair to rotate
  auto layer = must(engine.make(test.geometry), "create");
  must(layer.install_bounded(ring.window), "install_bounded");
  return layer;
}

/// The case's rope table, once: a table of correctly rounded entries is dear.
template <class Cache>
typename Cache::Rope rope_of(const RingCase& ring) {
  return must(Cache::Rope::create(ring.window, ring.inv_freq, ring.rope_scale), "Rope::create");
}

template <class Cache>
std::vector<float> ring_step(Cache& layer, const typename Cache::Rope& rope, const RingCase& ring, std::size_t i) {
  std::vector<float> out(ring.q[i].size());
  must(layer.bounded_step(ring.q[i], ring.k[i], ring.v[i], {ring.sink_keys, ring.sink_values}, rope, ring.scale, ring.query_heads, out),
       "bounded_step");
  return out;
}

/// Equal to the eye: everything observable but the number of rollbacks left, which only shrinks.
template <class Cache>
std::optional<std::string> ring_difference(const Cache& a, const Cache& b) {
  Observed x = observe(a);
  Observed y = observe(b);
  x.undo_rows = y.undo_rows = 0;
  if (auto found = difference(x, y)) return "they differ in " + *found;
  return incoherence(a);
}

/// Law 5 on the ring: n steps taken back = nothing happened, to depth min(64, inserts since the rollback rows were dropped);
/// deeper is refused and changes nothing.
template <class Engine>
Outcome ring_rollback(const Engine& engine, const TestCase& test) {
  const RingCase ring(test, 200);
  auto layer = bounded_layer(engine, test, ring);
  if (!layer) return not_exercised();
  const auto rope = rope_of<typename Engine::Cache>(ring);
  std::vector<typename Engine::Cache> past{*layer};
  for (std::size_t i = 0; i < ring.steps; ++i) {
    ring_step(*layer, rope, ring, i);
    if (layer->bounded_undo_rows() != std::min<std::size_t>(i + 1, undo_depth)) {
      return violated(fmt::format("after {} steps {} can be taken back", i + 1, layer->bounded_undo_rows()));
    }
    past.push_back(*layer);
  }
  Random random(test.salt + 10);
  std::size_t left = layer->bounded_undo_rows();
  if (ring.steps > left) {
    const auto before = observe(*layer);
    const auto result = layer->truncate_last(left + 1);
    if (result || result.error().code != ErrorCode::undo_exhausted) return violated("a rollback deeper than its rows is not refused");
    if (auto found = difference(observe(*layer), before)) return violated("a refused rollback changed " + *found);
  }
  while (left > 0) {
    const std::size_t n = random.between(1, left);
    must(layer->truncate_last(n), "truncate_last");
    left -= n;
    const auto at = static_cast<std::size_t>(layer->seq_len());
    if (auto found = ring_difference(*layer, past[at])) return violated(fmt::format("taken back to {} of {} steps: {}", at, ring.steps, *found));
    if (layer->bounded_undo_rows() != left) return violated("the count of rollback rows is off");
  }
  const auto at = static_cast<std::size_t>(layer->seq_len());
  for (std::size_t i = at; i < ring.steps; ++i) ring_step(*layer, rope, ring, i);
  return unless(ring_difference(*layer, past.back()), "taken back and walked again");
}

/// Law 11, ring: the output is a function of the last min(T, W) inserts: a longer history with the same tail = the same bits.
template <class Engine>
Outcome ring_forgets(const Engine& engine, const TestCase& test) {
  const RingCase ring(test, 200);
  auto longer = bounded_layer(engine, test, ring);
  auto shorter = bounded_layer(engine, test, ring);
  if (!longer || ring.steps <= ring.window) return not_exercised();
  const auto rope = rope_of<typename Engine::Cache>(ring);
  for (std::size_t i = 0; i < ring.steps; ++i) {
    const bool in_tail = i + ring.window >= ring.steps;
    const auto got = ring_step(*longer, rope, ring, i);
    if (!in_tail) continue;
    const auto expected = ring_step(*shorter, rope, ring, i);
    if (i + 1 == ring.steps) return unless(difference("out", got, expected), fmt::format("{} inserts against the last {}", ring.steps, ring.window));
  }
  return not_exercised();
}

/// Laws 6 and 7 on the ring: snapshots of the layer and of the ring alone, and the record, bring it back.
template <class Engine>
Outcome ring_comes_back(const Engine& engine, const TestCase& test) {
  const RingCase ring(test, 100);
  auto layer = bounded_layer(engine, test, ring);
  if (!layer) return not_exercised();
  const auto rope = rope_of<typename Engine::Cache>(ring);
  const std::size_t half = ring.steps / 2;
  for (std::size_t i = 0; i < half; ++i) ring_step(*layer, rope, ring, i);
  const auto middle = *layer;
  const auto saved = must(layer->snapshot(), "snapshot");
  const auto saved_ring = must(layer->bounded_snapshot(), "bounded_snapshot");
  const auto record = must(layer->export_wire(WireFormat::f32), "export_wire");
  for (std::size_t i = half; i < ring.steps; ++i) ring_step(*layer, rope, ring, i);
  const auto end = *layer;

  must(layer->restore(saved), "restore");
  if (auto found = difference(observe(*layer), observe(middle))) return violated("after restore: " + *found);
  for (std::size_t i = half; i < ring.steps; ++i) ring_step(*layer, rope, ring, i);
  if (auto found = difference(observe(*layer), observe(end))) return violated("walked on after restore: " + *found);

  must(layer->bounded_restore(*saved_ring), "bounded_restore");
  if (auto found = ring_difference(*layer, middle)) return violated("after bounded_restore: " + *found);
  if (layer->bounded_undo_rows() != 0) return violated("bounded_restore keeps rollback rows");

  auto fresh = bounded_layer(engine, test, ring);
  must(fresh->import_wire(record), "import_wire");
  if (auto found = ring_difference(*fresh, middle)) return violated("after import: " + *found);
  if (fresh->bounded_undo_rows() != 0) return violated("an import keeps rollback rows");
  if (half > 0 && fresh->truncate_last(1)) return violated("a ring without rollback rows takes a position back");
  for (std::size_t i = half; i < ring.steps; ++i) ring_step(*fresh, rope, ring, i);
  if (auto found = ring_difference(*fresh, end)) return violated("walked on after import: " + *found);

  layer->clear();
  if (auto found = ring_difference(*layer, *bounded_layer(engine, test, ring))) return violated("cleared against new: " + *found);
  auto other = must(engine.make(test.geometry), "create");
  must(other.install_bounded(ring.window + 1), "install_bounded");
  const auto refused = other.bounded_restore(*saved_ring);
  if (refused || refused.error().code != ErrorCode::shape_mismatch) return violated("a ring of another size is not refused");
  return holds();
}

/// Linear layers: commit, scratch, accept, discard; snapshot and record; the scratch never travels.
template <class Engine>
Outcome linear_layer(const Engine& engine, const TestCase& test) {
  Random random(test.salt + 11);
  auto layer = must(engine.make(test.geometry), "create");
  must(layer.set_wire_kind(WireKind::linear), "set_wire_kind");
  const auto draw = [&] {
    std::vector<float> state(random.below(7));
    for (float& x : state) x = random.any_bits();
    return state;
  };
  const auto state = draw();
  const auto tentative = draw();
  must(layer.linear_commit(state, 5), "linear_commit");
  if (auto found = difference("linear_state", layer.linear_state(), state)) return violated(*found);
  must(layer.linear_set_scratch(tentative), "linear_set_scratch");
  const auto with_scratch = layer;
  const auto saved = must(layer.snapshot(), "snapshot");
  must(layer.linear_accept_scratch(), "linear_accept_scratch");
  if (auto found = difference("accepted state", layer.linear_state(), tentative)) return violated(*found);
  if (layer.seq_len() != 6 || layer.linear_scratch()) return violated("an accepted scratch is one position, and gone");
  const auto twice = layer.linear_accept_scratch();
  if (twice || twice.error().code != ErrorCode::wrong_state) return violated("a scratch is accepted twice");
  must(layer.restore(saved), "restore");
  if (auto found = difference(observe(layer), observe(with_scratch))) return violated("after restore: " + *found);
  const auto record = must(layer.export_wire(random.chance(1, 2) ? WireFormat::f32 : WireFormat::f16), "export_wire");
  must(layer.discard_linear_scratch(), "discard_linear_scratch");
  auto copy = must(engine.make(test.geometry), "create");
  must(copy.set_wire_kind(WireKind::linear), "set_wire_kind");
  must(copy.import_wire(record), "import_wire");
  if (auto found = difference(observe(copy), observe(layer))) return violated("after import: " + *found);
  must(layer.truncate_last(0), "truncate_last(0)");
  const auto back = layer.truncate_last(1);
  if (back || back.error().code != ErrorCode::irreversible) return violated("a recurrent state is taken back");
  layer.clear();
  if (layer.seq_len() != 0 || !layer.linear_state().empty() || layer.wire_kind() != WireKind::linear) {
    return violated("clear keeps a state, or loses the kind");
  }
  return holds();
}

}  // namespace kvcert::certify::laws
