#include "certify/foreign/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "certify/bits.hpp"

namespace kvcert::certify {
namespace {

void mix(std::uint64_t& hash, std::uint64_t value) {
  for (unsigned shift = 0; shift < 64; shift += 8) hash = (hash ^ ((value >> shift) & 0xFFU)) * 0x100000001B3U;
}

void mix(std::uint64_t& hash, std::span<const float> numbers) {
  for (float x : numbers) mix(hash, bits(x));
}

bool changes(EngineOp op) {
  return op != EngineOp::attend && op != EngineOp::length && op != EngineOp::importance && op != EngineOp::state &&
         op != EngineOp::snapshot && op != EngineOp::export_state;
}

}  // namespace

std::vector<float> LayerModel::head_rows(const std::vector<float>& tensor, std::size_t kv_head, std::size_t from,
                                         std::size_t to) const {
  std::vector<float> rows;
  rows.reserve((to - from) * config.head_dim);
  for (std::size_t p = from; p < to; ++p) {
    const auto row = tensor.begin() + static_cast<std::ptrdiff_t>(p * config.row_floats() + kv_head * config.head_dim);
    rows.insert(rows.end(), row, row + static_cast<std::ptrdiff_t>(config.head_dim));
  }
  return rows;
}

std::optional<std::string> Model::must_refuse(const EngineStep& step) const {
  if (step.op == EngineOp::create) {
    if (step.layer.query_heads % step.layer.kv_heads == 0) return std::nullopt;
    return fmt::format("{} query heads cannot share {} KV heads evenly", step.layer.query_heads, step.layer.kv_heads);
  }
  if (!layers_.contains(step.on)) return "the layer does not exist";
  const LayerModel& layer = layers_.at(step.on);
  switch (step.op) {
    case EngineOp::attend:
      if (step.n > layer.positions() || step.from > layer.positions() - step.n) {
        return fmt::format("positions {} to {} are not all stored: there are {}", step.from, step.from + step.n - 1, layer.positions());
      }
      return std::nullopt;
    case EngineOp::restore:
      if (!snapshots_.contains(step.slot)) return "nothing was saved in that slot";
      if (snapshots_.at(step.slot).on != step.on) return "the snapshot is of another layer";
      return std::nullopt;
    case EngineOp::import_state: {
      if (!records_.contains(step.slot)) return "nothing was exported to that slot";
      const EngineLayer& from = records_.at(step.slot).layer.config;
      const EngineLayer& to = layer.config;
      if (step.cut != 0) return fmt::format("the record lacks its last {}", step.cut == 1 ? "byte" : fmt::format("{} bytes", step.cut));
      if (from.layer != to.layer) return fmt::format("the record is of layer {}, this is layer {}", from.layer, to.layer);
      if (from.identity != to.identity) return fmt::format("the record is of model {}, this is model {}", from.identity, to.identity);
      if (from.kv_heads != to.kv_heads || from.head_dim != to.head_dim) {
        return fmt::format("the record is of {} × {}, this layer is {} × {}", from.kv_heads, from.head_dim, to.kv_heads, to.head_dim);
      }
      return std::nullopt;
    }
    case EngineOp::accumulate:
      if (step.numbers.size() == layer.positions()) return std::nullopt;
      return fmt::format("{} masses for {} positions", step.numbers.size(), layer.positions());
    case EngineOp::accept: return layer.draft ? std::nullopt : std::optional<std::string>("there is no draft");
    default: return std::nullopt;
  }
}

void Model::keep(LayerModel& layer, const std::vector<std::size_t>& kept) {
  const std::size_t row = layer.config.row_floats();
  LayerModel next = layer;
  next.k.clear();
  next.v.clear();
  next.importance.clear();
  next.recorded.clear();
  for (std::size_t p : kept) {
    const auto at = static_cast<std::ptrdiff_t>(p * row);
    next.k.insert(next.k.end(), layer.k.begin() + at, layer.k.begin() + at + static_cast<std::ptrdiff_t>(row));
    next.v.insert(next.v.end(), layer.v.begin() + at, layer.v.begin() + at + static_cast<std::ptrdiff_t>(row));
    next.importance.push_back(layer.importance[p]);
    next.recorded.push_back(layer.recorded[p]);
  }
  removed_ = layer.positions() - kept.size();
  layer = std::move(next);
}

void Model::evict(LayerModel& layer, const EngineStep& step) {
  const std::size_t T = layer.positions();
  removed_ = 0;
  if (T <= step.n) return;
  std::vector<std::size_t> kept;
  if (step.op == EngineOp::evict_recent) {
    for (std::size_t p = T - step.n; p < T; ++p) kept.push_back(p);
    return keep(layer, kept);
  }
  const std::size_t sinks = std::min(step.sink, step.n);
  const std::size_t recent = std::min({step.recent, step.n - sinks, T - sinks});
  std::vector<std::size_t> middle;
  for (std::size_t p = 0; p < T; ++p) {
    if (p < sinks || p >= T - recent) kept.push_back(p);
    else middle.push_back(p);
  }
  std::stable_sort(middle.begin(), middle.end(),
                   [&](std::size_t a, std::size_t b) { return layer.importance[a] > layer.importance[b]; });
  for (std::size_t i = 0; kept.size() < step.n; ++i) kept.push_back(middle[i]);
  std::sort(kept.begin(), kept.end());
  keep(layer, kept);
}

void Model::import(LayerModel& layer, const LayerModel& from) {
  const EngineLayer config = layer.config;
  layer = from;
  layer.config = config;
  layer.draft.reset();
  std::fill(layer.recorded.begin(), layer.recorded.end(), std::uint8_t{1});
}

void Model::apply(const EngineStep& step) {
  if (step.op == EngineOp::create) {
    layers_[step.on] = LayerModel{};
    layers_[step.on].config = step.layer;
    return;
  }
  LayerModel& layer = layers_.at(step.on);
  if (changes(step.op)) {
    mix(layer.history, static_cast<std::uint64_t>(step.op));
    for (std::uint64_t x : {std::uint64_t{step.n}, std::uint64_t{step.sink}, std::uint64_t{step.recent}}) mix(layer.history, x);
    mix(layer.history, step.k);
    mix(layer.history, step.v);
  }
  switch (step.op) {
    case EngineOp::append:
    case EngineOp::forward:
      layer.k.insert(layer.k.end(), step.k.begin(), step.k.end());
      layer.v.insert(layer.v.end(), step.v.begin(), step.v.end());
      layer.importance.resize(layer.positions() + step.n, 0.0F);
      layer.recorded.resize(layer.positions(), 0);
      break;
    case EngineOp::truncate: {
      std::vector<std::size_t> kept;
      for (std::size_t p = 0; p + std::min(step.n, layer.positions()) < layer.positions(); ++p) kept.push_back(p);
      keep(layer, kept);
      layer.draft.reset();
      break;
    }
    case EngineOp::clear: {
      const auto history = layer.history;
      const auto past = layer.past;
      const EngineLayer config = layer.config;
      layer = LayerModel{};
      layer.config = config;
      layer.history = history;
      layer.past = past;
      break;
    }
    case EngineOp::snapshot: snapshots_[step.slot] = {step.on, layer}; break;
    case EngineOp::restore: layer = snapshots_.at(step.slot).layer; break;
    case EngineOp::export_state: records_[step.slot] = {step.on, layer}; break;
    case EngineOp::import_state: import(layer, records_.at(step.slot).layer); break;
    case EngineOp::accumulate:
      for (std::size_t p = 0; p < step.numbers.size(); ++p) layer.importance[p] += step.numbers[p];
      break;
    case EngineOp::evict_recent:
    case EngineOp::evict_by_mass: evict(layer, step); break;
    case EngineOp::commit:
      layer.state = step.numbers;
      layer.committed += step.n;
      break;
    case EngineOp::draft: layer.draft = step.numbers; break;
    case EngineOp::accept:
      layer.state = *layer.draft;
      layer.draft.reset();
      ++layer.committed;
      break;
    case EngineOp::discard: layer.draft.reset(); break;
    default: break;
  }
  layer.past |= std::uint32_t{1} << static_cast<unsigned>(step.op);
}

void Model::lose(const EngineStep& step, const std::string& why) {
  if (step.op == EngineOp::create) {
    layers_[step.on] = LayerModel{};
    layers_[step.on].config = step.layer;
    layers_[step.on].unknown = why;
    return;
  }
  if (!layers_.contains(step.on) || !(changes(step.op) || step.op == EngineOp::snapshot || step.op == EngineOp::export_state)) return;
  LayerModel& layer = layers_.at(step.on);
  if (step.op == EngineOp::accumulate) layer.unknown_importance = why;
  else if (step.op == EngineOp::snapshot || step.op == EngineOp::export_state) {
    LayerModel lost = layer;
    lost.unknown = why;
    (step.op == EngineOp::snapshot ? snapshots_ : records_)[step.slot] = {step.on, std::move(lost)};
  } else {
    layer.unknown = why;
  }
}

}  // namespace kvcert::certify
