// Known ways to get attention wrong, each evaluated on the case itself: which of them gives the answer that came?
//
// This runs after an answer was found wrong, names a likely cause, and decides nothing. Binary64 is enough for it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "certify/bits.hpp"
#include "certify/foreign/judge_case.hpp"

namespace kvcert::certify {
namespace {

enum class HeadMap { right, tiled, first, next };
enum class SinkUse { right, dropped, twice, capped, next_head, first_head, has_value, once_per_chunk };
enum class CapUse { right, dropped, before_scale, x_tanh, clamped, no_factor };
enum class ScaleUse { right, none, twice, per_dim };

/// One reading of the formula.
struct Reading {
  long window = 0;  ///< rows more or less
  bool window_ignored = false, sees_next = false, sees_chunk = false, misses_newest = false, padded = false, swapped = false;
  HeadMap heads{};
  SinkUse sink{};
  CapUse cap{};
  ScaleUse scale{};
};

double score_of(double dot, const EngineLayer& config, const Reading& reading) {
  const double c = config.softcap;
  double s = dot * double{config.scale};
  if (reading.scale == ScaleUse::none) s = dot;
  if (reading.scale == ScaleUse::twice) s *= double{config.scale};
  if (reading.scale == ScaleUse::per_dim) s = dot / static_cast<double>(config.head_dim);
  if (c == 0 || reading.cap == CapUse::dropped) return s;
  switch (reading.cap) {
    case CapUse::before_scale: return double{config.scale} * c * std::tanh(dot / c);
    case CapUse::x_tanh: return s * std::tanh(s / c);
    case CapUse::clamped: return std::clamp(s, -c, c);
    case CapUse::no_factor: return std::tanh(s / c);
    default: return c * std::tanh(s / c);
  }
}

/// The sinks that join a head's softmax.
std::vector<double> sinks_of(const EngineLayer& config, std::size_t head, const Reading& reading) {
  if (config.sinks.empty() || reading.sink == SinkUse::dropped) return {};
  const double own = config.sinks[head];
  switch (reading.sink) {
    case SinkUse::twice: return {own, own};
    case SinkUse::capped: return {config.softcap == 0 ? own : double{config.softcap} * std::tanh(own / double{config.softcap})};
    case SinkUse::next_head: return {config.sinks[(head + 1) % config.sinks.size()]};
    case SinkUse::first_head: return {config.sinks[0]};
    default: return {own};
  }
}

std::size_t kv_head_of(const LayerModel& layer, std::size_t head, const Reading& reading) {
  const std::size_t right = head / layer.group();
  switch (reading.heads) {
    case HeadMap::tiled: return head % layer.config.kv_heads;
    case HeadMap::first: return 0;
    case HeadMap::next: return (right + 1) % layer.config.kv_heads;
    case HeadMap::right: break;
  }
  return right;
}

struct Span {
  std::size_t first, end;
  std::size_t zeros = 0;  ///< rows of zeros beside them
};

Span visible(const LayerModel& layer, std::size_t position, std::size_t chunk_end, const Reading& reading) {
  Span span{layer.first_visible(position), position + 1};
  const std::size_t W = layer.config.window;
  if (reading.window_ignored) span.first = 0;
  if (reading.window > 0 && W != 0) span.first -= std::min<std::size_t>(span.first, static_cast<std::size_t>(reading.window));
  if (reading.window < 0 && W != 0 && position + 1 >= W) span.first = std::min(span.first + static_cast<std::size_t>(-reading.window), position + 1);
  if (reading.sees_next) span.end = std::min(span.end + 1, layer.positions());
  if (reading.sees_chunk) span.end = chunk_end;
  if (reading.misses_newest) --span.end;
  if (reading.padded && W > position + 1) span.zeros = W - position - 1;
  return span;
}

/// One head's output under a reading.
void evaluate_head(const LayerModel& layer, std::span<const float> q, std::size_t head, Span rows, const Reading& reading,
                   double* out) {
  const EngineLayer& config = layer.config;
  const auto& keys = reading.swapped ? layer.v : layer.k;
  const auto& values = reading.swapped ? layer.k : layer.v;
  const std::size_t at = kv_head_of(layer, head, reading) * config.head_dim;
  std::vector<double> scores;
  for (std::size_t p = rows.first; p < rows.end; ++p) {
    double dot = 0;
    for (std::size_t d = 0; d < config.head_dim; ++d) dot += double{q[d]} * double{keys[p * config.row_floats() + at + d]};
    scores.push_back(score_of(dot, config, reading));
  }
  const auto sinks = sinks_of(config, head, reading);
  double m = -std::numeric_limits<double>::infinity();
  for (double s : scores) m = std::max(m, s);
  for (double s : sinks) m = std::max(m, s);
  if (rows.zeros > 0) m = std::max(m, 0.0);
  double den = static_cast<double>(rows.zeros) * std::exp(-m);
  for (double s : sinks) den += std::exp(s - m);
  const double sink_mass = den;
  for (double s : scores) den += std::exp(s - m);
  for (std::size_t d = 0; d < config.head_dim; ++d) {
    double sum = reading.sink == SinkUse::has_value ? sink_mass : 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      sum += std::exp(scores[i] - m) * double{values[(rows.first + i) * config.row_floats() + at + d]};
    }
    out[d] = den == 0 ? 0 : sum / den;
  }
}

std::vector<double> evaluate(const LayerModel& layer, const EngineStep& step, std::size_t from, const Reading& reading) {
  const EngineLayer& config = layer.config;
  std::vector<double> out(step.n * config.query_floats());
  for (std::size_t i = 0; i < step.n; ++i) {
    for (std::size_t head = 0; head < config.query_heads; ++head) {
      const std::size_t at = (i * config.query_heads + head) * config.head_dim;
      evaluate_head(layer, std::span(step.q).subspan(at, config.head_dim), head,
                    visible(layer, from + i, from + step.n, reading), reading, &out[at]);
    }
  }
  return out;
}

struct Formula {
  const char* behaviour;
  Reading reading;
};

const std::vector<Formula>& formulas() {
  static const std::vector<Formula> all{
      {"as if the window held W+1 keys", {.window = 1}},
      {"as if the window held W-1 keys", {.window = -1}},
      {"as if there were no window", {.window_ignored = true}},
      {"as if the slots of a ring that is not full held rows of zeros", {.padded = true}},
      {"as if each position saw the one after it", {.sees_next = true}},
      {"as if each position saw its whole chunk", {.sees_chunk = true}},
      {"as if a position did not see itself", {.misses_newest = true}},
      {"as if the heads were tiled: query head h reads KV head h mod KVH", {.heads = HeadMap::tiled}},
      {"as if every query head read KV head 0", {.heads = HeadMap::first}},
      {"as if every query head read the next KV head", {.heads = HeadMap::next}},
      {"as if keys and values were exchanged", {.swapped = true}},
      {"as if there were no sink", {.sink = SinkUse::dropped}},
      {"as if the sink were counted twice", {.sink = SinkUse::twice}},
      {"as if the sink were soft-capped", {.sink = SinkUse::capped}},
      {"as if each head used the sink of the next one", {.sink = SinkUse::next_head}},
      {"as if all heads used the sink of head 0", {.sink = SinkUse::first_head}},
      {"as if the sink had a value of 1", {.sink = SinkUse::has_value}},
      {"as if there were no softcap", {.cap = CapUse::dropped}},
      {"as if the cap came before the scale", {.cap = CapUse::before_scale}},
      {"as if the cap were s * tanh(s / c)", {.cap = CapUse::x_tanh}},
      {"as if the cap clamped", {.cap = CapUse::clamped}},
      {"as if the cap left out the factor c", {.cap = CapUse::no_factor}},
      {"as if scores were not scaled", {.scale = ScaleUse::none}},
      {"as if scores were scaled twice", {.scale = ScaleUse::twice}},
      {"as if the scale were 1 / head_dim", {.scale = ScaleUse::per_dim}},
  };
  return all;
}

/// A misreading of the history: the steps that an engine did instead. False: it does not concern this step.
struct Story {
  const char* behaviour;
  std::function<bool(EngineStep&, const Model&, const std::vector<EngineStep>& before)> edit;
};

std::size_t last_batch(const std::vector<EngineStep>& before, std::size_t on) {
  for (auto step = before.rbegin(); step != before.rend(); ++step) {
    if (step->on == on && (step->op == EngineOp::append || step->op == EngineOp::forward)) return step->n;
  }
  return 0;
}

/// [n][heads][dim] read as [heads][n][dim].
void as_head_major(std::vector<float>& rows, std::size_t n, const EngineLayer& config) {
  const std::vector<float> from = rows;
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t h = 0; h < config.kv_heads; ++h) {
      for (std::size_t d = 0; d < config.head_dim; ++d) {
        rows[(p * config.kv_heads + h) * config.head_dim + d] = from[(h * n + p) * config.head_dim + d];
      }
    }
  }
}

