#include "reference/binary32.hpp"

#include <mpfr.h>

#include "reference/mpfr_bits.hpp"

namespace kvcert::reference {

namespace {

/// One operation: MPFR computes it to 24 bits and says on which side of the truth it landed, and mpfr_subnormalize uses
/// that to round a subnormal result from the truth and not from the 24 bits. (Normal results it would leave alone; not
/// calling it for them saves a tenth of the time. Zeros, infinities and NaN have exponents below every number's.)
template <class Operation>
Binary32 rounded(Operation operation) {
  const ExponentRange range = ExponentRange::binary32();
  Number24 result;
  const int ternary = operation(result.get());
  if (mpfr_custom_get_exp(result.get()) < smallest_normal_exponent) {
    mpfr_subnormalize(result.get(), ternary, MPFR_RNDN);
  }
  return Binary32::from_bits(result.bits());
}

}  // namespace

Binary32 operator+(Binary32 a, Binary32 b) {
  const Number24 x(a.bits()), y(b.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_add(out, x.get(), y.get(), MPFR_RNDN); });
}

Binary32 operator-(Binary32 a, Binary32 b) {
  const Number24 x(a.bits()), y(b.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_sub(out, x.get(), y.get(), MPFR_RNDN); });
}

Binary32 operator*(Binary32 a, Binary32 b) {
  const Number24 x(a.bits()), y(b.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_mul(out, x.get(), y.get(), MPFR_RNDN); });
}

Binary32 operator/(Binary32 a, Binary32 b) {
  const Number24 x(a.bits()), y(b.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_div(out, x.get(), y.get(), MPFR_RNDN); });
}

Binary32 sqrt(Binary32 a) {
  const Number24 x(a.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_sqrt(out, x.get(), MPFR_RNDN); });
}

Binary32 Binary32::root_of(std::uint64_t integer) {
  return rounded([&](mpfr_ptr out) { return mpfr_sqrt_ui(out, integer, MPFR_RNDN); });
}

Binary32 fma(Binary32 a, Binary32 b, Binary32 c) {
  const Number24 x(a.bits()), y(b.bits()), z(c.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_fma(out, x.get(), y.get(), z.get(), MPFR_RNDN); });
}

Binary32 exp(Binary32 a) {
  const Number24 x(a.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_exp(out, x.get(), MPFR_RNDN); });
}

Binary32 tanh(Binary32 a) {
  const Number24 x(a.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_tanh(out, x.get(), MPFR_RNDN); });
}

bool operator<(Binary32 a, Binary32 b) {
  if (a.is_nan() || b.is_nan()) return false;  // asking MPFR would raise its erange flag
  const Number24 x(a.bits()), y(b.bits());
  return mpfr_less_p(x.get(), y.get()) != 0;
}

static_assert(sizeof(long) == sizeof(mpfr_exp_t));

Binary32Section::Binary32Section() : saved_emin_(mpfr_get_emin()), saved_emax_(mpfr_get_emax()) {
  mpfr_set_emin(binary32_emin);
  mpfr_set_emax(binary32_emax);
}

Binary32Section::~Binary32Section() {
  mpfr_set_emin(saved_emin_);
  mpfr_set_emax(saved_emax_);
}

}  // namespace kvcert::reference
