#include "certify/bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "certify/bound_formula.hpp"
#include "certify/bound_number.hpp"

namespace kvcert::certify {
namespace {

using Real = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<60>, boost::multiprecision::et_off>;
using Formula = BoundFormula<Interval>;

double upper_end(const Interval& x) { return mpfr_get_d(&x.backend().data()->right, MPFR_RNDU); }
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

/// Why the case has no bound, as far as its inputs say.
std::string input_not_covered(const HeadInput& in, bool sink) {
  if (in.keys.empty()) return "no visible row";
  if (!finite(in.q) || !finite(in.keys) || !finite(in.values)) return "an input is not finite";
  if (!std::isfinite(in.scale) || !std::isfinite(in.softcap)) return "scale or softcap is not finite";
  if (in.softcap < 0) return "the softcap is negative";
  if (sink && !std::isfinite(*in.sink)) return "the sink is not finite";
  if (!finite(in.key_error) || !finite(in.value_error)) return "what storage may have changed is not finite";
  return {};
}

void take_engine(Formula& f, const EngineParameters& e) {
  f.u = e.u, f.lambda = e.lambda, f.lambda_add = e.lambda_add;
  f.epsilon = e.epsilon, f.omega = e.omega, f.tau = e.tau, f.omega_tanh = e.omega_tanh;
  f.u_q = e.u_q, f.u_k = e.u_k, f.u_v = e.u_v, f.u_P = e.u_P, f.lambda_P = e.lambda_P;
  f.h_q = e.h_q, f.r = e.r, f.r_sigma = e.r_sigma, f.g_c = e.g_c;
  f.L = e.rescalings, f.h_v = e.h_v, f.h_s = e.h_s, f.g = e.g;
}

void take_case(Formula& f, const HeadInput& in, bool sink) {
  f.head_dim = in.q.size();
  f.n = in.keys.size() / in.q.size();
  f.N = f.n + (sink ? 1 : 0);
  f.scale = in.scale, f.c = in.softcap, f.sigma = sink ? *in.sink : 0.0F;
  for (std::size_t p = 0; p < f.n; ++p) {
    Interval z = 0, A = 0;
    for (std::size_t j = 0; j < f.head_dim; ++j) {
      // Products of two binary32 are exact in binary64, but for those below 2^-1022; the smallest is 2^-298.
      const double product = static_cast<double>(in.q[j]) * static_cast<double>(in.keys[p * f.head_dim + j]);
      z += product;
      A += std::fabs(product);
    }
    f.z.push_back(z);
    f.A.push_back(A);
  }
}

/// Σ_j of what the absolute errors of storage add to a dot's magnitude. The theorems know relative ones only; where these
/// are 0, what is evaluated is the theorems' formula.
Interval absolute_in_dot(const HeadInput& in, const EngineParameters& e, std::size_t row) {
  Interval added = 0;
  const std::size_t dim = in.q.size();
  for (std::size_t j = 0; j < dim; ++j) {
    const Interval q = abs(Interval(in.q[j]));
    if (!in.key_error.empty())
      added += (q * (1 + Interval(e.u_q)) + Interval(e.query_error)) * abs(Interval(in.key_error[row * dim + j]));
    if (e.query_error != 0) added += Interval(e.query_error) * abs(Interval(in.keys[row * dim + j])) * (1 + Interval(e.u_k));
  }
  return added;
}

/// How far a stored value may lie from the row's, beside the relative u_v: relative to what is stored, as u_v is.
Interval absolute_in_value(const HeadInput& in, const EngineParameters& e, std::size_t at) {
  return in.value_error.empty() ? Interval(0) : abs(Interval(in.value_error[at])) / (1 - Interval(e.u_v));
}

}  // namespace

EngineParameters canonical_parameters(std::size_t head_dim, std::size_t visible_rows) {
  EngineParameters e;
  e.h_q = (head_dim + 15) / 16 + 4;
  e.h_v = visible_rows == 0 ? 0 : visible_rows - 1;
  e.h_s = (visible_rows + 15) / 16 + 4;
  return e;
}

HeadBound evaluate_bound(const HeadInput& in, const EngineParameters& e, std::span<const float> output) {
  const auto not_covered = [](std::string why) { return HeadBound{std::move(why), {}, {}, {}, {}}; };
  const bool sink = in.sink && *in.sink != -std::numeric_limits<float>::infinity();
  if (std::string why = input_not_covered(in, sink); !why.empty()) return not_covered(std::move(why));

  Formula f;
  take_engine(f, e);
  take_case(f, in, sink);
  const Interval overflow = e.overflow;
  const auto stored = rows<Interval>(f.n, [&](std::size_t p) { return absolute_in_dot(in, e, p); });
  const Interval worst_product = greatest<Interval>(f.n, [&](std::size_t p) { return f.A[p] + stored[p]; });
  if (!certainly_less(worst_product * maximum(Interval(1), abs(f.scale)) * power(1 + f.u, f.head_dim + f.r), overflow)) {
    return not_covered("a score may overflow");
  }
  f.scores();
  for (std::size_t p = 0; p < f.n; ++p) f.D0[p] += abs(f.scale) * stored[p] * power(1 + f.u, f.h_q + f.r);
  if (in.softcap != 0) f.cap();
  f.t = in.softcap == 0 ? f.s : f.t_capped;
  f.D = in.softcap == 0 ? f.D0 : f.D_capped;
  if (sink) {
    f.sink();
    f.t.push_back(f.sigma);
    f.D.push_back(f.D_sigma);
  }
  f.head();
  if (!certainly_less(Interval(0), f.S)) return not_covered("the denominator may vanish");

  HeadBound result;
  for (std::size_t d = 0; d < f.head_dim; ++d) {
    const auto value = [&](std::size_t p) { return Interval(in.values[p * f.head_dim + d]); };
    const auto added = [&](std::size_t p) { return absolute_in_value(in, e, p * f.head_dim + d); };
    f.v = rows<Interval>(f.n, [&](std::size_t p) { return abs(value(p)) + added(p); });
    f.dimension();
    // An engine that rescales adds up before it divides.
    const Interval sums = e.rescalings == 0 ? Interval(0) : f.V * f.F;
    if (!certainly_less(maximum(f.T + f.U, sums), overflow)) {
      return not_covered("a weighted sum may overflow, or the scores are too uncertain to say anything");
    }
    const Interval exact = sum<Interval>(f.n, [&](std::size_t p) { return f.w[p] * value(p); });
    const Interval size = sum<Interval>(f.n, [&](std::size_t p) { return f.w[p] * abs(value(p)); });
    const Interval moved = sum<Interval>(f.n, [&](std::size_t p) { return f.w[p] * added(p); });
    result.bound.push_back(upper_end(f.bound + moved));
    result.unit.push_back(nearest(f.u * size));
    result.exact.push_back(nearest(exact));
    if (!output.empty()) {
      const bool number = std::isfinite(output[d]);
      result.error.push_back(number ? upper_end(abs(Interval(output[d]) - exact)) : std::numeric_limits<double>::infinity());
    }
  }
  return result;
}

}  // namespace kvcert::certify
