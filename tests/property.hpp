// RapidCheck over the project's own cases: how often a property runs, and what a failure prints.
#pragma once

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "certify/engine.hpp"
#include "certify/generate.hpp"
#include "certify/laws/law.hpp"

namespace kvcert::tests {

/// Every law runs on both implementations, and on the optimized one once per ISA.
struct Reference : certify::ReferenceEngine {};
struct Scalar : certify::OptimizedEngine {
  Scalar() : OptimizedEngine{optimized::Isa::scalar} {}
};
#if defined(__aarch64__)
struct Neon : certify::OptimizedEngine {
  Neon() : OptimizedEngine{optimized::Isa::neon} {}
};
using Engines = std::tuple<Reference, Scalar, Neon>;
using FastEngines = std::tuple<Scalar, Neon>;
#else
struct Avx2 : certify::OptimizedEngine {
  Avx2() : OptimizedEngine{optimized::Isa::avx2} {}
};
struct Avx512 : certify::OptimizedEngine {
  Avx512() : OptimizedEngine{optimized::Isa::avx512} {}
};
using Engines = std::tuple<Reference, Scalar, Avx2, Avx512>;
using FastEngines = std::tuple<Scalar, Avx2, Avx512>;
#endif

/// False for an ISA that this machine lacks. Such a test is announced and counted by the caller, not passed over.
inline bool has(const certify::ReferenceEngine&) { return true; }
inline bool has(const certify::OptimizedEngine& engine) { return optimized::is_available(engine.isa); }

/// The optimized engine once for each ISA that this machine has; one that it lacks is announced.
inline std::vector<certify::OptimizedEngine> engines_present(const std::string& what) {
  std::vector<certify::OptimizedEngine> present;
  const auto look_at = [&](const certify::OptimizedEngine& engine) {
    if (has(engine)) present.push_back(engine);
    else std::cout << "NOT RUN: " << what << " on " << engine.name() << ", which this machine lacks\n";
  };
  std::apply([&](const auto&... engine) { (look_at(engine), ...); }, FastEngines{});
  return present;
}

/// quick: a quarter of the default number of cases; full: ten times as many.
inline std::size_t at_level(std::size_t cases) {
  const char* set = std::getenv("KVCERT_TEST_LEVEL");
  const std::string level = set == nullptr ? "default" : set;
  if (level == "quick") return cases / 4 + 1;
  if (level == "full") return cases * 10;
  if (level != "default" && !level.empty()) {
    throw std::runtime_error("KVCERT_TEST_LEVEL is \"" + level + "\"; it may be quick, default or full");
  }
  return cases;
}

/// How many of `cases` of a law an engine gets, where each is asked apart. AVX-512 gets a quarter: what it computes is held
/// against the reference by every case of law 13's canonical bits and of the histories, and against every other ISA by the digests.
inline std::size_t cases_for(const certify::ReferenceEngine&, std::size_t cases) { return cases; }
inline std::size_t cases_for(const certify::OptimizedEngine& engine, std::size_t cases) {
  return engine.name() == "avx512" ? cases / 4 + 1 : cases;
}

/// Cases of our own generator; a failing one is shrunk by our own shrinker.
inline rc::Gen<certify::TestCase> cases(certify::Domain domain, certify::Sizes sizes) {
  const auto seeds = rc::gen::noShrink(rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>()));
  return rc::gen::shrink(rc::gen::map(seeds, [=](std::uint64_t seed) { return certify::generate(seed, domain, sizes); }),
                         [](const certify::TestCase& test) { return rc::seq::fromContainer(certify::simpler(test)); });
}

/// RapidCheck tells listeners of progress; the result is all we need.
struct Silence : rc::detail::TestListener {
  void onTestCaseFinished(const rc::detail::CaseDescription&) override {}
  void onShrinkTried(const rc::detail::CaseDescription&, bool) override {}
  void onTestFinished(const rc::detail::TestMetadata&, const rc::detail::TestResult&) override {}
};

/// Runs a law on `count` cases (scaled by the level). A law of which fewer than a quarter of the cases said anything has
/// not been tested, and fails. A failure prints the smallest case, and what RC_PARAMS reruns it.
template <class Law>
void check_law(std::size_t count, certify::Domain domain, certify::Sizes sizes, const Law& law) {
  const auto& configuration = rc::detail::configuration();
  auto parameters = configuration.testParams;
  const char* set = std::getenv("RC_PARAMS");
  if (set == nullptr || std::string(set).find("max_success") == std::string::npos) {
    parameters.maxSuccess = static_cast<int>(at_level(count));
  }
  rc::detail::TestMetadata metadata;
  metadata.id = boost::unit_test::framework::current_test_case().full_name();
  metadata.description = metadata.id;
  std::size_t ran = 0;
  std::size_t told = 0;
  const auto property = [&] {
    const certify::TestCase test = *cases(domain, sizes);
    certify::Outcome outcome;
    try {
      outcome = law(test);
    } catch (const std::exception& fault) {
      outcome = certify::violated(fault.what());
    }
    ++ran;
    told += outcome.verdict == certify::Verdict::not_exercised ? 0 : 1;
    if (outcome.verdict == certify::Verdict::violated) RC_FAIL(outcome.sentence);
  };
  Silence silence;
  const auto result = rc::detail::checkTestable(property, metadata, parameters, silence, configuration.reproduce);
  if (result.template is<rc::detail::SuccessResult>()) {
    BOOST_CHECK_MESSAGE(4 * told >= ran, "only " << told << " of " << ran << " cases exercised the law");
    return;
  }
  std::ostringstream text;
  text << "\n";
  rc::detail::printResultMessage(result, text);
  text << "\nseed " << parameters.seed << ": rerun with RC_PARAMS=\"seed=" << parameters.seed << "\" ./kvcert test --run_test="
       << metadata.id << "\n";
  BOOST_FAIL(text.str());
}

}  // namespace kvcert::tests

namespace kvcert::certify {
/// How RapidCheck prints a counterexample.
void showValue(const TestCase& test, std::ostream& stream);
}  // namespace kvcert::certify

/// LAW(2, chunk_is_sequence, …): one test case per engine, named law_2_chunk_is_sequence<Engine>.
#define LAW(number, law, count, domain, ...)                                                                       \
  BOOST_AUTO_TEST_CASE_TEMPLATE(law_##number##_##law, Engine, kvcert::tests::Engines) {                            \
    const Engine engine;                                                                                           \
    if (!kvcert::tests::has(engine)) {                                                                             \
      std::cout << "NOT RUN: law " #number " " #law " on " << engine.name() << ", which this machine lacks\n";     \
      BOOST_TEST_REQUIRE(engine.name() != "scalar"); /* which no machine lacks */                                  \
      return;                                                                                                      \
    }                                                                                                              \
    kvcert::tests::check_law(kvcert::tests::cases_for(engine, count), kvcert::certify::Domain::domain,             \
                             kvcert::certify::Sizes{__VA_ARGS__},                                                  \
                             [&](const kvcert::certify::TestCase& test) { return certify::laws::law(engine, test); }); \
  }
