#include "certify/foreign/judge_case.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "certify/bits.hpp"
#include "certify/foreign/judge_attend.hpp"

namespace kvcert::certify {
namespace {

/// What a step is about, for "which law".
std::string law_of(EngineOp op, const LayerModel& layer) {
  if (op == EngineOp::length || op == EngineOp::state || op == EngineOp::importance || op == EngineOp::attend ||
      op == EngineOp::forward) {
    if (layer.has(EngineOp::import_state)) return "law 7: import of export = the layer";
    if (layer.has(EngineOp::restore)) return "law 6: restore = the past, and nothing is shared";
    if (layer.has(EngineOp::evict_by_mass) || layer.has(EngineOp::evict_recent)) return "law 15: the kept set, in order, everything aligned";
    if (layer.has(EngineOp::truncate)) return "law 5: append n, truncate n = nothing happened";
    if (layer.has(EngineOp::clear)) return "law 10: cleared = new";
    if (op == EngineOp::forward) return "law 2: a chunk = its positions one by one";
    return "law 14: the real value, and an error below its bound";
  }
  if (op == EngineOp::evict_by_mass || op == EngineOp::evict_recent) return "law 15: the kept set, in order, everything aligned";
  return "law 9: a refused call changes nothing, and what must be refused is";
}

class CaseJudge {
 public:
  CaseJudge(const EngineCase& test, const EngineAnswer& answer, const Declared& declared, EngineTally& tally, JudgeOptions options)
      : test_(test), answer_(answer), declared_(declared), tally_(tally), options_(options) {}

  CaseVerdict run() {
    if (!answer_.environment.empty()) return wrong(0, "law 13: FTZ, DAZ and rounding modes", "the library changed the caller's floating-point environment: " + answer_.environment);
    if (answer_.steps.size() > test_.steps.size()) {
      return wrong(test_.steps.size() - 1, "the protocol", fmt::format("{} answers to {} steps", answer_.steps.size(), test_.steps.size()));
    }
    for (std::size_t i = 0; i < test_.steps.size(); ++i) {
      if (i >= answer_.steps.size()) {
        return wrong(i, "the protocol", fmt::format("{} answers to {} steps", answer_.steps.size(), test_.steps.size()));
      }
      if (!step(i)) break;
    }
    if (verdict_.verdict == Judgement::wrong) return verdict_;
    // A case with a step that was not done says nothing as a whole, however good its other outputs are.
    if (!skipped_.empty()) verdict_.sentence = skipped_;
    else if (judged_ > 0) verdict_.verdict = declared_.canonical ? Judgement::bit_identical : Judgement::within_bound;
    else if (exact_ > 0 && why_not_.empty()) verdict_.verdict = Judgement::holds;
    else verdict_.sentence = why_not_.empty() ? "it asks nothing" : why_not_;
    return verdict_;
  }

 private:
  CaseVerdict& wrong(std::size_t i, std::string law, std::string sentence) {
    verdict_.verdict = Judgement::wrong;
    verdict_.step = i;
    verdict_.law = std::move(law);
    verdict_.sentence = fmt::format("step {} ({}): {}", i + 1, i < test_.steps.size() ? name(test_.steps[i].op) : "?", sentence);
    return verdict_;
  }

  void explain(std::size_t i, const std::string& text) {
    if (!options_.explain) return;
    const EngineStep& step = test_.steps[i];
    verdict_.explained.push_back(fmt::format("step {:>2}  {}{}  {}", i + 1, name(step.op), step.on == 0 ? "" : fmt::format(" (layer {})", step.on), text));
  }

