// Puts cases to an engine in a child process and judges what comes back; a child that ends is a finding, and is started again.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "certify/foreign/child.hpp"
#include "certify/foreign/judge_case.hpp"
#include "certify/foreign/report.hpp"

namespace kvcert::certify {

/// Where the engine is: a shared library, or a program that answers cases line by line.
struct EngineSource {
  std::string library, option;
  std::string program;  ///< for /bin/sh
  ChildLimits limits;
};

class EngineRunner {
 public:
  explicit EngineRunner(EngineSource source) : source_(std::move(source)) {}

  /// Starts the engine and asks what it is; a sentence if that fails.
  std::string begin();
  const Declared& declared() const { return declared_; }

  struct Judged {
    CaseVerdict verdict;
    std::optional<EngineAnswer> answer;
    std::string environment;  ///< what the library did to the floating-point modes
    std::map<std::string, CallTime> times;  ///< inside the library; of a program: one entry, from the case sent to its answer
    bool hung = false;
  };
  Judged judge(const EngineCase& test, std::size_t variant, EngineTally& tally, JudgeOptions options = {});
  double engine_seconds() const { return engine_seconds_; }

 private:
  Child& child(std::size_t variant);
  Child::Line ask(const EngineCase& test, std::size_t variant);

  EngineSource source_;
  Declared declared_;
  std::vector<std::unique_ptr<Child>> children_;
  double engine_seconds_ = 0;
};

/// Runs a whole suite, shrinks the first wrong case of each check, and writes it to `findings` (empty: writes nothing).
EngineReport run_suite(EngineRunner& runner, const EngineSource& source, const SuiteSpec& spec, const std::string& findings);

/// The file that `kvcert replay` reads; false if it could not be written.
bool write_finding(const std::string& path, const EngineCase& test, const std::optional<EngineAnswer>& answer, const Declared& declared,
                   const CaseVerdict& verdict, const EngineSource& source, std::size_t variant);

}  // namespace kvcert::certify
