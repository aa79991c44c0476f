#include "certify/bound_head.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "certify/bound_number.hpp"

namespace kvcert::certify {
namespace {

using Real = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<60>, boost::multiprecision::et_off>;

}  // namespace

double upper_end(const Interval& x) { return mpfr_get_d(&x.backend().data()->right, MPFR_RNDU); }
double lower_end(const Interval& x) { return mpfr_get_d(&x.backend().data()->left, MPFR_RNDD); }
double nearest(const Interval& x) {
  Real middle;
  mpfi_mid(middle.backend().data(), x.backend().data());
  return mpfr_get_d(middle.backend().data(), MPFR_RNDN);
}

bool certainly_less(const Interval& a, const Interval& b) {
  return mpfr_less_p(&a.backend().data()->right, &b.backend().data()->left) != 0;
}

bool finite(std::span<const float> numbers) {
  return std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); });
}

void take_engine(Formula& f, const EngineParameters& e) {
  f.u = e.u, f.lambda = e.lambda, f.lambda_add = e.lambda_add;
  f.epsilon = e.epsilon, f.omega = e.omega, f.tau = e.tau, f.omega_tanh = e.omega_tanh;
  f.u_q = e.u_q, f.u_k = e.u_k, f.u_v = e.u_v, f.u_P = e.u_P, f.lambda_P = e.lambda_P;
  f.h_q = e.h_q, f.r = e.r, f.r_sigma = e.r_sigma, f.g_c = e.g_c;
  f.L = e.rescalings, f.h_v = e.h_v, f.h_s = e.h_s, f.g = e.g;
}

std::string settle_scores(Formula& f, std::span<const Interval> absolute, const std::vector<bool>& wide, float softcap,
                          std::optional<float> sink) {
  f.c = softcap, f.sigma = sink.value_or(0.0F);
  f.N = f.n + (sink ? 1 : 0);
  const auto settle = [&] {
    f.scores();
    for (std::size_t p = 0; p < f.n; ++p) f.D0[p] += abs(f.scale) * absolute[p] * power(1 + f.u, f.h_q + f.r);
  };
  settle();
  if (!wide.empty()) {
    const std::vector<Interval> narrow = f.D0;
    f.h_q += 2;
    settle();
    for (std::size_t p = 0; p < f.n; ++p) {
      if (!wide[p]) f.D0[p] = narrow[p];
    }
  }
  if (softcap != 0) f.cap();
  f.t = softcap == 0 ? f.s : f.t_capped;
  f.D = softcap == 0 ? f.D0 : f.D_capped;
  if (sink) {
    f.sink();
    f.t.push_back(f.sigma);
    f.D.push_back(f.D_sigma);
  }
  f.head();
  return certainly_less(Interval(0), f.S) ? std::string() : "the denominator may vanish";
}

std::string bound_dimension(Formula& f, const Dimension& in, double overflow, HeadBound& result, std::optional<float> output) {
  f.v.clear();
  Interval exact = 0, size = 0, moved = 0;
  for (std::size_t p = 0; p < f.n; ++p) {
    const Interval value = in.value(p);
    const Interval added = in.added ? in.added(p) : Interval(0);
    f.v.push_back(abs(value) + added);
    exact += f.w[p] * value;
    size += f.w[p] * abs(value);
    moved += f.w[p] * added;
  }
  f.dimension();
  Interval bound = f.bound + moved;
  // An engine that rescales adds up before it divides.
  Interval reach = maximum(f.T + f.U, f.L == 0 ? Interval(0) : f.V * f.F);
  if (in.column) {
    const Interval column = abs(Interval(*in.column));
    reach = maximum(reach, reach * column * (1 + f.u));
    bound = column * (f.main_part + moved + f.U * (1 + f.u)) + f.lambda;
    exact *= *in.column;
    size *= column;
  }
  if (!certainly_less(reach, Interval(overflow))) {
    return "a weighted sum may overflow, or the scores are too uncertain to say anything";
  }
  result.bound.push_back(upper_end(bound));
  result.unit.push_back(nearest(f.u * size));
  result.exact.push_back(nearest(exact));
  if (output) {
    result.error.push_back(std::isfinite(*output) ? upper_end(abs(Interval(*output) - exact)) : std::numeric_limits<double>::infinity());
  }
  return {};
}

}  // namespace kvcert::certify