  /// False where nothing more can be said about the case.
  bool step(std::size_t i) {
    const EngineStep& step = test_.steps[i];
    const StepAnswer& got = answer_.steps[i];
    const std::string call = name(step.op);
    if (got.status == Status::failed) {
      explain(i, "failed: " + got.text);
      wrong(i, "no input ends an engine", got.text);
      return false;
    }
    const bool known = step.op == EngineOp::create || (model_.has_layer(step) && model_.layer(step).unknown.empty());
    if (!known) {
      why_not_ = model_.has_layer(step) ? model_.layer(step).unknown : "the layer was not created";
      skipped_ = why_not_;
      model_.lose(step, why_not_);
      explain(i, "not judged: " + why_not_);
      return true;
    }
    if (const auto reason = model_.must_refuse(step)) return must_be_refused(i, *reason);
    if (got.status == Status::unsupported) {
      ++tally_.not_offered[call];
      why_not_ = call + " is not offered";
      if (step.op != EngineOp::snapshot && step.op != EngineOp::export_state) skipped_ = why_not_;
      model_.lose(step, why_not_);
      explain(i, "unsupported");
      return true;
    }
    if (got.status == Status::refused) return was_refused(i);
    model_.apply(step);
    return done(i);
  }

  bool must_be_refused(std::size_t i, const std::string& reason) {
    const EngineStep& step = test_.steps[i];
    if (answer_.steps[i].status == Status::ok) {
      explain(i, "was accepted, and must be refused: " + reason);
      wrong(i, "law 9: a refused call changes nothing, and what must be refused is", "it was accepted, and " + reason);
      if (options_.hint) verdict_.hint = "it does not check this argument";
      return false;
    }
    explain(i, "refused, as it must be: " + reason);
    if (answer_.steps[i].status == Status::unsupported) {
      ++tally_.not_offered[name(step.op)];
      skipped_ = why_not_ = fmt::format("{} is not offered", name(step.op));
    } else {
      ++exact_;
      ++tally_.exact_steps;
    }
    if (step.op == EngineOp::create) model_.lose(step, "its configuration makes no sense");
    return true;
  }

  bool was_refused(std::size_t i) {
    const EngineStep& step = test_.steps[i];
    // Who cannot take something back may say so: the layer is as it was.
    if (step.op == EngineOp::truncate || step.op == EngineOp::evict_recent || step.op == EngineOp::evict_by_mass) {
      ++tally_.not_offered[fmt::format("{} (refused)", name(step.op))];
      why_not_ = fmt::format("{} was refused", name(step.op));
      explain(i, "refused; the layer must be as it was");
      return true;
    }
    const auto cannot_hold = [](const std::vector<float>& rows, Precision storage) {
      return overflows(storage, rows) || std::any_of(rows.begin(), rows.end(), [](float x) { return !std::isfinite(x); });
    };
    if (cannot_hold(step.k, declared_.key_storage) || cannot_hold(step.v, declared_.value_storage)) {
      skipped_ = why_not_ = "rows that are not finite, or do not fit the storage, were refused";
      model_.lose(step, why_not_);
      explain(i, why_not_);
      return true;
    }
    explain(i, "refused, though nothing is wrong with it");
    wrong(i, law_of(step.op, model_.has_layer(step) ? model_.layer(step) : LayerModel{}), "it was refused, and nothing is wrong with it");
    return false;
  }

  bool done(std::size_t i) {
    const EngineStep& step = test_.steps[i];
    const LayerModel& layer = model_.layer(step);
    switch (step.op) {
      case EngineOp::attend: return outputs(i, step.from);
      case EngineOp::forward: return outputs(i, layer.positions() - step.n);
      case EngineOp::length: return counted(i, layer.length(), "positions");
      case EngineOp::evict_recent:
      case EngineOp::evict_by_mass: return counted(i, model_.removed(), "positions removed");
      case EngineOp::importance:
        if (!layer.unknown_importance.empty()) {
          skipped_ = why_not_ = layer.unknown_importance;
          explain(i, "not judged: " + why_not_);
          return true;
        }
        return vector(i, layer.importance, "importance");
      case EngineOp::state: return vector(i, layer.state, "state");
      default: break;
    }
    explain(i, fmt::format("done; {} positions", layer.length()));
    return true;
  }

