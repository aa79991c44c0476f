// What is measured: operators of the optimized cache, each with the bytes and multiply-adds that it cannot do without.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "optimized/isa.hpp"

namespace kvcert::bench {

/// Something else that does the same, or at least moves the same bytes.
struct Yardstick {
  std::string name;
  std::function<void()> call;
};

/// A work with its data, ready to be run.
struct Prepared {
  std::vector<std::pair<optimized::Isa, std::function<void()>>> calls;  ///< one per ISA; just one where no kernel takes part
  std::vector<Yardstick> yardsticks;
};

struct Work {
  std::string name;
  double bytes;          ///< read at least, 0 where all of it is in the caches
  double multiply_adds;  ///< 0: the limit is the memory's alone
  double units;          ///< a call does the named work so many times
  int rounds;
  bool cold;
  std::function<Prepared()> prepare;
};

std::vector<Work> works();

}  // namespace kvcert::bench
