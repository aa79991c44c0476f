// Whether what a reader of cases has taken fits together, said anew: the readers are what is tested.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>

#include "certify/foreign/case.hpp"
#include "certify/test_case.hpp"

namespace kvcert::fuzz {

/// Whether the laws may be run on a case without looking at its shapes again.
inline bool well_formed(const certify::TestCase& test) {
  const std::size_t rows = test.positions * test.row_floats(), dim = test.geometry.head_dim;
  return dim >= 1 && test.alive.size() == test.geometry.num_kv_heads && test.kv_head < test.alive.size() && test.k.size() == rows &&
         test.v.size() == rows && !test.q.empty() && test.q.size() % dim == 0 && (test.sinks.empty() || test.sinks.size() == test.heads());
}

/// What is wrong with the shapes of a case for engines; empty: nothing.
inline std::string shape_fault(const certify::EngineCase& test) {
  using certify::EngineOp;
  std::map<std::size_t, certify::EngineLayer> layers;
  for (const certify::EngineStep& step : test.steps) {
    if (step.op == EngineOp::create) {
      const certify::EngineLayer& layer = step.layer;
      if (layer.kv_heads < 1 || layer.head_dim < 1 || layer.query_heads < 1) return "a layer has no elements";
      if (!layer.sinks.empty() && layer.sinks.size() != layer.query_heads) return "a layer has sinks for other heads";
      layers[step.on] = layer;
      continue;
    }
    if (!layers.contains(step.on)) return fmt::format("{} is done with a layer that was never created", name(step.op));
    const certify::EngineLayer& layer = layers[step.on];
    const bool rows = step.op == EngineOp::append || step.op == EngineOp::forward;
    const bool queries = step.op == EngineOp::attend || step.op == EngineOp::forward;
    const std::size_t row = layer.kv_heads * layer.head_dim, query = layer.query_heads * layer.head_dim;
    if (step.k.size() != (rows ? step.n * row : 0) || step.v.size() != step.k.size()) return fmt::format("{} has rows of another size", name(step.op));
    if (step.q.size() != (queries ? step.n * query : 0)) return fmt::format("{} has queries of another size", name(step.op));
    if (step.slot > 15) return fmt::format("{} names slot {}", name(step.op), step.slot);
  }
  return {};
}

}  // namespace kvcert::fuzz
