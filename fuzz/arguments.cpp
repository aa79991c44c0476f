// Calls with any arguments on both implementations, chosen by the fuzzer: they answer alike and nothing aborts.
#include "certify/arguments.hpp"

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "certify/engine.hpp"
#include "fuzz/thorough.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvcert::certify::ArgumentCoverage unused;
  auto isas = kvcert::optimized::available_isas();
  // What is accepted seldom depends on the ISA, and the reference makes every call again for each: while fuzzing, one is asked.
  if (!kvcert::fuzz::thorough) isas = {isas[std::accumulate(data, data + size, std::size_t{0}) % isas.size()]};
  for (auto isa : isas) {
    if (const auto found = kvcert::certify::difference_in_calls(kvcert::certify::ReferenceEngine{}, kvcert::certify::OptimizedEngine{isa}, {data, size}, unused)) {
      std::fprintf(stderr, "\nkvcert fuzz: %s\n", found->c_str());
      std::abort();
    }
  }
  return 0;
}