  bool counted(std::size_t i, std::uint64_t expected, const char* what) {
    const StepAnswer& got = answer_.steps[i];
    if (!got.count) {
      wrong(i, "the protocol", "a count was asked for, and none was answered");
      return false;
    }
    if (*got.count == expected) {
      explain(i, fmt::format("{} {}, as it must be", expected, what));
      ++exact_;
      ++tally_.exact_steps;
      return true;
    }
    explain(i, fmt::format("{} {}, expected {}", *got.count, what, expected));
    wrong(i, law_of(test_.steps[i].op, model_.layer(test_.steps[i])), fmt::format("{} {}, expected {}", *got.count, what, expected));
    if (options_.hint && test_.steps[i].op == EngineOp::length) verdict_.hint = hint_for_length(test_, i, *got.count);
    return false;
  }

  bool vector(std::size_t i, const std::vector<float>& expected, const char* what) {
    const StepAnswer& got = answer_.steps[i];
    if (!got.numbers && !expected.empty()) {
      wrong(i, "the protocol", "numbers were asked for, and none were answered");
      return false;
    }
    if (const auto found = difference(what, got.numbers.value_or(std::vector<float>{}), expected)) {
      explain(i, *found);
      wrong(i, law_of(test_.steps[i].op, model_.layer(test_.steps[i])), *found);
      return false;
    }
    explain(i, fmt::format("the {} numbers that were put there", expected.size()));
    ++exact_;
    ++tally_.exact_steps;
    return true;
  }

  bool outputs(std::size_t i, std::size_t from) {
    const EngineStep& step = test_.steps[i];
    const LayerModel& layer = model_.layer(step);
    const StepAnswer& got = answer_.steps[i];
    const std::size_t size = step.n * layer.config.query_floats();
    if (!got.numbers || got.numbers->size() != size) {
      wrong(i, "the protocol", fmt::format("{} numbers were answered, expected {} = {} positions × {} query heads × {}",
                                           got.numbers ? got.numbers->size() : 0, size, step.n, layer.config.query_heads,
                                           layer.config.head_dim));
      return false;
    }
    add_to_digest(*got.numbers);
    const Attention attention{layer, step.q, from, step.n, *got.numbers, answer_.type};
    AttentionVerdict result = judge_attention(attention, declared_, tally_, options_.explain);
    judged_ += result.judged;
    if (!result.not_judged.empty()) why_not_ = result.not_judged;
    explain(i, result.explained);
    if (result.wrong.empty()) result.wrong = claims_.check(attention, declared_);
    if (result.wrong.empty()) return true;
    wrong(i, result.law.empty() ? law_of(step.op, layer) : result.law, result.wrong);
    if (options_.hint && !result.allowed.empty()) verdict_.hint = hint_for(test_, i, *got.numbers, result.allowed);
    return false;
  }

  void add_to_digest(std::span<const float> numbers) {
    for (float x : numbers) {
      for (unsigned shift = 0; shift < 32; shift += 8) verdict_.digest = (verdict_.digest ^ ((bits(x) >> shift) & 0xFFU)) * 0x100000001B3U;
    }
  }

  const EngineCase& test_;
  const EngineAnswer& answer_;
  const Declared& declared_;
  EngineTally& tally_;
  JudgeOptions options_;
  Model model_;
  ClaimsBook claims_;
  CaseVerdict verdict_;
  std::uint64_t judged_ = 0, exact_ = 0;
  std::string why_not_;
  std::string skipped_;  ///< why some step was not done
};

}  // namespace

void EngineTally::add(const EngineTally& other) {
  heads.add(other.heads);
  exact_steps += other.exact_steps;
  for (const auto& [op, n] : other.not_offered) not_offered[op] += n;
}

CaseVerdict judge_case(const EngineCase& test, const EngineAnswer& answer, const Declared& declared, EngineTally& tally,
                       JudgeOptions options) {
  return CaseJudge(test, answer, declared, tally, options).run();
}

}  // namespace kvcert::certify
