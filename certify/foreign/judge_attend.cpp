#include "certify/foreign/judge_attend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "certify/bits.hpp"
#include "reference/evaluate.hpp"

namespace kvcert::certify {
namespace {

/// The visible rows of one KV head for one position, and what storage may have done to them.
struct Visible {
  std::vector<float> keys, values, key_error, value_error;
  Precision key_storage{}, value_storage{};
  std::size_t rows = 0;
};

Visible visible_rows(const LayerModel& layer, std::size_t position, std::size_t kv_head, const Declared& declared) {
  Visible rows;
  const std::size_t first = layer.first_visible(position);
  const std::size_t dim = layer.config.head_dim;
  rows.rows = position + 1 - first;
  rows.keys = layer.head_rows(layer.k, kv_head, first, position + 1);
  rows.values = layer.head_rows(layer.v, kv_head, first, position + 1);
  const bool recorded = std::any_of(layer.recorded.begin() + static_cast<std::ptrdiff_t>(first),
                                    layer.recorded.begin() + static_cast<std::ptrdiff_t>(position) + 1, [](auto x) { return x != 0; });
  rows.key_storage = recorded ? coarser(declared.key_storage, declared.record) : declared.key_storage;
  rows.value_storage = recorded ? coarser(declared.value_storage, declared.record) : declared.value_storage;
  rows.key_error = storage_error(rows.key_storage, declared.key_group, rows.keys, dim);
  rows.value_error = storage_error(rows.value_storage, declared.value_group, rows.values, dim);
  return rows;
}

HeadBound bound_of(const Attention& a, const Visible& rows, std::size_t i, std::size_t head, const Declared& declared) {
  const EngineLayer& config = a.layer.config;
  HeadInput in{.q = a.q.subspan(a.at(i, head), config.head_dim),
               .keys = rows.keys,
               .values = rows.values,
               .key_error = rows.key_error,
               .value_error = rows.value_error,
               .scale = config.scale,
               .softcap = config.softcap,
               .sink = std::nullopt};
  if (!config.sinks.empty()) in.sink = config.sinks[head];
  if (overflows(rows.key_storage, rows.keys) || overflows(rows.value_storage, rows.values) || overflows(declared.query, in.q)) {
    HeadBound none;
    none.not_covered = "a number does not fit the declared storage";
    return none;
  }
  EngineParameters parameters = parameters_for(declared, config.head_dim, rows.rows, in.sink.has_value());
  parameters.u_k = storage_roundoff(rows.key_storage);
  parameters.u_v = storage_roundoff(rows.value_storage);
  HeadBound bound = evaluate_bound(in, parameters, a.got.subspan(a.at(i, head), config.head_dim));
  if (a.type != Precision::f32) {  // the answer itself was rounded when it was sent
    const Format format = format_of(a.type);
    for (std::size_t d = 0; d < bound.bound.size(); ++d) {
      bound.bound[d] += (std::fabs(bound.exact[d]) + bound.bound[d]) * format.u * (1 + 0x1p-40) + format.lambda;
    }
  }
  return bound;
}

void count_coverage(const LayerModel& layer, std::size_t position, std::size_t n, EngineTally& tally) {
  const EngineLayer& config = layer.config;
  auto& row = tally.heads.coverage[fmt::format("{}×{}, {} query heads", config.kv_heads, config.head_dim, config.query_heads)];
  const bool features[] = {true,
                           config.window != 0,
                           config.window != 0 && position >= config.window,
                           !config.sinks.empty(),
                           config.softcap != 0,
                           layer.group() > 1,
                           n > 1,
                           layer.has(EngineOp::truncate),
                           layer.has(EngineOp::restore),
                           layer.has(EngineOp::import_state),
                           layer.has(EngineOp::clear),
                           layer.has(EngineOp::evict_recent) || layer.has(EngineOp::evict_by_mass)};
  for (std::size_t f = 0; f < std::size(features); ++f) row[coverage_features()[f]] += features[f] ? 1 : 0;
}

/// The canonical bits of one position's head.
std::vector<float> canonical_head(const Attention& a, std::size_t i, std::size_t head) {
  const EngineLayer& config = a.layer.config;
  const std::size_t position = a.from + i;
  const auto keys = a.layer.head_rows(a.layer.k, head / a.layer.group(), 0, position + 1);
  const auto values = a.layer.head_rows(a.layer.v, head / a.layer.group(), 0, position + 1);
  Query query{.q_group = a.q.subspan(a.at(i, head), config.head_dim), .kv_head = 0, .scale = config.scale,
              .first = a.layer.first_visible(position), .softcap = config.softcap, .sinks = {}};
  if (!config.sinks.empty()) query.sinks = std::span(config.sinks).subspan(head, 1);
  return reference::canonical_attend_group(query, keys, values, config.head_dim, position + 1).output;
}

constexpr std::uint32_t canary = 0x7FA5A5A5U;  // what the plug-in host fills outputs with

std::string describe(std::size_t position, std::size_t head, std::size_t d, const LayerModel& layer, float got, const HeadBound& bound) {
  return fmt::format("position {} (sees rows {} to {}), query head {} (KV head {}), channel {}: expected {:.9g} ± {:.2g}, got {}",
                     position, layer.first_visible(position), position, head, head / layer.group(), d, bound.exact[d], bound.bound[d],
                     bits(got) == canary ? "nothing: the output was left unwritten"
                     : std::isfinite(got)  ? fmt::format("{} (0x{:08x}), {:.3g} ulps away", got, bits(got), ulps_of(bound.error[d], bound.exact[d]))
                                           : fmt::format("{} (0x{:08x})", got, bits(got)));
}

class AttentionJudge {
 public:
  AttentionJudge(const Attention& a, const Declared& declared, EngineTally& tally, bool explain)
      : a_(a), declared_(declared), tally_(tally), explain_(explain) {}

