#include "certify/foreign/suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "certify/foreign/tensor_text.hpp"

namespace kvcert::certify {
namespace {

constexpr Shape shapes[] = {{2, 4, 3}, {1, 8, 1}, {2, 16, 2}, {1, 64, 4}, {3, 33, 1}, {4, 16, 2}, {2, 80, 2}, {1, 128, 1}, {2, 7, 4}, {1, 100, 2}, {8, 32, 1}};

std::uint64_t seed_of(std::uint64_t seed, const std::string& check, std::size_t index) {
  std::uint64_t mixed = seed ^ 0xCBF29CE484222325U;
  for (char c : check) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return mixed + 0x9E3779B97F4A7C15U * (index + 1);
}

std::string id_of(const std::string& check, std::size_t index) {
  std::string id = fmt::format("{}-{:04}", check, index);
  std::replace(id.begin(), id.end(), ' ', '-');
  return id;
}

}  // namespace

const std::vector<SuiteCheck>& suite_checks() {
  static const std::vector<SuiteCheck> all = [] {
    std::vector<SuiteCheck> checks;
    for (auto part : {probe_checks(), state_checks(), storage_checks(), generated_checks()}) {
      checks.insert(checks.end(), part.begin(), part.end());
    }
    return checks;
  }();
  return all;
}

std::vector<SuitePart> parts(const SuiteSpec& spec) {
  std::vector<SuitePart> result;
  for (const SuiteCheck& check : suite_checks()) {
    const std::string dashed = id_of(check.name, 0).substr(0, check.name.size());
    const bool whole = spec.suite == "quick" || spec.suite == "standard";
    if (!whole && spec.suite != check.name && spec.suite != dashed) continue;
    result.push_back({&check, spec.count != 0 ? spec.count : spec.suite == "quick" ? check.quick : check.standard});
  }
  if (!result.empty()) return result;
  std::string names;
  for (const SuiteCheck& check : suite_checks()) names += (names.empty() ? "" : ", ") + check.name;
  throw std::runtime_error(fmt::format("there is no suite \"{}\": quick, standard, or one check of: {}", spec.suite, names));
}

EngineCase suite_case(const SuiteSpec& spec, const SuiteCheck& check, std::size_t index) {
  Random random(seed_of(spec.seed, check.name, index));
  // Small shapes first, so that a first failure is one that can be read.
  const Shape shape = spec.shape ? *spec.shape : index < 3 ? shapes[0] : shapes[random.below(std::size(shapes))];
  EngineCase test = check.make(index, random, shape);
  test.id = id_of(check.name, index);
  test.check = check.name;
  test.type = spec.type;
  if (spec.type == Precision::f32) return test;
  for (EngineStep& step : test.steps) {
    for (auto member : {&EngineStep::k, &EngineStep::v, &EngineStep::q}) {
      for (float& x : step.*member) x = rounded_to(x, spec.type);
    }
  }
  return test;
}

}  // namespace kvcert::certify
