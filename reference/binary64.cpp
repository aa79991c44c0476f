#include "reference/binary64.hpp"

#include <bit>

#include <mpfr.h>

#include "reference/mpfr_bits.hpp"

namespace kvcert::reference {

namespace {

template <class Operation>
Binary64 rounded(Operation operation) {
  return Binary64::from_bits(rounded_once<Format64>(operation));
}

}  // namespace

Binary64 Binary64::of(float carrier) {
  const Number24 x(std::bit_cast<std::uint32_t>(carrier));
  return reference::rounded([&](mpfr_ptr out) { return mpfr_set(out, x.get(), MPFR_RNDN); });
}

Binary64 Binary64::integer(std::int64_t integer) {
  return reference::rounded([&](mpfr_ptr out) { return mpfr_set_si(out, integer, MPFR_RNDN); });
}

Binary32 Binary64::rounded() const {
  const ExponentRange range = ExponentRange::of<Format64>();
  const Number53 x(bits_);
  return Binary32::from_bits(nearest<Format32>(x.get()));
}

Binary64 operator+(Binary64 a, Binary64 b) {
  const Number53 x(a.bits()), y(b.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_add(out, x.get(), y.get(), MPFR_RNDN); });
}

Binary64 operator-(Binary64 a, Binary64 b) {
  const Number53 x(a.bits()), y(b.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_sub(out, x.get(), y.get(), MPFR_RNDN); });
}

Binary64 operator*(Binary64 a, Binary64 b) {
  const Number53 x(a.bits()), y(b.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_mul(out, x.get(), y.get(), MPFR_RNDN); });
}

Binary64 operator/(Binary64 a, Binary64 b) {
  const Number53 x(a.bits()), y(b.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_div(out, x.get(), y.get(), MPFR_RNDN); });
}

Binary64 sqrt(Binary64 a) {
  const Number53 x(a.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_sqrt(out, x.get(), MPFR_RNDN); });
}

Binary64 exp(Binary64 a) {
  const Number53 x(a.bits());
  return rounded([&](mpfr_ptr out) { return mpfr_exp(out, x.get(), MPFR_RNDN); });
}

bool operator<(Binary64 a, Binary64 b) {
  const Number53 x(a.bits()), y(b.bits());
  if (mpfr_nan_p(x.get()) != 0 || mpfr_nan_p(y.get()) != 0) return false;  // asking MPFR would raise its erange flag
  return mpfr_less_p(x.get(), y.get()) != 0;
}

}  // namespace kvcert::reference
