#include "certify/foreign/simpler_case.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "certify/bits.hpp"

namespace kvcert::certify {
namespace {

/// [outer][heads][dim] with other sizes: what is new is left out.
std::vector<float> cut(const std::vector<float>& from, std::size_t outer, std::size_t heads, std::size_t dim, std::size_t new_outer,
                       std::size_t new_heads, std::size_t new_dim) {
  std::vector<float> result;
  for (std::size_t o = 0; o < std::min(outer, new_outer); ++o) {
    for (std::size_t h = 0; h < new_heads; ++h) {
      const auto row = from.begin() + static_cast<std::ptrdiff_t>((o * heads + h) * dim);
      result.insert(result.end(), row, row + static_cast<std::ptrdiff_t>(new_dim));
    }
  }
  return result;
}

/// Gives every layer of the case `heads` KV heads, a fan-out and a head_dim; each at most what it was.
EngineCase with_shape(const EngineCase& test, std::size_t kv_heads, std::size_t fan_out, std::size_t dim) {
  EngineCase smaller = test;
  std::vector<EngineLayer> before(16), after(16);
  for (EngineStep& step : smaller.steps) {
    if (step.op == EngineOp::create) {
      before[step.on] = step.layer;
      EngineLayer& layer = step.layer;
      const std::size_t fan = layer.query_heads / layer.kv_heads;
      layer.kv_heads = std::min(kv_heads, layer.kv_heads);
      layer.query_heads = layer.kv_heads * std::min(fan_out, fan);
      layer.head_dim = std::min(dim, layer.head_dim);
      if (!layer.sinks.empty()) layer.sinks.resize(layer.query_heads);
      after[step.on] = layer;
      continue;
    }
    const EngineLayer& from = before[step.on];
    const EngineLayer& to = after[step.on];
    for (auto member : {&EngineStep::k, &EngineStep::v}) {
      if (!(step.*member).empty()) step.*member = cut(step.*member, step.n, from.kv_heads, from.head_dim, step.n, to.kv_heads, to.head_dim);
    }
    if (!step.q.empty()) step.q = cut(step.q, step.n, from.query_heads, from.head_dim, step.n, to.query_heads, to.head_dim);
  }
  return smaller;
}

/// The step with its first n positions only.
EngineCase with_positions(const EngineCase& test, std::size_t at, std::size_t n) {
  EngineCase smaller = test;
  EngineStep& step = smaller.steps[at];
  for (auto member : {&EngineStep::k, &EngineStep::v, &EngineStep::q}) {
    auto& tensor = step.*member;
    if (!tensor.empty()) tensor.resize(tensor.size() / step.n * n);
  }
  step.n = n;
  return smaller;
}

/// Only the last of the attend's positions.
EngineCase with_last_position(const EngineCase& test, std::size_t at) {
  EngineCase smaller = test;
  EngineStep& step = smaller.steps[at];
  step.q.erase(step.q.begin(), step.q.end() - static_cast<std::ptrdiff_t>(step.q.size() / step.n));
  step.from += step.n - 1;
  step.n = 1;
  return smaller;
}

/// One row less in an append, and the questions behind it moved along.
EngineCase without_rows(const EngineCase& test, std::size_t at, std::size_t rows) {
  EngineCase smaller = with_positions(test, at, test.steps[at].n - rows);
  for (std::size_t i = at + 1; i < smaller.steps.size(); ++i) {
    EngineStep& step = smaller.steps[i];
    if (step.op == EngineOp::attend && step.on == test.steps[at].on) step.from -= std::min(rows, step.from);
  }
  return smaller;
}

}  // namespace

std::vector<EngineCase> simpler(const EngineCase& test) {
  std::vector<EngineCase> candidates;
  const auto offer = [&](EngineCase candidate) {
    candidate.closed_form.clear();
    if (to_json(candidate) != to_json(test)) candidates.push_back(std::move(candidate));
  };
  const auto change_layers = [&](const std::function<void(EngineLayer&)>& change) {
    EngineCase candidate = test;
    for (EngineStep& step : candidate.steps) {
      if (step.op == EngineOp::create) change(step.layer);
    }
    offer(std::move(candidate));
  };
  for (std::size_t i = test.steps.size(); i-- > 0;) {
    if (test.steps[i].op == EngineOp::create && test.steps[i].on == 0) continue;
    EngineCase candidate = test;
    candidate.steps.erase(candidate.steps.begin() + static_cast<std::ptrdiff_t>(i));
    offer(std::move(candidate));
  }
  std::size_t heads = 1;
  std::size_t fan = 1;
  std::size_t dim = 1;
  for (const EngineStep& step : test.steps) {
    if (step.op != EngineOp::create || step.layer.query_heads % step.layer.kv_heads != 0) continue;
    heads = std::max(heads, step.layer.kv_heads);
    fan = std::max(fan, step.layer.query_heads / step.layer.kv_heads);
    dim = std::max(dim, step.layer.head_dim);
  }
  for (std::size_t less : {std::size_t{1}, dim / 2, dim - 1}) {
    if (less >= 1 && less < dim) offer(with_shape(test, heads, fan, less));
  }
  if (heads > 1) offer(with_shape(test, 1, fan, dim));
  if (heads > 2) offer(with_shape(test, 2, fan, dim));
  if (fan > 1) offer(with_shape(test, heads, 1, dim));
  if (fan > 2) offer(with_shape(test, heads, 2, dim));
  for (std::size_t i = 0; i < test.steps.size(); ++i) {
    const EngineStep& step = test.steps[i];
    if (step.op == EngineOp::attend && step.n > 1) {
      offer(with_last_position(test, i));
      offer(with_positions(test, i, 1));
    }
    if ((step.op == EngineOp::append || step.op == EngineOp::forward) && step.n > 1) {
      for (std::size_t rows : {step.n / 2, std::size_t{1}}) offer(without_rows(test, i, rows));
    }
  }
  change_layers([](EngineLayer& layer) { layer.sinks.clear(); });
  change_layers([](EngineLayer& layer) { layer.softcap = 0; });
  change_layers([](EngineLayer& layer) { layer.window = 0; });
  change_layers([](EngineLayer& layer) { layer.scale = 1; });
  for (auto member : {&EngineStep::q, &EngineStep::k, &EngineStep::v}) {
    EngineCase candidate = test;
    for (EngineStep& step : candidate.steps) {
      for (float& x : step.*member) x = std::isfinite(x) && std::fabs(x) < 1e6F ? std::rint(x) : x;
    }
    offer(std::move(candidate));
  }
  return candidates;
}

}  // namespace kvcert::certify
