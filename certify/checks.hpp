// The list of checks of `kvcert certify`: which law runs on which cases, and how often.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "certify/engine.hpp"
#include "certify/generate.hpp"
#include "certify/judge.hpp"
#include "certify/laws/law.hpp"

namespace kvcert::certify {

/// One line of the certificate.
struct Check {
  std::string group;    ///< "probe", "law 5", "environment"
  std::string name;     ///< "window", "rollback"
  std::string promise;  ///< one line for a person
  Judgement verdict_if_held = Judgement::bit_identical;
  /// The cases, by index. Those of a law can be shrunk when they fail; a probe is as small as it can be.
  std::size_t cases = 1;
  bool shrinkable = true;
  std::function<TestCase(std::size_t index)> generate;
  std::function<Outcome(std::size_t index, const TestCase&)> run;
};

struct Plan {
  std::vector<Check> checks;
  std::shared_ptr<Tally> tally;                ///< accuracy over all cases of law 14
  std::shared_ptr<std::uint64_t> digest;       ///< of every output of law 13, in order: equal for equal bits
};

/// Every check for one engine. `seed` fixes all cases; `percent` scales their number (100 = the standard certificate).
Plan plan(const OptimizedEngine& engine, std::uint64_t seed, unsigned percent);
Plan plan(const ReferenceEngine& engine, std::uint64_t seed, unsigned percent);
/// The checks that no engine takes part in: the exact mode, and whether the judge catches what it must.
Plan exact_plan(std::uint64_t seed, unsigned percent);

/// How one check ended.
struct Finding {
  std::uint64_t cases = 0, not_exercised = 0;
  Judgement verdict = Judgement::not_judged;
  std::string sentence;              ///< wrong: what happened on the smallest case
  std::optional<TestCase> smallest;  ///< wrong: the smallest case found, and the index of the case it comes from
  std::size_t index = 0;
  double seconds = 0;
};

/// Runs a check; exceptions and unexpected refusals are findings. `tick` is called after each case. A check of which
/// fewer than a quarter of the cases said anything is not judged.
Finding run(const Check& check, const std::function<void()>& tick);

/// The outcome of one case, with exceptions turned into violations.
Outcome run_case(const Check& check, std::size_t index, const TestCase& test);

}  // namespace kvcert::certify
