// The exact arithmetic: real numbers, enclosed by intervals whose ends are computed to a given precision.
//
// An enclosure decides a result where both of its ends round to the same binary32; where they do not, the caller
// computes again with twice the bits (evaluate.cpp). Interval arithmetic: Moore 1966; MPFI: Revol and Rouillier 2005.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include <boost/multiprecision/mpfi.hpp>
#include <mpfi.h>

#include "reference/mpfr_bits.hpp"

namespace kvcert::reference {

/// What an enclosure says about the binary32 nearest to the real number in it.
struct Candidates {
  std::uint32_t low = canonical_nan;   ///< the lower end, rounded
  std::uint32_t high = canonical_nan;  ///< the upper end, rounded

  bool empty() const { return low == canonical_nan || high == canonical_nan; }
  bool decided() const { return !empty() && low == high; }
  /// The ends lie on two sides of the midpoint between neighbours.
  bool neighbours() const { return !empty() && (low > high ? low - high : high - low) == 1; }
  /// The neighbour that a tie goes to: the one whose last bit is 0.
  std::uint32_t even() const { return (low & 1) == 0 ? low : high; }
};

/// A real number, somewhere in an interval with ends of about `digits` decimal digits: 38 digits are 128 bits, 77 are
/// 257, 154 are 513, 308 are 1025, 616 are 2048.
///
/// Needs the widest ExponentRange to be in force. The numbers are real: infinities and NaN do not come here, except the
/// −∞ that a maximum starts from.
template <unsigned digits>
class Exact {
 public:
  Exact() = default;  ///< 0
  static Exact of(float carrier) { return from_bits(std::bit_cast<std::uint32_t>(carrier)); }
  static Exact from_bits(std::uint32_t bits) {
    Exact result;
    const Number24 value(bits);
    mpfi_set_fr(result.data(), value.get());  // a binary32 fits any of the precisions: the interval is one point
    return result;
  }
  static Exact one() { return from_bits(0x3F800000); }
  static Exact minus_infinity() { return from_bits(0xFF800000); }
  static Exact root_of(std::uint64_t integer) {
    Exact result;
    mpfi_set_ui(result.data(), integer);
    mpfi_sqrt(result.data(), result.data());
    return result;
  }
  static Exact integer(std::int64_t integer) {
    Exact result;
    mpfi_set_si(result.data(), integer);
    return result;
  }

  friend Exact operator+(const Exact& a, const Exact& b) { return Exact(a.interval_ + b.interval_); }
  friend Exact operator-(const Exact& a, const Exact& b) { return Exact(a.interval_ - b.interval_); }
  friend Exact operator*(const Exact& a, const Exact& b) { return Exact(a.interval_ * b.interval_); }
  friend Exact operator/(const Exact& a, const Exact& b) { return Exact(a.interval_ / b.interval_); }
  friend Exact fma(const Exact& a, const Exact& b, const Exact& c) {
    return Exact(a.interval_ * b.interval_ + c.interval_);
  }
  friend Exact exp(Exact a) {
    mpfi_exp(a.data(), a.data());
    return a;
  }
  friend Exact tanh(Exact a) {
    mpfi_tanh(a.data(), a.data());
    return a;
  }
  friend Exact cos(Exact a) {
    mpfi_cos(a.data(), a.data());
    return a;
  }
  friend Exact sin(Exact a) {
    mpfi_sin(a.data(), a.data());
    return a;
  }

  /// Not the maximum, but a number that serves as well: the greatest upper end, as one point. A softmax is the same
  /// under any common shift, and this one has two merits. As a point it adds no width (the maximum as an interval would
  /// enter numerator and denominator as if it were two numbers); as an upper bound it leaves no exponent positive.
  friend Exact maximum(const Exact& so_far, const Exact& next) {
    const bool grows = mpfr_less_p(&so_far.data()->right, &next.data()->right) != 0;
    Exact result;
    mpfi_set_fr(result.data(), grows ? &next.data()->right : &so_far.data()->right);
    return result;
  }
  /// A real exponential is never 0, however small.
  friend bool contributes(const Exact&) { return true; }

  // What the O(1) overlay asks besides.
  friend Exact maximum_or_nan(const Exact& so_far, const Exact& next) { return maximum(so_far, next); }
  friend Exact not_below_zero(Exact a) {
    if (mpfr_sgn(&a.data()->left) < 0) mpfr_set_zero(&a.data()->left, +1);
    if (mpfr_sgn(&a.data()->right) < 0) mpfr_set_zero(&a.data()->right, +1);
    return a;
  }
  /// Known to be 0.
  bool is_zero() const { return mpfi_is_zero(data()) != 0; }
  /// Whether a part of mass a stays, which it does where a > 0; nullopt where the enclosure does not tell.
  friend std::optional<bool> stays(const Exact& a) {
    if (mpfr_sgn(&a.data()->left) > 0) return true;
    if (mpfr_sgn(&a.data()->right) <= 0) return false;
    return std::nullopt;
  }
  /// What to divide by. Real sums of exponentials need no guard against 0.
  friend Exact divisor(const Exact& a) { return a; }

  // What the judge of a seal asks besides.
  friend Exact abs(Exact a) {
    mpfi_abs(a.data(), a.data());
    return a;
  }
  friend Exact sqrt(Exact a) {
    mpfi_sqrt(a.data(), a.data());
    return a;
  }
  static Exact from_binary64(std::uint64_t bits) {
    Exact result;
    const Number53 value(bits);
    mpfi_set_fr(result.data(), value.get());
    return result;
  }
  static Exact power_of_two(long exponent) {
    Exact result = one();
    mpfi_mul_2si(result.data(), result.data(), exponent);
    return result;
  }
  /// The binary64 number nearest to 10^−6.
  static Exact millionth() { return from_binary64(0x3EB0C6F7A0B5ED8D); }
  /// Known to be at most b.
  friend bool certainly_at_most(const Exact& a, const Exact& b) {
    return mpfr_lessequal_p(&a.data()->right, &b.data()->left) != 0;
  }
  /// The upper end, for showing.
  double upper() const { return mpfr_get_d(&data()->right, MPFR_RNDU); }

  /// Both ends, rounded to binary32. Zeros compare equal: one with 0 in its enclosure is +0, and one that is known to
  /// be negative is −0, as any rounding of a small negative number.
  Candidates candidates() const {
    mpfr_srcptr left = &data()->left;
    mpfr_srcptr right = &data()->right;
    Candidates found{nearest_binary32(left), nearest_binary32(right)};
    if (found.low << 1 == 0 && found.high << 1 == 0) {
      found.low = found.high = mpfr_sgn(right) < 0 ? 0x80000000 : 0;
    }
    return found;
  }

 private:
  using Interval =
      boost::multiprecision::number<boost::multiprecision::mpfi_float_backend<digits>, boost::multiprecision::et_off>;
  explicit Exact(Interval interval) : interval_(std::move(interval)) {}
  mpfi_ptr data() { return interval_.backend().data(); }
  mpfi_srcptr data() const { return interval_.backend().data(); }

  Interval interval_;
};

}  // namespace kvcert::reference