EngineStep nothing(const EngineStep& step) { return {.op = EngineOp::length, .on = step.on, .layer = {}, .k = {}, .v = {}, .q = {}, .numbers = {}}; }

const std::vector<Story>& stories() {
  using Steps = std::vector<EngineStep>;
  static const std::vector<Story> all{
      {"as if truncate took one position less", [](EngineStep& s, const Model&, const Steps&) {
         return s.op == EngineOp::truncate && s.n > 0 ? (--s.n, true) : false; }},
      {"as if truncate took one position more", [](EngineStep& s, const Model&, const Steps&) {
         return s.op == EngineOp::truncate ? (++s.n, true) : false; }},
      {"as if truncate took the whole last batch", [](EngineStep& s, const Model&, const Steps& before) {
         return s.op == EngineOp::truncate ? (s.n = last_batch(before, s.on), true) : false; }},
      {"as if truncate did nothing", [](EngineStep& s, const Model&, const Steps&) {
         return s.op == EngineOp::truncate ? (s = nothing(s), true) : false; }},
      {"as if restore did nothing: the snapshot shares the layer's rows", [](EngineStep& s, const Model&, const Steps&) {
         return s.op == EngineOp::restore ? (s = nothing(s), true) : false; }},
      {"as if import did nothing", [](EngineStep& s, const Model&, const Steps&) {
         return s.op == EngineOp::import_state ? (s = nothing(s), true) : false; }},
      {"as if clear left the first row", [](EngineStep& s, const Model& m, const Steps&) {
         if (s.op != EngineOp::clear || m.layer(s).positions() == 0) return false;
         const std::size_t n = m.layer(s).positions() - 1;
         s = nothing(s);
         s.op = EngineOp::truncate;
         s.n = n;
         return true; }},
      {"as if eviction kept the most recent positions only", [](EngineStep& s, const Model&, const Steps&) {
         return s.op == EngineOp::evict_by_mass ? (s.op = EngineOp::evict_recent, true) : false; }},
      {"as if chunks were laid out [kv_heads][n][head_dim]", [](EngineStep& s, const Model& m, const Steps&) {
         if ((s.op != EngineOp::append && s.op != EngineOp::forward) || s.n < 2) return false;
         as_head_major(s.k, s.n, m.layer(s).config);
         as_head_major(s.v, s.n, m.layer(s).config);
         return true; }},
  };
  return all;
}