  AttentionVerdict run() {
    const EngineLayer& config = a_.layer.config;
    result_.allowed.assign(a_.got.size(), 0.0);
    for (std::size_t i = 0; i < a_.n; ++i) {
      for (std::size_t kv_head = 0; kv_head < config.kv_heads; ++kv_head) {
        const Visible rows = visible_rows(a_.layer, a_.from + i, kv_head, declared_);
        for (std::size_t g = 0; g < a_.layer.group(); ++g) head(i, kv_head * a_.layer.group() + g, rows);
      }
    }
    if (some_without_bound_) result_.allowed.clear();
    if (explain_) result_.explained = fmt::format("{} outputs, {} judged{}", a_.n * config.query_heads, result_.judged, lines_);
    return std::move(result_);
  }

 private:
  void head(std::size_t i, std::size_t head, const Visible& rows) {
    const std::size_t dim = a_.layer.config.head_dim;
    const auto got = a_.got.subspan(a_.at(i, head), dim);
    const std::size_t position = a_.from + i;
    const HeadBound bound = bound_of(a_, rows, i, head, declared_);
    const bool covered = bound.not_covered.empty();
    if (covered) within(i, head, bound, got);
    if (declared_.canonical) canonical(i, head, got);
    if (!covered) {
      some_without_bound_ = true;
      ++tally_.heads.not_judged[bound.not_covered];
      if (!declared_.canonical) {
        ++tally_.heads.heads[Judgement::not_judged];
        result_.not_judged = bound.not_covered;
        return;
      }
    }
    ++result_.judged;
    ++tally_.heads.heads[declared_.canonical ? Judgement::bit_identical : Judgement::within_bound];
    count_coverage(a_.layer, position, a_.n, tally_);
    if (explain_ && covered) {
      lines_ += fmt::format("\n         position {} sees rows {} to {}, head {}: expected {:.9g}, got {:.9g}, {:.3g} of the bound", position,
                            a_.layer.first_visible(position), position, head, bound.exact[0], got[0],
                            bound.bound[0] == 0 ? 0 : bound.error[0] / bound.bound[0]);
    }
  }

