// What the accuracy bound is evaluated on: enclosures of real numbers, and the words that certify/bound_formula.hpp is
// written in.
#pragma once

#include <mpfr.h>

#include <boost/multiprecision/mpfi.hpp>
#include <cstddef>
#include <vector>

namespace kvcert::certify {

// 60 decimal digits are 200 bits: dots of head_dim ≤ 4096 over the full binary32 range lose less than 2^-180 of A_p.
using Interval = boost::multiprecision::number<boost::multiprecision::mpfi_float_backend<60>,
                                               boost::multiprecision::et_off>;

/// The interval of max(a, b).
inline Interval maximum(const Interval& a, const Interval& b) {
  Interval result;
  auto* to = result.backend().data();
  mpfr_max(&to->left, &a.backend().data()->left, &b.backend().data()->left, MPFR_RNDD);
  mpfr_max(&to->right, &a.backend().data()->right, &b.backend().data()->right, MPFR_RNDU);
  return result;
}

template <class X>
X count(std::size_t n) {
  return X(static_cast<unsigned long>(n));
}

template <class X>
X power(const X& base, std::size_t exponent) {
  X result = 1;
  for (X square = base; exponent != 0; exponent >>= 1U) {
    if ((exponent & 1U) != 0) result *= square;
    if (exponent != 1) square *= square;
  }
  return result;
}

template <class X, class Term>
X sum(std::size_t n, const Term& term) {
  X result = 0;
  for (std::size_t p = 0; p < n; ++p) result += term(p);
  return result;
}

/// The greatest term; n > 0.
template <class X, class Term>
X greatest(std::size_t n, const Term& term) {
  X result = term(0);
  for (std::size_t p = 1; p < n; ++p) result = maximum(result, term(p));
  return result;
}

template <class X, class Term>
std::vector<X> rows(std::size_t n, const Term& term) {
  std::vector<X> result;
  result.reserve(n);
  for (std::size_t p = 0; p < n; ++p) result.push_back(term(p));
  return result;
}

}  // namespace kvcert::certify
