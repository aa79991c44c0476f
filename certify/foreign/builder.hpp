// Writing a case step by step. Rows are numbered through the whole case, so that a row can say where it was appended.
#pragma once

#include <cmath>
#include <utility>

#include "certify/foreign/suite.hpp"

namespace kvcert::certify {

class CaseBuilder {
 public:
  explicit CaseBuilder(std::string about) { case_.about = std::move(about); }

  CaseBuilder& create(const EngineLayer& layer, std::size_t on = 0) {
    EngineStep& step = add(EngineOp::create, on);
    step.layer = layer;
    layers_.resize(std::max(layers_.size(), on + 1));
    layers_[on] = layer;
    on_ = on;
    return *this;
  }
  /// The steps that follow are about this layer.
  CaseBuilder& on(std::size_t layer) {
    on_ = layer;
    return *this;
  }

  /// key(row, kv_head, channel), value(row, kv_head, channel), query(row, query_head, channel).
  template <class Key, class Value>
  CaseBuilder& append(std::size_t n, const Key& key, const Value& value) {
    EngineStep& step = add(EngineOp::append, on_);
    rows(step, n, key, value);
    return *this;
  }
  template <class Key, class Value, class Query>
  CaseBuilder& forward(std::size_t n, const Key& key, const Value& value, const Query& query) {
    EngineStep& step = add(EngineOp::forward, on_);
    rows(step, n, key, value);
    queries(step, n, query);
    return *this;
  }
  template <class Query>
  CaseBuilder& attend(std::size_t from, std::size_t n, const Query& query) {
    EngineStep& step = add(EngineOp::attend, on_);
    step.from = from;
    step.n = n;
    queries(step, n, query);
    return *this;
  }
  CaseBuilder& simple(EngineOp op) {
    add(op, on_);
    return *this;
  }
  CaseBuilder& truncate(std::size_t n) {
    add(EngineOp::truncate, on_).n = n;
    return *this;
  }
  CaseBuilder& slot(EngineOp op, std::size_t slot, std::size_t cut = 0) {
    EngineStep& step = add(op, on_);
    step.slot = slot;
    step.cut = cut;
    return *this;
  }
  CaseBuilder& numbers(EngineOp op, std::vector<float> numbers, std::size_t n = 0) {
    EngineStep& step = add(op, on_);
    step.numbers = std::move(numbers);
    step.n = n;
    return *this;
  }
  CaseBuilder& evict(std::size_t keep, std::optional<std::pair<std::size_t, std::size_t>> sink_recent = {}) {
    EngineStep& step = add(sink_recent ? EngineOp::evict_by_mass : EngineOp::evict_recent, on_);
    step.n = keep;
    if (sink_recent) std::tie(step.sink, step.recent) = *sink_recent;
    return *this;
  }
  CaseBuilder& closed_form(std::vector<double> numbers) {
    case_.closed_form = std::move(numbers);
    return *this;
  }
  EngineCase take() { return std::move(case_); }
  std::size_t rows_so_far() const { return row_; }
  void rows_from(std::size_t row) { row_ = row; }

 private:
  EngineStep& add(EngineOp op, std::size_t on) {
    case_.steps.emplace_back();
    case_.steps.back().op = op;
    case_.steps.back().on = on;
    return case_.steps.back();
  }
  template <class Key, class Value>
  void rows(EngineStep& step, std::size_t n, const Key& key, const Value& value) {
    const EngineLayer& layer = layers_[on_];
    step.n = n;
    for (std::size_t i = 0; i < n; ++i, ++row_) {
      for (std::size_t head = 0; head < layer.kv_heads; ++head) {
        for (std::size_t d = 0; d < layer.head_dim; ++d) {
          step.k.push_back(key(row_, head, d));
          step.v.push_back(value(row_, head, d));
        }
      }
    }
  }
  template <class Query>
  void queries(EngineStep& step, std::size_t n, const Query& query) {
    const EngineLayer& layer = layers_[on_];
    step.n = n;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t head = 0; head < layer.query_heads; ++head) {
        for (std::size_t d = 0; d < layer.head_dim; ++d) step.q.push_back(query(i, head, d));
      }
    }
  }

  EngineCase case_;
  std::vector<EngineLayer> layers_;
  std::size_t on_ = 0, row_ = 0;
};

/// The layer of a shape, with the scale models use.
inline EngineLayer layer_of(const Shape& shape) {
  EngineLayer layer;
  layer.kv_heads = shape.kv_heads;
  layer.head_dim = shape.head_dim;
  layer.query_heads = shape.kv_heads * shape.fan_out;
  layer.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  return layer;
}

// Fillings that many cases share.
inline float any_key(std::size_t row, std::size_t head, std::size_t d) {
  return static_cast<float>((row * 7 + head * 3 + d) % 5) - 2.0F;
}
inline float row_number(std::size_t row, std::size_t, std::size_t) { return static_cast<float>(row); }
inline float zero(std::size_t, std::size_t, std::size_t) { return 0.0F; }
/// Tells row, KV head and channel apart.
inline float unique(std::size_t row, std::size_t head, std::size_t d) {
  return static_cast<float>(row * 16 + head * 4) + static_cast<float>(d % 8) * 0.25F;
}
inline auto normal(Random& random, float factor = 1) {
  return [&random, factor](std::size_t, std::size_t, std::size_t) { return random.normal() * factor; };
}
/// Mean of rows from ... to - 1.
inline double mean(std::size_t from, std::size_t to) { return (static_cast<double>(from) + static_cast<double>(to) - 1) / 2; }

}  // namespace kvcert::certify
