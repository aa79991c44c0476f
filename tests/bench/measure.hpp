// How the benchmarks measure: rounds in which everything has its turn, the thread's processor time, cold caches.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace kvcert::bench {

/// This thread's processor time: waiting for memory counts, other processes on a shared machine do not.
double thread_seconds();

/// Takes the caches for itself, so that what follows comes from memory, as it does in a model of many layers.
void evict_caches();

/// Something that is timed once in every round.
struct Probe {
  std::function<void()> call;
  bool cold = true;               ///< caches are full of something else before each call
  int most_rounds = 1000;         ///< for what is so slow that a few have to do
  std::vector<double> seconds{};  ///< by round, ascending once run_rounds is through
};

/// What share of calls took less than what.
struct Quartiles {
  double lower, median, upper;
};
Quartiles quartiles(const Probe& probe);

/// One round that only warms up, then `rounds` in which every probe has its turn: what shares the machine slows all of
/// them alike.
void run_rounds(std::vector<Probe>& probes, int rounds);

}  // namespace kvcert::bench
