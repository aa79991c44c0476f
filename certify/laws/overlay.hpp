// Law 12: the O(1) overlay's boundary, its accounting, and its exact-only mode.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "certify/bound.hpp"
#include "certify/laws/law.hpp"
#include "certify/random.hpp"

namespace kvcert::certify::laws {

/// What a collecting layer is fed; drawn from the case's salt.
struct OverlayCase {
  O1Config config;
  std::size_t query_heads = 1, prefill = 0, steps = 0;
  std::vector<std::vector<float>> q, k, v;

  explicit OverlayCase(const TestCase& test) {
    Random random(test.salt + 12);
    const auto [heads, dim] = test.geometry;
    config = {random.between(4, 7), random.between(1, 6), random.below(4), random.chance(1, 2) ? O1Rect::aggregate : O1Rect::fm};
    query_heads = heads * random.between(1, 3);
    prefill = config.window + config.sink + o1_boundary + 1 + random.below(40);
    steps = random.between(1, 12);
    const auto draw = [&](std::size_t n) {
      std::vector<float> numbers(n);
      for (float& x : numbers) x = random.normal();
      return numbers;
    };
    for (std::size_t i = 0; i < prefill + steps; ++i) {
      q.push_back(draw(query_heads * dim));
      k.push_back(draw(heads * dim));
      v.push_back(draw(heads * dim));
    }
  }
};

/// A group of its own, on the engine's kernels where it has a choice of them.
template <class Engine>
auto group_of(const Engine& engine, const O1Config& config, std::size_t dim, std::size_t fan_out, std::span<const float> keys,
              std::span<const float> values, std::span<const float> queries) {
  using Group = typename Engine::Cache::O1Group;
  if constexpr (requires { engine.isa; }) {
    return must(Group::prefill(config, dim, fan_out, keys, values, queries, engine.isa), "prefill");
  } else {
    return must(Group::prefill(config, dim, fan_out, keys, values, queries), "prefill");
  }
}

/// Law 12, boundary: below it sealing answers false and the layer stays exact; at it, true; every row is in exactly one place:
/// sinks, ring or far field, and the far field of every head counts it once.
template <class Engine>
Outcome overlay_counts(const Engine& engine, const TestCase& test) {
  const OverlayCase overlay(test);
  const std::size_t boundary = overlay.config.window + overlay.config.sink + o1_boundary + 1;
  auto layer = must(engine.make(test.geometry), "create");
  must(layer.o1_begin(overlay.config), "o1_begin");
  for (std::size_t i = 0; i < overlay.prefill; ++i) {
    if (i + 1 == boundary) {
      if (must(layer.o1_seal(overlay.query_heads), "o1_seal")) return violated(fmt::format("{} rows are sealed; the boundary is {}", i, boundary));
      if (layer.state() != LayerState::collecting) return violated("a seal below the boundary ends collecting");
    }
    must(layer.append(overlay.k[i], overlay.v[i], {}), "append");
    must(layer.o1_push_q(overlay.q[i]), "o1_push_q");
  }
  if (layer.o1_memory_bytes() != 4 * overlay.prefill * overlay.q[0].size()) return violated("a collecting layer's o1_memory_bytes is not 4 · trace");
  if (!must(layer.o1_seal(overlay.query_heads), "o1_seal")) return violated(fmt::format("{} rows are not sealed; the boundary is {}", overlay.prefill, boundary));
  if (!must(layer.o1_seal(overlay.query_heads), "o1_seal")) return violated("a sealed layer does not say so again");
  const auto account = [&]() -> std::optional<std::string> {
    const auto views = layer.o1_views();
    if (!views || views->size() != test.geometry.num_kv_heads) return "o1_views does not show one group per KV head";
    for (const O1GroupView& view : *views) {
      if (view.sink + view.ring_length + view.far_count != layer.seq_len()) {
        return fmt::format("{} sinks, {} in the ring and {} far are not {} rows", view.sink, view.ring_length, view.far_count, layer.seq_len());
      }
      if (view.ring_length != overlay.config.window) return "the ring of a sealed group is not full";
      // Row i ≥ sink lies in slot (i − sink) mod w: the newest row is in the slot before the head.
      const std::size_t newest = (layer.seq_len() - 1 - view.sink) % view.window;
      if (view.ring_head != (newest + 1) % view.window) return "the ring's head is not after the newest row";
      const auto group = static_cast<std::size_t>(&view - views->data());
      const std::size_t dim = test.geometry.head_dim;
      for (std::size_t row = layer.seq_len() - view.window; row < layer.seq_len(); ++row) {
        const auto slot = (row - view.sink) % view.window;
        if (auto found = difference("ring key", view.ring_keys.subspan(slot * dim, dim),
                                    std::span<const float>(overlay.k[row]).subspan(group * dim, dim))) return found;
        if (auto found = difference("ring value", view.ring_values.subspan(slot * dim, dim),
                                    std::span<const float>(overlay.v[row]).subspan(group * dim, dim))) return found;
      }
      if (view.m_eff != std::clamp<std::size_t>(overlay.prefill / 8, 4, overlay.config.landmarks)) return "m_eff is not clamp(t / 8, 4, m)";
    }
    return std::nullopt;
  };
  if (auto found = account()) return violated("sealed: " + *found);
  for (std::size_t i = overlay.prefill; i < overlay.prefill + overlay.steps; ++i) {
    const auto out = must(layer.o1_step(overlay.q[i], overlay.k[i], overlay.v[i], overlay.query_heads), "o1_step");
    if (out.size() != overlay.q[i].size()) return violated("o1_step does not answer every query head");
    if (auto found = account()) return violated(fmt::format("after step {}: {}", i + 1, *found));
  }
  const auto back = layer.truncate_last(1);
  if (back || back.error().code != ErrorCode::irreversible) return violated("a sealed layer is taken back");
  return holds();
}

/// A sealed group's memory does not grow, and a layer's steps are its groups' steps.
template <class Engine>
Outcome overlay_is_constant(const Engine& engine, const TestCase& test) {
  using Group = typename Engine::Cache::O1Group;
  const OverlayCase overlay(test);
  const auto [heads, dim] = test.geometry;
  const std::size_t fan_out = overlay.query_heads / heads;
  auto layer = must(engine.make(test.geometry), "create");
  must(layer.o1_begin(overlay.config), "o1_begin");
  std::vector<float> keys, values, queries;
  for (std::size_t i = 0; i < overlay.prefill; ++i) {
    must(layer.append(overlay.k[i], overlay.v[i], {}), "append");
    must(layer.o1_push_q(overlay.q[i]), "o1_push_q");
    const auto add = [&](std::vector<float>& to, const std::vector<float>& from, std::size_t n) {
      to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(n));
    };
    add(keys, overlay.k[i], dim);
    add(values, overlay.v[i], dim);
    add(queries, overlay.q[i], fan_out * dim);
  }
  must(layer.o1_seal(overlay.query_heads), "o1_seal");
  const auto bytes = layer.memory_bytes();
  auto group = group_of(engine, overlay.config, dim, fan_out, keys, values, queries);
  for (std::size_t i = overlay.prefill; i < overlay.prefill + overlay.steps; ++i) {
    const auto together = must(layer.o1_step(overlay.q[i], overlay.k[i], overlay.v[i], overlay.query_heads), "o1_step");
    std::vector<float> alone(fan_out * dim);
    must(group.step(std::span(overlay.q[i]).first(fan_out * dim), std::span(overlay.k[i]).first(dim), std::span(overlay.v[i]).first(dim), alone),
         "step");
    if (auto found = difference("the group's out", alone, std::span(together).first(fan_out * dim))) return violated(*found);
    if (layer.memory_bytes() != bytes) return violated("a sealed layer's memory grows");
  }
  auto saved = group;  // a value: later steps of the one are not the other's
  std::vector<float> a(fan_out * dim), b(fan_out * dim);
  const auto step = [&](Group& g, std::size_t i, std::vector<float>& out) {
    must(g.step(std::span(overlay.q[i]).first(fan_out * dim), std::span(overlay.k[i]).first(dim), std::span(overlay.v[i]).first(dim), out), "step");
  };
  step(group, 0, a);
  step(group, 1, a);
  step(saved, 0, b);
  step(saved, 1, b);
  return unless(difference("out", a, b), "a copied group against its original");
}

