// What a run over an engine's answers comes to: a verdict per check, the counts, and the certificate's JSON.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "certify/foreign/judge_case.hpp"
#include "certify/foreign/suite.hpp"
#include "certify/throughput.hpp"

namespace kvcert::certify {

/// One check's answers so far.
struct CheckResult {
  std::string name, promise;
  std::uint64_t cases = 0;
  std::map<Judgement, std::uint64_t> counts;
  std::map<std::string, std::uint64_t> why_not;  ///< not judged, by reason
  std::string first_wrong, law, wrong_id, finding_file;
  std::map<std::string, std::uint64_t> hints;  ///< of all wrong cases: one alone may fit several causes

  /// The hint that most wrong cases agree on.
  std::string hint() const;

  std::uint64_t count(Judgement judgement) const {
    const auto found = counts.find(judgement);
    return found == counts.end() ? 0 : found->second;
  }
  Judgement verdict() const;
};

class EngineReport {
 public:
  EngineReport(Declared declared, std::string subject) : declared(std::move(declared)), subject(std::move(subject)) {}

  /// Adds one judged case; true if it is the first wrong one of its check.
  bool add(const std::string& check, const std::string& id, const CaseVerdict& verdict);
  CheckResult& check(const std::string& name);
  const std::vector<CheckResult>& checks() const { return checks_; }

  std::uint64_t count(Judgement judgement) const;  ///< checks that ended so
  std::uint64_t cases() const;
  /// Nothing wrong, and at least one output was held against bits or a bound.
  bool holds() const { return count(Judgement::wrong) == 0 && tally.heads.judged() > 0; }
  std::string verdict_sentence() const;

  Declared declared;
  std::string subject;       ///< "plug-in ./mine.so", "answers on standard input", "program ..."
  std::string subject_sha1;  ///< of the library, or empty
  SuiteSpec suite;
  std::string library, program, option;  ///< how it was asked; empty: answers came from elsewhere
  EngineTally tally;
  std::uint64_t digest = 0;  ///< sum over cases, so that their order does not matter
  double seconds = 0, engine_seconds = 0;
  std::vector<Throughput> throughput;  ///< empty: nobody could measure it

 private:
  std::vector<CheckResult> checks_;
  std::map<std::string, std::size_t> by_name_;
};

nlohmann::json to_json(const EngineReport& report);
/// The table, and the closing lines, for a terminal.
std::string report_text(const EngineReport& report, bool color);
/// SHA-1 of a file in hex, or "unknown".
std::string file_sha1(const std::string& path);

}  // namespace kvcert::certify
