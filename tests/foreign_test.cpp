// The judge of engines of other makes: closed forms, an engine that is right by construction, and what must be wrong.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "certify/bits.hpp"
#include "certify/foreign/judge_attend.hpp"
#include "certify/foreign/judge_case.hpp"
#include "certify/foreign/report.hpp"
#include "certify/foreign/simpler_case.hpp"
#include "certify/foreign/suite.hpp"
#include "certify/foreign/tensor_text.hpp"
#include "tests/property.hpp"

using namespace kvcert::certify;

namespace {

/// The real values of a step's outputs, and the bound of each; 0 for outputs outside the hypotheses.
struct Real {
  std::vector<double> exact, bound;
  bool whole = true;  ///< every output has a bound
};

Real real_outputs(const LayerModel& layer, const EngineStep& step, std::size_t from, const Declared& declared) {
  Real real;
  const EngineLayer& config = layer.config;
  for (std::size_t i = 0; i < step.n; ++i) {
    for (std::size_t head = 0; head < config.query_heads; ++head) {
      const std::size_t position = from + i;
      const std::size_t first = layer.first_visible(position);
      const auto keys = layer.head_rows(layer.k, head / layer.group(), first, position + 1);
      const auto values = layer.head_rows(layer.v, head / layer.group(), first, position + 1);
      HeadInput in{.q = std::span(step.q).subspan((i * config.query_heads + head) * config.head_dim, config.head_dim), .keys = keys, .values = values,
                   .scale = config.scale, .softcap = config.softcap, .sink = std::nullopt};
      if (!config.sinks.empty()) in.sink = config.sinks[head];
      const auto bound = evaluate_bound(in, parameters_for(declared, config.head_dim, position + 1 - first, in.sink.has_value()));
      if (!bound.not_covered.empty()) {
        real.whole = false;
        real.exact.resize(real.exact.size() + config.head_dim, 0.0);
        real.bound.resize(real.exact.size(), 0.0);
        continue;
      }
      real.exact.insert(real.exact.end(), bound.exact.begin(), bound.exact.end());
      real.bound.insert(real.bound.end(), bound.bound.begin(), bound.bound.end());
    }
  }
  return real;
}

/// Answers a case with real values, each moved by so many bounds.
EngineAnswer right_answer(const EngineCase& test, const Declared& declared, double moved_by, std::vector<double>* last = nullptr) {
  EngineAnswer answer;
  answer.id = test.id;
  Model model;
  for (const EngineStep& step : test.steps) {
    StepAnswer& got = answer.steps.emplace_back();
    if (model.must_refuse(step)) {
      got.status = Status::refused;
      continue;
    }
    model.apply(step);
    const LayerModel& layer = model.layer(step);
    if (step.op == EngineOp::length) got.count = layer.length();
    if (step.op == EngineOp::evict_recent || step.op == EngineOp::evict_by_mass) got.count = model.removed();
    if (step.op == EngineOp::importance) got.numbers = layer.importance;
    if (step.op == EngineOp::state) got.numbers = layer.state;
    if (step.op != EngineOp::attend && step.op != EngineOp::forward) continue;
    const Real real = real_outputs(layer, step, step.op == EngineOp::forward ? layer.positions() - step.n : step.from, declared);
    got.numbers.emplace();
    for (std::size_t i = 0; i < real.exact.size(); ++i) got.numbers->push_back(static_cast<float>(real.exact[i] + moved_by * real.bound[i]));
    if (last != nullptr) *last = real.whole ? real.exact : std::vector<double>{};
  }
  return answer;
}

std::vector<EngineCase> quick_cases(std::uint64_t seed, std::size_t every = 1) {
  std::vector<EngineCase> cases;
  SuiteSpec spec;
  spec.suite = "quick";
  spec.seed = seed;
  for (const auto& part : parts(spec)) {
    for (std::size_t index = 0; index < part.cases; index += every) cases.push_back(suite_case(spec, *part.check, index));
  }
  return cases;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(foreign)

BOOST_AUTO_TEST_CASE(closed_forms_are_what_the_judge_computes) {
  std::size_t held = 0;
  for (const EngineCase& test : quick_cases(1)) {
    if (test.closed_form.empty()) continue;
    std::vector<double> exact;
    right_answer(test, {}, 0, &exact);
    if (exact.empty()) continue;
    const std::size_t dim = test.steps.front().layer.head_dim;
    BOOST_REQUIRE_MESSAGE(exact.size() == test.closed_form.size() * dim, test.id);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      BOOST_TEST(std::fabs(exact[i] - test.closed_form[i / dim]) <= 1e-12 * (1 + std::fabs(exact[i])), test.id << ": " << exact[i] << " and " << test.closed_form[i / dim]);
    }
    ++held;
  }
  BOOST_TEST(held > 80U);
}

BOOST_AUTO_TEST_CASE(an_engine_that_is_right_is_never_wrong) {
  EngineTally tally;
  for (const EngineCase& test : quick_cases(2, 2)) {
    const auto verdict = judge_case(test, right_answer(test, {}, 0), {}, tally);
    BOOST_TEST((verdict.verdict != Judgement::wrong), test.id << ": " << verdict.sentence);
  }
  BOOST_TEST(tally.heads.judged() > 500U);
}

BOOST_AUTO_TEST_CASE(outputs_moved_by_twice_the_bound_are_wrong) {
  std::size_t caught = 0;
  for (const EngineCase& test : quick_cases(1, 2)) {
    EngineTally tally;
    if (judge_case(test, right_answer(test, {}, 0), {}, tally).verdict != Judgement::within_bound) continue;
    const auto moved = judge_case(test, right_answer(test, {}, 2), {}, tally);
    BOOST_TEST((moved.verdict == Judgement::wrong), test.id);
    ++caught;
  }
  BOOST_TEST(caught > 80U);
}

BOOST_AUTO_TEST_CASE(coarser_storage_is_allowed_what_it_declares_and_no_more) {
  Declared half;
  half.key_storage = half.value_storage = Precision::f16;
  EngineLayer layer;
  layer.head_dim = 1;
  EngineCase test;
  test.id = "one";
  EngineStep create, append, attend;
  create.op = EngineOp::create;
  create.layer = layer;
  append.op = EngineOp::append;
  append.n = 1;
  append.k = {1.0F};
  append.v = {1.00048828125F};  // 1 + 2^-11: halfway between two binary16 numbers
  attend.op = EngineOp::attend;
  attend.n = 1;
  attend.q = {0.0F};  // what storage does to the key leaves the answer alone
  test.steps = {create, append, attend};
  const auto judged = [&](float out, const Declared& declared) {
    EngineTally tally;
    EngineAnswer answer;
    answer.id = "one";
    answer.steps.resize(3);
    answer.steps[2].numbers = {out};
    return judge_case(test, answer, declared, tally).verdict;
  };
  BOOST_TEST((judged(1.0F, half) == Judgement::within_bound));
  BOOST_TEST((judged(1.0009765625F, half) == Judgement::within_bound));
  BOOST_TEST((judged(0.9990234375F, half) == Judgement::wrong));
  BOOST_TEST((judged(1.0F, {}) == Judgement::wrong));
  Declared canonical;
  canonical.canonical = true;
  BOOST_TEST((judged(1.00048828125F, canonical) == Judgement::bit_identical));
  BOOST_TEST((judged(std::nextafter(1.00048828125F, 2.0F), canonical) == Judgement::wrong));
}

// A run in which no case met the bound's hypotheses does not pass, whatever else went well.
BOOST_AUTO_TEST_CASE(nothing_judged_is_no_pass) {
  EngineReport report({}, "nobody");
  CaseVerdict verdict;
  verdict.verdict = Judgement::not_judged;
  report.add("accuracy", "a", verdict);
  BOOST_TEST(!report.holds());
  verdict.verdict = Judgement::holds;
  report.add("recurrence", "b", verdict);
  BOOST_TEST(!report.holds());
  report.tally.heads.heads[Judgement::not_judged] = 5;
  BOOST_TEST(!report.holds());
  report.tally.heads.heads[Judgement::within_bound] = 1;
  BOOST_TEST(report.holds());
  verdict.verdict = Judgement::wrong;
  report.add("window", "c", verdict);
  BOOST_TEST(!report.holds());
}

BOOST_AUTO_TEST_CASE(cases_and_answers_survive_their_json) {
  for (const EngineCase& test : quick_cases(3, 2)) {
    const auto json = to_json(test);
    BOOST_TEST((to_json(engine_case_from_json(nlohmann::json::parse(json.dump()))) == json), test.id);
    const auto answer = to_json(right_answer(test, {}, 0));
    BOOST_TEST((to_json(answer_from_json(nlohmann::json::parse(answer.dump()))) == answer), test.id);
  }
}

BOOST_AUTO_TEST_CASE(tensors_survive_as_what_they_are) {
  for (std::uint32_t pattern : {0x3F800000U, 0x7FA00001U, 0xFFFFFFFFU, 0x00000001U, 0x80000000U, 0x7F800000U}) {
    const float x = std::bit_cast<float>(pattern);
    BOOST_TEST(bits(tensor_from_hex(tensor_hex({&x, 1}), Precision::f32, "x", 1).front()) == pattern);
  }
  const std::vector<float> halves{1.0F, -2.5F, 65504.0F, 0x1p-24F};
  BOOST_TEST(tensor_from_hex(tensor_hex(halves, Precision::f16), Precision::f16, "x", 4) == halves);
  const float tie = 1.00390625F;  // 1 + 2^-8, halfway between two bfloat16 numbers: to even
  BOOST_TEST(rounded_to(tie, Precision::bf16) == 1.0F);
  BOOST_TEST(rounded_to(1.01171875F, Precision::bf16) == 1.015625F);
  BOOST_CHECK_THROW(tensor_from_hex("0000803", Precision::f32, "x", 1), std::runtime_error);
  BOOST_CHECK_THROW(tensor_from_hex("0000803g", Precision::f32, "x", 1), std::runtime_error);
}

// The smallest case of a fault that shows in one row is one row.
BOOST_AUTO_TEST_CASE(cases_shrink_to_something_small) {
  const Declared declared;
  SuiteSpec spec;
  spec.suite = "histories";
  const auto fails = [&](const EngineCase& candidate) {
    try {
      EngineTally tally;
      const auto test = engine_case_from_json(to_json(candidate));
      auto answer = right_answer(test, declared, 0);
      for (StepAnswer& step : answer.steps) {
        if (step.numbers) std::fill(step.numbers->begin(), step.numbers->end(), 100.0F);
      }
      return judge_case(test, answer, declared, tally, {.explain = false, .hint = false}).verdict == Judgement::wrong;
    } catch (const std::exception&) {
      return false;
    }
  };
  EngineCase test = suite_case(spec, *parts(spec).front().check, 5);
  BOOST_REQUIRE(fails(test));
  test = shrink(std::move(test), fails, 2000, 60);
  BOOST_TEST(test.steps.size() <= 3U);
  BOOST_TEST(test.steps.front().layer.head_dim == 1U);
  BOOST_TEST(test.steps.front().layer.query_heads == 1U);
}

BOOST_AUTO_TEST_CASE(cases_are_fixed_by_their_seed) {
  const auto a = quick_cases(7, 5);
  const auto b = quick_cases(7, 5);
  BOOST_REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) BOOST_TEST((to_json(a[i]) == to_json(b[i])));
}

BOOST_AUTO_TEST_SUITE_END()