/// The model before step `at`'s question, with the history edited; nothing if it does not concern this case or makes no sense.
std::optional<Model> told(const EngineCase& test, std::size_t at, const Story* story) {
  Model model;
  std::vector<EngineStep> before;
  bool concerned = story == nullptr;
  for (std::size_t i = 0; i <= at; ++i) {
    EngineStep step = test.steps[i];
    if (model.must_refuse(step)) continue;
    if (story != nullptr && i < at + (step.op == EngineOp::forward ? 1 : 0) && model.has_layer(step)) {
      concerned = story->edit(step, model, before) || concerned;
    }
    if (model.must_refuse(step)) return std::nullopt;
    model.apply(step);
    before.push_back(test.steps[i]);
  }
  if (!concerned) return std::nullopt;
  return model;
}

bool near(std::span<const float> got, std::span<const double> other, std::span<const double> allowed, double times) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(std::fabs(double{got[i]} - other[i]) <= times * allowed[i])) return false;
  }
  return true;
}

}  // namespace

std::string hint_for_length(const EngineCase& test, std::size_t at, std::uint64_t got) {
  for (const Story& story : stories()) {
    const auto other = told(test, at, &story);
    if (other && other->has_layer(test.steps[at]) && other->layer(test.steps[at]).length() == got) return fmt::format("it answers {}", story.behaviour);
  }
  return {};
}

std::string hint_for(const EngineCase& test, std::size_t at, std::span<const float> got, std::span<const double> allowed) {
  const EngineStep& step = test.steps[at];
  if (std::any_of(got.begin(), got.end(), [](float x) { return bits(x) == 0x7FA5A5A5U; })) return "it left outputs unwritten";
  const auto right = told(test, at, nullptr);
  if (!right) return {};
  const LayerModel& layer = right->layer(step);
  const std::size_t from = step.op == EngineOp::forward ? layer.positions() - step.n : step.from;
  // A truncate or evict that the engine refused, as it may, is told here as if it had been done: rows may then be missing.
  if (layer.positions() < from + step.n) return {};
  const auto expected = evaluate(layer, step, from, {});
  std::vector<float> expected32(expected.begin(), expected.end());
  const auto fits = [&](const std::vector<double>& answer) {
    return near(got, answer, allowed, 2) && !near(expected32, answer, allowed, 4);
  };
  std::vector<std::string> found;  // one case alone may not tell them apart
  for (const Formula& formula : formulas()) {
    if (fits(evaluate(layer, step, from, formula.reading))) found.emplace_back(formula.behaviour);
  }
  for (const Story& story : stories()) {
    const auto other = told(test, at, &story);
    if (!other || !other->has_layer(step) || other->layer(step).positions() < from + step.n) continue;
    if (fits(evaluate(other->layer(step), step, from, {}))) found.emplace_back(story.behaviour);
  }
  if (!found.empty()) return fmt::format("it answers {}", fmt::join(found, ", or "));
  if (std::any_of(got.begin(), got.end(), [](float x) { return std::isnan(x); })) return "it answers NaN where every input is finite";
  if (std::all_of(got.begin(), got.end(), [](float x) { return x == 0; })) return "it answers as if every weight had vanished";
  return {};
}

}  // namespace kvcert::certify
