// What a target does when a duty was broken: it says which, and aborts, which every fuzzer takes for a finding.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace kvcert::fuzz {

[[noreturn]] inline void fail(const std::string& sentence) {
  fmt::print(stderr, "\nkvcert fuzz: {}\n", sentence);
  std::fflush(stderr);
  std::abort();
}

}  // namespace kvcert::fuzz
