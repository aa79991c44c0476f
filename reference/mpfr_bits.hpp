// Between IEEE 754 bit patterns and MPFR numbers, through integers only.
//
// mpfr_set_flt, mpfr_get_flt and their double relatives compute with hardware floats and so obey FTZ, DAZ and the rounding
// mode of whoever calls. Nothing here does: a pattern is taken apart into sign, exponent and significand, and put together
// again.
#pragma once

#include <bit>
#include <cstdint>

#include <mpfr.h>

namespace kvcert::reference {

static_assert(sizeof(mp_limb_t) == 8, "a significand is taken to be the top of one 64-bit limb");

/// A binary format of IEEE 754: its significand (with the implicit bit) and its exponent field, in bits.
///
/// MPFR's significands lie in [1/2, 1), so its exponents are one more than IEEE 754's: binary32's smallest subnormal,
/// 2^−149, has exponent −148, and its largest binade, [2^127, 2^128), has 128.
template <class Pattern, int significand_bits, int exponent_bits>
struct Format {
  using Bits = Pattern;
  static constexpr int precision = significand_bits;
  static constexpr int fraction_bits = significand_bits - 1;
  static constexpr Bits fraction_mask = (Bits{1} << fraction_bits) - 1;
  static constexpr Bits sign = Bits{1} << (fraction_bits + exponent_bits);
  static constexpr Bits largest_field = (Bits{1} << exponent_bits) - 1;  ///< of infinities and NaN
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;

  static constexpr mpfr_exp_t emax = bias + 1;
  static constexpr mpfr_exp_t smallest_normal = 2 - bias;
  static constexpr mpfr_exp_t emin = smallest_normal - fraction_bits;

  /// The one NaN that operations give.
  static constexpr Bits nan = largest_field << fraction_bits | Bits{1} << (fraction_bits - 1);
};

using Format32 = Format<std::uint32_t, 24, 8>;
using Format64 = Format<std::uint64_t, 53, 11>;

inline constexpr std::uint32_t canonical_nan = Format32::nan;
static_assert(canonical_nan == 0x7FC00000 && Format32::emin == -148 && Format64::emin == -1073);

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

  template <class F>
  static ExponentRange of() { return {F::emin, F::emax}; }
  /// The widest range there is: real numbers, as far as anything here can tell.
  static ExponentRange widest() { return {mpfr_get_emin_min(), mpfr_get_emax_max()}; }

 private:
  mpfr_exp_t saved_emin_;
  mpfr_exp_t saved_emax_;
  bool changed_ = false;
};

/// An MPFR number of a format's precision on the stack, its limb beside it: an operand made of a bit pattern, or room for
/// a result.
template <class F>
class Number {
 public:
  using Bits = typename F::Bits;

  Number() { set(MPFR_ZERO_KIND, 0, 0); }
  explicit Number(Bits bits) {
    const int sign = (bits & F::sign) != 0 ? -1 : 1;
    const Bits field = bits >> F::fraction_bits & F::largest_field;
    const std::uint64_t fraction = bits & F::fraction_mask;
    if (field == F::largest_field) {
      set(fraction != 0 ? MPFR_NAN_KIND : sign * MPFR_INF_KIND, 0, 0);
    } else if (field != 0) {  // 1.fraction × 2^(field − bias)
      const std::uint64_t significand = fraction | std::uint64_t{1} << F::fraction_bits;
      set(sign * MPFR_REGULAR_KIND, static_cast<mpfr_exp_t>(field) - F::bias + 1, significand << (64 - F::precision));
    } else if (fraction != 0) {  // fraction × 2^(emin − 1), shifted until its leading bit is the limb's
      const int zeros = std::countl_zero(fraction);
      set(sign * MPFR_REGULAR_KIND, 64 - zeros + F::emin - 1, fraction << zeros);
    } else {
      set(sign * MPFR_ZERO_KIND, 0, 0);
    }
  }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;

  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }

  /// The pattern of a value that the format has (an operation's result after mpfr_subnormalize). A NaN is canonical.
  Bits bits() const {
    const int kind = mpfr_custom_get_kind(value_);
    if (kind == MPFR_NAN_KIND) return F::nan;
    const Bits sign = mpfr_signbit(value_) != 0 ? F::sign : 0;
    if (kind == MPFR_ZERO_KIND || kind == -MPFR_ZERO_KIND) return sign;
    if (kind == MPFR_INF_KIND || kind == -MPFR_INF_KIND) return sign | F::largest_field << F::fraction_bits;
    const mpfr_exp_t exponent = mpfr_custom_get_exp(value_);
    if (exponent >= F::smallest_normal) {
      const auto fraction = static_cast<Bits>(limb_ >> (64 - F::precision)) & F::fraction_mask;
      return sign | static_cast<Bits>(exponent + F::bias - 1) << F::fraction_bits | fraction;
    }
    return sign | static_cast<Bits>(limb_ >> (64 - (exponent - F::emin + 1)));
  }

 private:
  void set(int kind, mpfr_exp_t exponent, mp_limb_t limb) {
    limb_ = limb;
    mpfr_custom_init_set(value_, kind, exponent, F::precision, &limb_);
  }

  mp_limb_t limb_ = 0;
  mpfr_t value_;
};

using Number24 = Number<Format32>;
using Number53 = Number<Format64>;

/// One operation in a format: MPFR computes it to the format's precision and says on which side of the truth it landed,
/// and mpfr_subnormalize uses that to round a subnormal result from the truth and not from the full precision. (Normal
/// results it would leave alone; not calling it for them saves a tenth of the time. Zeros, infinities and NaN have
/// exponents below every number's.)
template <class F, class Operation>
typename F::Bits rounded_once(Operation operation) {
  const ExponentRange range = ExponentRange::of<F>();
  Number<F> result;
  const int ternary = operation(result.get());
  if (mpfr_custom_get_exp(result.get()) < F::smallest_normal) mpfr_subnormalize(result.get(), ternary, MPFR_RNDN);
  return result.bits();
}

/// A number of any precision and exponent, rounded to a format once (nearest, ties to even, subnormals kept).
/// The caller's exponent range must hold the number.
template <class F>
typename F::Bits nearest(mpfr_srcptr number) {
  Number<F> result;
  const int rounded = mpfr_set(result.get(), number, MPFR_RNDN);  // in the caller's range, where the number is legal
  const ExponentRange range = ExponentRange::of<F>();
  const int checked = mpfr_check_range(result.get(), rounded, MPFR_RNDN);  // knows of the first rounding
  mpfr_subnormalize(result.get(), checked, MPFR_RNDN);                     // and so does this: never rounded twice
  return result.bits();
}

inline std::uint32_t nearest_binary32(mpfr_srcptr number) { return nearest<Format32>(number); }

}  // namespace kvcert::reference
