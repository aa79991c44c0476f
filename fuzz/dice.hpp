// Random choices from a seed; cheaper to begin than certify/random.hpp, since a mutator begins anew for every input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace kvcert::fuzz {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  /// SplitMix64 (Steele, Lea, Flood 2014).
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }
  /// 0 … n − 1, n ≥ 1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits() % n); }
  bool chance(std::size_t times, std::size_t of) { return below(of) < times; }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace kvcert::fuzz