/// Law 12, exact-only mode: up to w + sink + 8 rows every key stays exact, later ones too: the output is within the bound of
/// exact attention (h_v = h_s = n − 1, g = 1, L = 0).
template <class Engine>
Outcome overlay_exact_only(const Engine& engine, const TestCase& test) {
  const OverlayCase overlay(test);
  const std::size_t dim = test.geometry.head_dim;
  const std::size_t fan_out = overlay.query_heads / test.geometry.num_kv_heads;
  const std::size_t t = test.salt % (overlay.config.window + overlay.config.sink + o1_boundary + 1);
  std::vector<float> keys, values, queries;
  const auto add = [&](std::vector<float>& to, const std::vector<float>& from, std::size_t n) {
    to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(n));
  };
  for (std::size_t i = 0; i < t; ++i) {
    add(keys, overlay.k[i], dim);
    add(values, overlay.v[i], dim);
    add(queries, overlay.q[i], fan_out * dim);
  }
  auto group = group_of(engine, overlay.config, dim, fan_out, keys, values, queries);
  if (!group.exact_only() || group.view()) return violated(fmt::format("a group of {} rows is not exact-only", t));
  for (std::size_t i = t; i < t + overlay.steps; ++i) {
    add(keys, overlay.k[i], dim);
    add(values, overlay.v[i], dim);
    std::vector<float> out(fan_out * dim);
    must(group.step(std::span(overlay.q[i]).first(fan_out * dim), std::span(overlay.k[i]).first(dim), std::span(overlay.v[i]).first(dim), out),
         "step");
    const std::size_t n = i + 1;
    EngineParameters parameters = canonical_parameters(dim, n);
    parameters.h_v = parameters.h_s = n - 1;
    for (std::size_t head = 0; head < fan_out; ++head) {
      const HeadInput input{.q = std::span(overlay.q[i]).subspan(head * dim, dim), .keys = keys, .values = values,
                            .scale = Engine::Cache::default_scale(dim), .softcap = 0, .sink = std::nullopt};
      const auto bound = evaluate_bound(input, parameters, std::span<const float>(out).subspan(head * dim, dim));
      if (!bound.not_covered.empty()) return not_exercised();
      for (std::size_t d = 0; d < dim; ++d) {
        if (!(bound.error[d] <= bound.bound[d])) {
          return violated(fmt::format("{} rows, head {}: out[{}] is {}, exact attention gives {:.17g} ± {:.3g}", n, head, d,
                                      show(out[head * dim + d]), bound.exact[d], bound.bound[d]));
        }
      }
    }
  }
  if (!group.exact_only()) return violated("an exact-only group stopped being one");
  return holds();
}

}  // namespace kvcert::certify::laws
