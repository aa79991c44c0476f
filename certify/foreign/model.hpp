// What a case's layers hold after each step: the contract's operations on plain rows, without any arithmetic on them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "certify/foreign/case.hpp"

namespace kvcert::certify {

struct LayerModel {
  EngineLayer config;
  std::vector<float> k, v;              ///< [T][kv_heads × head_dim]
  std::vector<float> importance;        ///< [T]
  std::vector<std::uint8_t> recorded;   ///< [T], 1 = the row came out of a record
  std::uint64_t committed = 0;          ///< positions of a recurrent state
  std::vector<float> state;
  std::optional<std::vector<float>> draft;
  /// Not empty: why nothing can be said about this layer any more (a step was not supported).
  std::string unknown, unknown_importance;
  std::uint64_t history = 0xCBF29CE484222325U;  ///< of everything that was done to it
  std::uint32_t past = 0;                       ///< bit per EngineOp: what its life had in it
  bool has(EngineOp op) const { return (past >> static_cast<unsigned>(op) & 1U) != 0; }

  std::size_t positions() const { return importance.size(); }
  std::uint64_t length() const { return positions() + committed; }
  /// The first position that `position` sees.
  std::size_t first_visible(std::size_t position) const {
    return config.window == 0 || position + 1 < config.window ? 0 : position + 1 - config.window;
  }
  std::size_t group() const { return config.query_heads / config.kv_heads; }
  /// Rows from ... to - 1 of one KV head, [rows × head_dim].
  std::vector<float> head_rows(const std::vector<float>& tensor, std::size_t kv_head, std::size_t from, std::size_t to) const;
};

class Model {
 public:
  /// Why this step must be refused, if it must.
  std::optional<std::string> must_refuse(const EngineStep& step) const;
  /// Does the step, which must not be one that is refused.
  void apply(const EngineStep& step);
  /// The engine did not do the step: nothing more can be said about what depends on it.
  void lose(const EngineStep& step, const std::string& why);
  const LayerModel& layer(const EngineStep& step) const { return layers_.at(step.on); }
  bool has_layer(const EngineStep& step) const { return layers_.contains(step.on); }
  /// How many positions the last evict removed.
  std::size_t removed() const { return removed_; }

 private:
  struct Saved {
    std::size_t on = 0;
    LayerModel layer;
  };
  void keep(LayerModel& layer, const std::vector<std::size_t>& kept);
  void evict(LayerModel& layer, const EngineStep& step);
  void import(LayerModel& layer, const LayerModel& from);

  std::map<std::size_t, LayerModel> layers_;
  std::map<std::size_t, Saved> snapshots_, records_;
  std::size_t removed_ = 0;
};

}  // namespace kvcert::certify
