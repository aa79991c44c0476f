// Random numbers whose every bit is fixed by the seed, on every machine: std::mt19937_64 is specified by the standard, its
// companion distributions are not, so the few that are needed are written here.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <random>

namespace kvcert::certify {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }

  /// 0 … n − 1, n ≥ 1. The bias of the remainder is below n / 2^64.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }

  /// True in `times` of `of` draws.
  bool chance(std::size_t times, std::size_t of) { return below(of) < times; }

  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }

  /// About N(0, 1): the sum of twelve uniform numbers (Irwin–Hall), |x| < 6, a multiple of 2^-20 before rounding.
  float normal() {
    std::int64_t sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<std::int64_t>(engine_() >> 44U);
    return static_cast<float>(static_cast<double>(sum - (std::int64_t{6} << 20U)) / static_cast<double>(1U << 20U));
  }

  /// Any of the 2^32 binary32 patterns, NaNs and infinities included.
  float any_bits() { return std::bit_cast<float>(static_cast<std::uint32_t>(engine_() >> 32U)); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kvcert::certify
