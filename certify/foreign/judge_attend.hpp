// One attend of a foreign engine: every output against the canonical bits that are claimed, or the bound.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "certify/foreign/judge_case.hpp"
#include "certify/foreign/model.hpp"

namespace kvcert::certify {

/// n positions of a layer, from `from`, and what came back.
struct Attention {
  const LayerModel& layer;
  std::span<const float> q;  ///< [n][query_heads][head_dim]
  std::size_t from = 0, n = 0;
  std::span<const float> got;  ///< as q
  Precision type = Precision::f32;  ///< in which the numbers were sent

  std::size_t at(std::size_t i, std::size_t head) const { return (i * layer.config.query_heads + head) * layer.config.head_dim; }
};

struct AttentionVerdict {
  std::uint64_t judged = 0;     ///< outputs
  std::string wrong, law;       ///< the first one that is wrong
  std::string not_judged;       ///< why some were not judged
  std::string explained;        ///< where asked for
  std::vector<double> allowed;  ///< [n × query_floats]: twice the bound; empty where some output has none
};

AttentionVerdict judge_attention(const Attention& attention, const Declared& declared, EngineTally& tally, bool explain);

/// Remembers answers within one case, for engines that claim the same bits again.
class ClaimsBook {
 public:
  /// The sentence of a broken claim, or nothing.
  std::string check(const Attention& attention, const Declared& declared);

 private:
  std::map<std::uint64_t, std::vector<float>> same_history_, same_position_;
};

}  // namespace kvcert::certify