  void within(std::size_t i, std::size_t head, const HeadBound& bound, std::span<const float> got) {
    for (std::size_t d = 0; d < got.size(); ++d) {
      result_.allowed[a_.at(i, head) + d] = 2 * bound.bound[d];
      if (!(bound.error[d] <= bound.bound[d])) {
        if (result_.wrong.empty()) {
          result_.wrong = describe(a_.from + i, head, d, a_.layer, got[d], bound);
          ++tally_.heads.heads[Judgement::wrong];
        }
        continue;
      }
      tally_.heads.count(bound, d);
    }
  }

  void canonical(std::size_t i, std::size_t head, std::span<const float> got) {
    const auto found = difference(fmt::format("position {}, query head {}: out", a_.from + i, head), got, canonical_head(a_, i, head));
    if (!found || !result_.wrong.empty()) return;
    result_.wrong = "canonical bits are claimed, and " + *found;
    result_.law = "law 13: the bits of the canonical arithmetic";
    ++tally_.heads.heads[Judgement::wrong];
  }

  const Attention& a_;
  const Declared& declared_;
  EngineTally& tally_;
  bool explain_;
  bool some_without_bound_ = false;
  std::string lines_;
  AttentionVerdict result_;
};

void mix(std::uint64_t& hash, std::span<const float> numbers) {
  for (float x : numbers) {
    for (unsigned shift = 0; shift < 32; shift += 8) hash = (hash ^ ((bits(x) >> shift) & 0xFFU)) * 0x100000001B3U;
  }
}

void mix(std::uint64_t& hash, std::uint64_t value) {
  for (unsigned shift = 0; shift < 64; shift += 8) hash = (hash ^ ((value >> shift) & 0xFFU)) * 0x100000001B3U;
}

}  // namespace

const std::vector<std::string>& coverage_features() {
  static const std::vector<std::string> features{"attention", "window", "past the window", "sinks", "softcap", "grouped queries",
                                                 "chunks", "rollback", "snapshot", "record", "clear", "eviction"};
  return features;
}

AttentionVerdict judge_attention(const Attention& attention, const Declared& declared, EngineTally& tally, bool explain) {
  return AttentionJudge(attention, declared, tally, explain).run();
}

std::string ClaimsBook::check(const Attention& a, const Declared& declared) {
  const EngineLayer& config = a.layer.config;
  std::uint64_t setting = 0xCBF29CE484222325U;
  for (std::uint64_t x : {std::uint64_t{config.kv_heads}, std::uint64_t{config.head_dim}, std::uint64_t{config.query_heads},
                          std::uint64_t{config.window}, std::uint64_t{bits(config.scale)}, std::uint64_t{bits(config.softcap)}}) mix(setting, x);
  mix(setting, config.sinks);
  if (declared.deterministic) {
    std::uint64_t key = setting ^ a.layer.history;
    mix(key, std::uint64_t{a.from});
    mix(key, a.q);
    const auto [known, added] = same_history_.try_emplace(key, a.got.begin(), a.got.end());
    if (!added) {
      if (const auto found = difference("out", a.got, known->second)) return "the same bits again are claimed, and after the same history " + *found;
    }
  }
  if (!declared.batch_invariant) return {};
  std::uint64_t rows = setting;
  std::size_t hashed = 0;
  for (std::size_t i = 0; i < a.n; ++i) {
    const std::size_t position = a.from + i;
    for (; hashed <= position; ++hashed) {
      mix(rows, std::span(a.layer.k).subspan(hashed * config.row_floats(), config.row_floats()));
      mix(rows, std::span(a.layer.v).subspan(hashed * config.row_floats(), config.row_floats()));
      mix(rows, std::uint64_t{a.layer.recorded[hashed]});
    }
    std::uint64_t key = rows;
    mix(key, a.q.subspan(a.at(i, 0), config.query_floats()));
    const auto got = a.got.subspan(a.at(i, 0), config.query_floats());
    const auto [known, added] = same_position_.try_emplace(key, got.begin(), got.end());
    if (added) continue;
    if (const auto found = difference("out", got, known->second)) {
      return fmt::format("a position's bits are claimed not to depend on what is computed beside it, and at position {} {}", position, *found);
    }
  }
  return {};
}

}  // namespace kvcert::certify
