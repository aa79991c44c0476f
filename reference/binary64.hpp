// The arithmetic of the O(1) seal: IEEE 754 binary64, every operation rounded to nearest even, computed by MPFR.
#pragma once

#include <cstdint>

#include "reference/binary32.hpp"

namespace kvcert::reference {

/// A binary64 value as its bit pattern, as Binary32 is one of binary32. An operation that results in NaN gives
/// 0x7FF8000000000000.
class Binary64 {
 public:
  constexpr Binary64() = default;  ///< +0
  static constexpr Binary64 from_bits(std::uint64_t bits) { return Binary64(bits); }
  static Binary64 of(float carrier);  ///< exact; a NaN is canonical
  static Binary64 integer(std::int64_t integer);
  /// The binary64 number nearest to 10^−6.
  static constexpr Binary64 millionth() { return Binary64(0x3EB0C6F7A0B5ED8D); }
  /// 2^−1022, DBL_MIN.
  static constexpr Binary64 smallest_normal() { return Binary64(0x0010000000000000); }

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr bool is_finite() const { return (bits_ & 0x7FF0000000000000) != 0x7FF0000000000000; }
  Binary32 rounded() const;  ///< to binary32, once

  friend Binary64 operator+(Binary64 a, Binary64 b);
  friend Binary64 operator-(Binary64 a, Binary64 b);
  friend Binary64 operator*(Binary64 a, Binary64 b);
  friend Binary64 operator/(Binary64 a, Binary64 b);
  friend Binary64 sqrt(Binary64 a);
  friend Binary64 exp(Binary64 a);                ///< correctly rounded
  friend bool operator<(Binary64 a, Binary64 b);  ///< as IEEE: false where a NaN takes part, −0 = +0

 private:
  explicit constexpr Binary64(std::uint64_t bits) : bits_(bits) {}
  std::uint64_t bits_ = 0;
};

Binary64 operator+(Binary64 a, Binary64 b);
Binary64 operator-(Binary64 a, Binary64 b);
Binary64 operator*(Binary64 a, Binary64 b);
Binary64 operator/(Binary64 a, Binary64 b);
Binary64 sqrt(Binary64 a);
Binary64 exp(Binary64 a);
bool operator<(Binary64 a, Binary64 b);

}  // namespace kvcert::reference
