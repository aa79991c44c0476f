// The cases that engines of other makes are asked: closed-form probes, the life of a cache, generated histories.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "certify/foreign/case.hpp"
#include "certify/random.hpp"

namespace kvcert::certify {

struct Shape {
  std::size_t kv_heads = 2, head_dim = 4, fan_out = 3;
  bool fixed = false;  ///< asked for by the user: cases keep it, even where another one would show more
};

/// One check: a named promise and the cases that ask about it.
struct SuiteCheck {
  std::string name, promise;
  std::size_t quick = 1, standard = 1;  ///< how many cases
  std::function<EngineCase(std::size_t index, Random& random, const Shape& shape)> make;
};

/// Every check, in the order of the report.
const std::vector<SuiteCheck>& suite_checks();
std::vector<SuiteCheck> probe_checks();
std::vector<SuiteCheck> state_checks();
std::vector<SuiteCheck> storage_checks();
std::vector<SuiteCheck> generated_checks();

struct SuiteSpec {
  std::string suite = "standard";  ///< quick, standard, or the name of one check
  std::uint64_t seed = 1;
  std::size_t count = 0;           ///< 0: as many as the suite has; else so many of every check
  std::optional<Shape> shape;      ///< unset: shapes vary
  Precision type = Precision::f32;
};

/// The suite's checks with their numbers of cases; throws std::runtime_error where there is no such suite.
struct SuitePart {
  const SuiteCheck* check;
  std::size_t cases;
};
std::vector<SuitePart> parts(const SuiteSpec& spec);
/// The case of this seed; nothing else decides it. Its id is "check-index".
EngineCase suite_case(const SuiteSpec& spec, const SuiteCheck& check, std::size_t index);

}  // namespace kvcert::certify
