// Between binary32 bit patterns and MPFR numbers, through integers only.
//
// mpfr_set_flt and mpfr_get_flt compute with hardware floats and so obey FTZ, DAZ and the rounding mode of whoever
// calls. Nothing here does: a pattern is taken apart into sign, exponent and significand, and put together again.
#pragma once

#include <bit>
#include <cstdint>

#include <mpfr.h>

namespace kvcert::reference {

static_assert(sizeof(mp_limb_t) == 8, "a 24-bit significand is taken to be the top of one 64-bit limb");

// MPFR's significands lie in [1/2, 1), so its exponents are one more than IEEE 754's: the smallest subnormal, 2^−149,
// has exponent −148, and the largest binade, [2^127, 2^128), has 128.
inline constexpr int binary32_precision = 24;
inline constexpr mpfr_exp_t binary32_emin = -148;
inline constexpr mpfr_exp_t binary32_emax = 128;
inline constexpr mpfr_exp_t smallest_normal_exponent = -125;

/// The one NaN that operations give.
inline constexpr std::uint32_t canonical_nan = 0x7FC00000;

/// Sets MPFR's exponent range for this thread (it is per thread), and puts the caller's back at the end of its life.
/// Costs two comparisons where the range is already the wanted one.
class ExponentRange {
 public:
  ExponentRange(mpfr_exp_t emin, mpfr_exp_t emax) : saved_emin_(mpfr_get_emin()), saved_emax_(mpfr_get_emax()) {
    if (saved_emin_ == emin && saved_emax_ == emax) return;
    changed_ = true;
    mpfr_set_emin(emin);
    mpfr_set_emax(emax);
  }
  ~ExponentRange() {
    if (!changed_) return;
    mpfr_set_emin(saved_emin_);
    mpfr_set_emax(saved_emax_);
  }
  ExponentRange(const ExponentRange&) = delete;
  ExponentRange& operator=(const ExponentRange&) = delete;

  /// The range of binary32.
  static ExponentRange binary32() { return {binary32_emin, binary32_emax}; }
  /// The widest range there is: real numbers, as far as anything here can tell.
  static ExponentRange widest() { return {mpfr_get_emin_min(), mpfr_get_emax_max()}; }

 private:
  mpfr_exp_t saved_emin_;
  mpfr_exp_t saved_emax_;
  bool changed_ = false;
};

/// A 24-bit MPFR number on the stack, its limb beside it: an operand made of a bit pattern, or room for a result.
class Number24 {
 public:
  Number24() { set(MPFR_ZERO_KIND, 0, 0); }
  explicit Number24(std::uint32_t bits) {
    const int sign = (bits >> 31) != 0 ? -1 : 1;
    const std::uint32_t exponent = (bits >> 23) & 0xFF;
    const std::uint64_t fraction = bits & 0x7FFFFF;
    if (exponent == 0xFF) {
      set(fraction != 0 ? MPFR_NAN_KIND : sign * MPFR_INF_KIND, 0, 0);
    } else if (exponent != 0) {  // 1.fraction × 2^(exponent − 127)
      set(sign * MPFR_REGULAR_KIND, static_cast<mpfr_exp_t>(exponent) - 126, (fraction | 0x800000) << 40);
    } else if (fraction != 0) {  // fraction × 2^−149, shifted until its leading bit is the limb's
      const int zeros = std::countl_zero(fraction);
      set(sign * MPFR_REGULAR_KIND, 64 - zeros - 149, fraction << zeros);
    } else {
      set(sign * MPFR_ZERO_KIND, 0, 0);
    }
  }
  Number24(const Number24&) = delete;
  Number24& operator=(const Number24&) = delete;

  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }

  /// The bit pattern of a value that binary32 has (an operation's result after mpfr_subnormalize). A NaN is canonical.
  std::uint32_t bits() const {
    const int kind = mpfr_custom_get_kind(value_);
    if (kind == MPFR_NAN_KIND) return canonical_nan;
    const std::uint32_t sign = mpfr_signbit(value_) != 0 ? 0x80000000 : 0;
    if (kind == MPFR_ZERO_KIND || kind == -MPFR_ZERO_KIND) return sign;
    if (kind == MPFR_INF_KIND || kind == -MPFR_INF_KIND) return sign | 0x7F800000;
    const auto exponent = static_cast<int>(mpfr_custom_get_exp(value_));
    if (exponent >= smallest_normal_exponent) {
      const auto fraction = static_cast<std::uint32_t>(limb_ >> 40) & 0x7FFFFF;
      return sign | static_cast<std::uint32_t>(exponent + 126) << 23 | fraction;
    }
    return sign | static_cast<std::uint32_t>(limb_ >> (64 - (exponent + 149)));
  }

 private:
  void set(int kind, mpfr_exp_t exponent, mp_limb_t limb) {
    limb_ = limb;
    mpfr_custom_init_set(value_, kind, exponent, binary32_precision, &limb_);
  }

  mp_limb_t limb_ = 0;
  mpfr_t value_;
};

/// A number of any precision and exponent, rounded to binary32 once (nearest, ties to even, subnormals kept).
/// The caller's exponent range must hold the number.
inline std::uint32_t nearest_binary32(mpfr_srcptr number) {
  Number24 result;
  const int rounded = mpfr_set(result.get(), number, MPFR_RNDN);  // in the caller's range, where the number is legal
  const ExponentRange range = ExponentRange::binary32();
  const int checked = mpfr_check_range(result.get(), rounded, MPFR_RNDN);  // knows of the first rounding
  mpfr_subnormalize(result.get(), checked, MPFR_RNDN);                     // and so does this: never rounded twice
  return result.bits();
}

}  // namespace kvcert::reference
