// What a certificate says was run, read without running anything; and a second run's certificate held against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "certify/foreign/runner.hpp"

namespace kvcert::certify {

/// How the built-in cache's certificate was made.
struct BuiltinRun {
  std::uint64_t seed = 1;
  unsigned percent = 100;
  std::string isa;  ///< empty: every ISA of the machine
};
/// How another engine's certificate was made.
struct EngineRun {
  EngineSource source;
  SuiteSpec spec;
};

/// These throw std::exception with a sentence for a person if the object is no such certificate.
BuiltinRun builtin_run_from_json(const nlohmann::json& certificate);
EngineRun engine_run_from_json(const nlohmann::json& certificate);

/// Statement by statement.
struct Comparison {
  std::size_t compared = 0, different = 0;
  std::vector<std::string> sentences;  ///< about the first 20 that differ

  void hold(const std::string& what, const nlohmann::json& stated, const nlohmann::json& found);
};
/// These throw likewise, about either of the two.
Comparison compare_builtin(const nlohmann::json& stated, const nlohmann::json& found);
Comparison compare_engine(const nlohmann::json& stated, const nlohmann::json& found);

}  // namespace kvcert::certify
