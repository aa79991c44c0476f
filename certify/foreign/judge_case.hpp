// The verdict about one answer: every number that an engine gave back is held against what the case's history means.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "certify/foreign/answer.hpp"
#include "certify/foreign/case.hpp"
#include "certify/foreign/model.hpp"
#include "certify/judge.hpp"

namespace kvcert::certify {

/// Sums over many cases. One head of one position is one output.
struct EngineTally {
  Tally heads;
  std::uint64_t exact_steps = 0;                             ///< counts, vectors and refusals that were as they must be
  std::map<std::string, std::uint64_t> not_offered;          ///< steps by operation that the engine does not have
  void add(const EngineTally& other);
};

/// The features that coverage is counted by, in the order they are shown.
const std::vector<std::string>& coverage_features();

struct CaseVerdict {
  Judgement verdict = Judgement::not_judged;
  std::size_t step = 0;  ///< wrong: which one, from 0
  std::string sentence;  ///< wrong or not judged: what, or why
  std::string hint;      ///< "it answers as if the window held one row more"
  std::string law;       ///< the law that is broken
  std::uint64_t digest = 0xCBF29CE484222325U;  ///< of all numbers that were answered
  std::vector<std::string> explained;          ///< one paragraph per step, where asked for
};

struct JudgeOptions {
  bool explain = false;
  bool hint = true;
};

CaseVerdict judge_case(const EngineCase& test, const EngineAnswer& answer, const Declared& declared, EngineTally& tally,
                       JudgeOptions options = {});

/// The name of the known way to misread the formula or the history that gives this answer to that step, or nothing.
/// `allowed`: how far a number may lie from the one that the hypothesis gives.
std::string hint_for(const EngineCase& test, std::size_t step, std::span<const float> got, std::span<const double> allowed);
/// The same for a length.
std::string hint_for_length(const EngineCase& test, std::size_t step, std::uint64_t got);

}  // namespace kvcert::certify
