// The canonical arithmetic: IEEE 754 binary32, every operation rounded to nearest even, computed by MPFR.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace kvcert::reference {

/// A binary32 value as its bit pattern. No hardware float operation takes part in anything it does, so neither FTZ, DAZ
/// nor the rounding mode of the caller can change a result. An operation that results in NaN gives 0x7FC00000.
class Binary32 {
 public:
  constexpr Binary32() = default;  ///< +0
  static constexpr Binary32 from_bits(std::uint32_t bits) { return Binary32(bits); }
  static constexpr Binary32 of(float carrier) {
    auto bits = std::bit_cast<std::uint32_t>(carrier);
    // clang turns a test of these bits back into a comparison of floats, and that one does depend on DAZ. So the
    // compiler is not told where the bits come from.
    if (!std::is_constant_evaluated()) asm("" : "+r"(bits));
    return Binary32(bits);
  }
  static constexpr Binary32 one() { return Binary32(0x3F800000); }
  static constexpr Binary32 minus_infinity() { return Binary32(0xFF800000); }
  /// The integer rounded to binary32's precision would lose bits that a root still sees; so the root takes the integer.
  static Binary32 root_of(std::uint64_t integer);
  static Binary32 integer(std::int64_t integer);  ///< rounded to nearest

  constexpr std::uint32_t bits() const { return bits_; }
  constexpr float carrier() const { return std::bit_cast<float>(bits_); }
  constexpr bool is_zero() const { return bits_ << 1 == 0; }
  constexpr bool is_nan() const { return (bits_ & 0x7FFFFFFF) > 0x7F800000; }
  constexpr bool is_finite() const { return (bits_ & 0x7F800000) != 0x7F800000; }

  friend Binary32 operator+(Binary32 a, Binary32 b);
  friend Binary32 operator-(Binary32 a, Binary32 b);
  friend Binary32 operator*(Binary32 a, Binary32 b);
  friend Binary32 operator/(Binary32 a, Binary32 b);
  friend Binary32 sqrt(Binary32 a);
  friend Binary32 fma(Binary32 a, Binary32 b, Binary32 c);  ///< a·b + c, rounded once
  friend Binary32 exp(Binary32 a);                          ///< correctly rounded
  friend Binary32 tanh(Binary32 a);                         ///< correctly rounded
  friend bool operator<(Binary32 a, Binary32 b);            ///< as IEEE: false where a NaN takes part, −0 = +0

  /// The greater of the two; a NaN on the right is ignored, so a maximum that starts from −∞ ignores every NaN.
  friend Binary32 maximum(Binary32 so_far, Binary32 next) { return so_far < next ? next : so_far; }
  /// A row whose probability is 0 has no part in the output: there, 0 · ∞ would be NaN.
  friend constexpr bool contributes(Binary32 probability) { return !probability.is_zero(); }

  // What the O(1) overlay asks besides. Its maxima do not ignore a NaN.
  friend Binary32 maximum_or_nan(Binary32 a, Binary32 b) {
    if (a.is_nan() || b.is_nan()) return Binary32(0x7FC00000);
    return a < b ? b : a;
  }
  friend Binary32 not_below_zero(Binary32 a) { return maximum_or_nan(a, Binary32()); }
  /// Whether a part of mass a stays. It goes where a ≤ 0; a NaN stays, and shows.
  friend std::optional<bool> stays(Binary32 a) { return a.is_nan() || Binary32() < a; }
  /// What to divide by: at least 2^−126.
  friend Binary32 divisor(Binary32 a) { return maximum_or_nan(a, Binary32(0x00800000)); }

 private:
  explicit constexpr Binary32(std::uint32_t bits) : bits_(bits) {}
  std::uint32_t bits_ = 0;
};

Binary32 operator+(Binary32 a, Binary32 b);
Binary32 operator-(Binary32 a, Binary32 b);
Binary32 operator*(Binary32 a, Binary32 b);
Binary32 operator/(Binary32 a, Binary32 b);
Binary32 sqrt(Binary32 a);
Binary32 fma(Binary32 a, Binary32 b, Binary32 c);
Binary32 exp(Binary32 a);
Binary32 tanh(Binary32 a);
bool operator<(Binary32 a, Binary32 b);

/// While one lives, operations on this thread find MPFR's exponent range already set and need not set it each time.
/// Only speed depends on it. The range of the caller comes back when it ends; other MPFR code does not belong inside.
class Binary32Section {
 public:
  Binary32Section();
  ~Binary32Section();
  Binary32Section(const Binary32Section&) = delete;
  Binary32Section& operator=(const Binary32Section&) = delete;

 private:
  long saved_emin_;
  long saved_emax_;
};

}  // namespace kvcert::reference
