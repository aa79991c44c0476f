#include "reference/binary32.hpp"

#include <mpfr.h>

#include "reference/mpfr_bits.hpp"

namespace kvcert::reference {

namespace {

template <class Operation>
Binary32 rounded(Operation operation) {
  return Binary32::from_bits(rounded_once<Format32>(operation));
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

Binary32 Binary32::integer(std::int64_t integer) {
  return rounded([&](mpfr_ptr out) { return mpfr_set_si(out, integer, MPFR_RNDN); });
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
  mpfr_set_emin(Format32::emin);
  mpfr_set_emax(Format32::emax);
}

Binary32Section::~Binary32Section() {
  mpfr_set_emin(saved_emin_);
  mpfr_set_emax(saved_emax_);
}

}  // namespace kvcert::reference
