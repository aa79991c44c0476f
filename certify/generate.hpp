// Random cases, and simpler ones to shrink a failure to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "certify/test_case.hpp"

namespace kvcert::certify {

/// What kind of numbers a case is made of.
enum class Domain : std::uint8_t {
  any,     ///< everything: subnormal, huge, NaN and infinities among them
  finite,  ///< finite numbers, sinks also −∞: where the exact value exists (docs/arithmetic.md)
};

struct Sizes {
  std::size_t max_rows = 600;
  std::size_t max_floats = 120'000;  ///< in K, and as many in V: rows give way, not head_dim
};

/// The case that belongs to this seed: head_dim in {1, 3, 4, 7, 15, 16, 17, 32, 33, 64, 80, 96, 128, 256}, 1–4 KV heads,
/// 1–8 query heads, 0 … max_rows rows (small ones, multiples of 16 and their neighbours more often).
TestCase generate(std::uint64_t seed, Domain domain, Sizes sizes = {});

/// Cases with less in them, most drastic first: fewer rows, heads, dimensions; then plain parameters; then round values.
std::vector<TestCase> simpler(const TestCase& test);

/// The smallest case on which `fails` still holds, found greedily in at most `budget` trials.
template <class Predicate>
TestCase shrink(TestCase test, const Predicate& fails, std::size_t budget = 2000) {
  for (bool progress = true; progress;) {
    progress = false;
    for (auto& candidate : simpler(test)) {
      if (budget == 0) return test;
      --budget;
      if (fails(candidate)) {
        test = std::move(candidate);
        progress = true;
        break;
      }
    }
  }
  return test;
}

}  // namespace kvcert::certify
