// Calls with any arguments on both implementations, chosen by the fuzzer: they answer alike and nothing aborts.
#include "certify/arguments.hpp"

#include <cstdio>
#include <cstdlib>

#include "certify/engine.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvcert::certify::ArgumentCoverage unused;
  for (auto isa : kvcert::optimized::available_isas()) {
    if (const auto found = kvcert::certify::difference_in_calls(kvcert::certify::ReferenceEngine{}, kvcert::certify::OptimizedEngine{isa}, {data, size}, unused)) {
      std::fprintf(stderr, "%s\n", found->c_str());
      std::abort();
    }
  }
  return 0;
}
