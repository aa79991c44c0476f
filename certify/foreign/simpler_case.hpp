// Smaller cases to shrink a failing one to. Every candidate is a whole, valid case: tensors are cut with the sizes they follow.
#pragma once

#include <chrono>
#include <vector>

#include "certify/foreign/case.hpp"

namespace kvcert::certify {

/// Cases with less in them, most drastic first: fewer steps, rows, positions, heads, channels; plain parameters; round numbers.
std::vector<EngineCase> simpler(const EngineCase& test);

/// The smallest case on which `fails` still holds, found greedily within so many trials and seconds.
template <class Predicate>
EngineCase shrink(EngineCase test, const Predicate& fails, std::size_t trials, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (bool progress = true; progress;) {
    progress = false;
    for (auto& candidate : simpler(test)) {
      if (trials == 0 || std::chrono::steady_clock::now() > end) return test;
      --trials;
      if (!fails(candidate)) continue;
      test = std::move(candidate);
      progress = true;
      break;
    }
  }
  return test;
}

}  // namespace kvcert::certify
