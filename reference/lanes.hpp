// Inner products, in the order vector units like.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvcert::reference {

/// Sixteen partial sums, so that vector units of any width up to 16 add in the same order: term i is for lane i mod 16.
template <class Real>
class Lanes {
 public:
  Real& operator[](std::size_t i) { return lane_[i % width]; }

  /// The upper half is added to the lower half until one lane is left. All lanes take part, those still +0 as well.
  Real fold() {
    for (std::size_t half = width / 2; half != 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) lane_[i] = lane_[i] + lane_[i + half];
    }
    return lane_[0];
  }

 private:
  static constexpr std::size_t width = 16;
  std::array<Real, width> lane_{};  // +0
};

/// ⟨a, b⟩ of a [n] and b [n].
template <class Real>
Real dot(std::span<const Real> a, std::span<const float> b) {
  Lanes<Real> sum;
  for (std::size_t j = 0; j < a.size(); ++j) sum[j] = fma(a[j], Real::of(b[j]), sum[j]);
  return sum.fold();
}

template <class Real>
Real dot(std::span<const Real> a, std::span<const std::int8_t> b) {
  Lanes<Real> sum;
  for (std::size_t j = 0; j < a.size(); ++j) sum[j] = fma(a[j], Real::integer(b[j]), sum[j]);
  return sum.fold();
}

/// The numbers that these bits are.
template <class Real>
std::vector<Real> loaded(std::span<const float> bits) {
  std::vector<Real> numbers;
  numbers.reserve(bits.size());
  for (const float element : bits) numbers.push_back(Real::of(element));
  return numbers;
}

}  // namespace kvcert::reference
