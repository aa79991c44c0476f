#include "tests/bench/measure.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>

namespace kvcert::bench {

double thread_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void evict_caches() {
  static std::vector<float> other(std::size_t{1} << 25, 1.0F);  // 128 MiB
  for (std::size_t i = 0; i < other.size(); i += 16) other[i] += 1.0F;
  benchmark::DoNotOptimize(other.data());
  benchmark::ClobberMemory();
}

Quartiles quartiles(const Probe& probe) {
  const auto at = [&](std::size_t quarter) { return probe.seconds[(probe.seconds.size() - 1) * quarter / 4]; };
  return {at(1), at(2), at(3)};
}

void run_rounds(std::vector<Probe>& probes, int rounds) {
  for (int round = -1; round < rounds; ++round)
    for (Probe& probe : probes) {
      if (round >= probe.most_rounds) continue;
      if (probe.cold) evict_caches();
      const double start = thread_seconds();
      probe.call();
      const double end = thread_seconds();
      if (round >= 0) probe.seconds.push_back(end - start);
    }
  for (Probe& probe : probes) std::ranges::sort(probe.seconds);
}

}  // namespace kvcert::bench
