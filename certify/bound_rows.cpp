#include "certify/bound_rows.hpp"

#include <mpfr.h>

#include <algorithm>
#include <boost/multiprecision/mpfi.hpp>
#include <cmath>
#include <limits>

namespace kvcert::certify {
namespace {

// 200 bits, as in bound.cpp: dots of head_dim ≤ 4096 over the full binary32 range lose less than 2^-180 of A_p.
using Interval = boost::multiprecision::number<boost::multiprecision::mpfi_float_backend<60>,
                                               boost::multiprecision::et_off>;
using Real = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<60>, boost::multiprecision::et_off>;

constexpr double infinity = std::numeric_limits<double>::infinity();

Interval real(double x) { return Interval(x); }
Interval count(std::size_t n) { return Interval(static_cast<unsigned long>(n)); }
double upper_end(const Interval& x) { return mpfr_get_d(&x.backend().data()->right, MPFR_RNDU); }
double lower_end(const Interval& x) { return mpfr_get_d(&x.backend().data()->left, MPFR_RNDD); }

Real middle(const Interval& x) {
  Real result;
  mpfi_mid(result.backend().data(), x.backend().data());
  return result;
}

Interval maximum(const Interval& a, const Interval& b) {
  Interval result;
  auto* to = result.backend().data();
  mpfr_max(&to->left, &a.backend().data()->left, &b.backend().data()->left, MPFR_RNDD);
  mpfr_max(&to->right, &a.backend().data()->right, &b.backend().data()->right, MPFR_RNDU);
  return result;
}

Interval power(const Interval& base, std::size_t exponent) {
  Interval result = 1;
  for (std::size_t i = 0; i < exponent; ++i) result *= base;
  return result;
}

bool finite(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
}
bool finite(const StoredRows& rows) {
  return rows.int8 ? finite(rows.int8->scales) && finite(rows.int8->columns) : finite(rows.f32);
}

// The canonical order's units: u = ε = τ = 2^-24, λ = ω = ω_t = 2^-150, r = g = g_c = 1, r_σ = L = 0.
const Interval& u() {
  static const Interval value = real(0x1p-24);
  return value;
}
const Interval& lambda() {
  static const Interval value = real(0x1p-150);
  return value;
}
Interval grown(std::size_t roundings) { return power(1 + u(), roundings) - 1; }

/// A real score t, and D: how far a computed one may lie from it.
struct Score {
  Interval t, D;
};

/// From a score's z = Σ products, A = Σ |products|, and h_q; `absolute` is what may be lost below the normal numbers on the
/// way to the dot, beside what every dot may lose.
Score score_of(const Interval& z, const Interval& A, std::size_t h_q, const Interval& absolute, std::size_t head_dim, float scale,
               float softcap) {
  const Interval size = abs(real(scale));
  const Interval s = real(scale) * z;
  const Interval D0 = size * A * grown(h_q + 1) + (size * count(head_dim) + 1) * lambda() * power(1 + u(), head_dim + 1) +
                      size * absolute * power(1 + u(), h_q + 1);
  if (softcap == 0) return {s, D0};
  const Interval c = real(softcap);
  const Interval t = c * tanh(s / c);
  const Interval factor = (1 + u()) * (1 + u());
  return {t, factor * (D0 + u() * (abs(s) + D0) + c * lambda()) + (factor - 1) * abs(t) + c * lambda() * (1 + u()) + lambda()};
}

/// Everything behind the scores.
struct Softmax {
  std::vector<Score> scores;
  std::optional<float> sink{};
  std::size_t head_dim = 0;
  std::size_t extra_roundings = 0;    ///< of a value on its way, beside those of f32: J grows by them
  std::vector<double> value_scales{}; ///< int8 values: s_p of every row
  bool weights_normal = false;        ///< where a weight, also times its row's scale, may be subnormal the case is not covered
  std::vector<double> columns{};      ///< [HD] or empty: the output's last factor
};

/// `value(p, d)`: the row's number without the column, exact in binary64.
template <class Value>
HeadBound bound_of(const Softmax& in, const Value& value, std::span<const float> output) {
  HeadBound result;
  const auto not_covered = [&](const char* why) {
    result.not_covered = why;
    return result;
  };
  const std::size_t n = in.scores.size();
  const std::size_t N = n + (in.sink ? 1 : 0);
  const Interval sigma = in.sink ? real(*in.sink) : Interval(0);
  Interval m_plus = in.scores[0].t + in.scores[0].D;
  Interval m_minus = in.scores[0].t - in.scores[0].D;
  Interval top = in.scores[0].t;
  for (const auto& [t, D] : in.scores) {
    m_plus = maximum(m_plus, t + D);
    m_minus = maximum(m_minus, t - D);
    top = maximum(top, t);
  }
  if (in.sink) m_plus = maximum(m_plus, sigma), top = maximum(top, sigma);

  const Interval shift(middle(top));
  std::vector<Interval> w;
  Interval mass = in.sink ? exp(sigma - shift) : Interval(0);
  for (const Score& s : in.scores) w.push_back(exp(s.t - shift)), mass += w.back();
  const Interval w_sigma = in.sink ? exp(sigma - shift) / mass : Interval(0);
  for (Interval& x : w) x /= mass;

  const Interval exp_part = u() / (1 - u());  // ε'
  std::vector<Interval> growth;               // e^{B_p}
  Interval K = 0, H = 0, S_min = 0;
  for (std::size_t p = 0; p < n; ++p) {
    const auto& [t, D] = in.scores[p];
    growth.push_back(exp(D + u() * (m_plus - t + D) + exp_part));
    K += w[p] * growth[p];
    H += w[p] / growth[p];
    S_min += exp(t - m_plus);
  }
  if (in.sink) {
    const Interval grows = exp(u() * maximum(m_plus - sigma, sigma - m_minus) + exp_part);
    K += w_sigma * grows;
    H += w_sigma / grows;
    S_min += exp(sigma - m_plus);
  }
  if (in.weights_normal) {
    for (std::size_t p = 0; p < n; ++p) {
      const double least = std::min(lower_end(w[p] / (growth[p] * K)), lower_end(exp(in.scores[p].t - m_plus)));
      if (!(least > 0x1p-125) || !(least * (in.value_scales.empty() ? 1.0 : in.value_scales[p]) > 0x1p-125)) {
        return not_covered("a weight may be subnormal");
      }
    }
  }

  const std::size_t h_v = n - 1, h_s = (n + 15) / 16 + 4;
  const std::size_t J = 1 + h_v + h_s + 1 + in.extra_roundings;
  const Interval shrink = 1 - u();
  double largest = 0;
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t d = 0; d < in.head_dim; ++d) {
      const double column = in.columns.empty() ? 1.0 : std::max(1.0, std::fabs(in.columns[d]));
      largest = std::max(largest, std::fabs(value(p, d)) * column);
    }
  }
  const Interval reach = real(largest * (1 + 0x1p-50)) * K / power(shrink, J);
  if (!(upper_end(reach) < 0x1p127)) return not_covered("a weighted sum may overflow, or the scores are too uncertain to say anything");

  const Interval loss = count(N) * lambda();  // N·Ω, L = 0
  const Interval S = power(shrink, h_s) * S_min * H - loss / power(shrink, N);
  if (!(lower_end(S) > 0)) return not_covered("the denominator may vanish");
  const Interval factor = K / power(shrink, J);
  const Interval scatter = 1 / power(shrink, n + 1);
  const Interval gather = lambda() / power(shrink, n);
  std::vector<Interval> wR;
  for (std::size_t p = 0; p < n; ++p) wR.push_back(w[p] * (growth[p] * factor - 1));
  for (std::size_t d = 0; d < in.head_dim; ++d) {
    Interval R = 0, W = 0, V = 0, o = 0;
    for (std::size_t p = 0; p < n; ++p) {
      const double v = value(p, d);
      if (v == 0) continue;
      R += wR[p] * std::fabs(v);
      W += w[p] * std::fabs(v);
      V += std::fabs(v);
      o += w[p] * v;
    }
    Interval bound = R + scatter * (lambda() * V + count(n) * lambda() + (W + R) * loss) / S + gather * (V + count(n + 1));
    if (!in.columns.empty()) {  // one more product, which may itself be subnormal; its rounding of the sum is in J
      const Interval column = abs(real(in.columns[d]));
      bound = column * (R + (bound - R) * (1 + u())) + lambda();
      W *= column;
      o *= in.columns[d];
    }
    result.bound.push_back(upper_end(bound));
    result.unit.push_back(upper_end(u() * W));
    result.exact.push_back(mpfr_get_d(middle(o).backend().data(), MPFR_RNDN));
    if (!output.empty()) {
      result.error.push_back(std::isfinite(output[d]) ? upper_end(abs(real(output[d]) - o)) : infinity);
    }
  }
  return result;
}

/// Σ of products and of their magnitudes.
struct Dot {
  Interval z = 0, A = 0;
  void add(const Interval& product) {
    z += product;
    A += abs(product);
  }
};

/// The smallest exponent among numbers that are not 0; the largest int if all are.
int least_exponent(std::span<const double> numbers) {
  int least = std::numeric_limits<int>::max();
  for (double x : numbers) {
    if (x != 0) least = std::min(least, std::ilogb(x));
  }
  return least;
}

/// q ⊙ col, exact in binary64.
std::vector<double> under_columns(const Int8Input& in) {
  std::vector<double> result(in.q.begin(), in.q.end());
  if (!in.keys.int8 || in.keys.int8->columns.empty()) return result;
  for (std::size_t d = 0; d < result.size(); ++d) result[d] *= double{in.keys.int8->columns[d]};
  return result;
}

/// Why an operation that int8 keys add may be subnormal and not exact, or nothing. All sums lie on a grid: that of the least
/// product. Where the grid is no finer than 2^-149, what is subnormal is exact.
const char* loses_below_normal(const Int8Input& in, std::span<const double> q) {
  if (!in.keys.int8) return nullptr;
  const int query = least_exponent(q);
  if (query == std::numeric_limits<int>::max()) return nullptr;  // every product is 0
  if (query < -126) return "a query times its column may be subnormal";
  const std::vector<double> scales(in.keys.int8->scales.begin(), in.keys.int8->scales.end());
  if (std::any_of(scales.begin(), scales.end(), [](double s) { return !(s >= 0x1p-126); })) return "a scale is subnormal";
  const int grid = query + least_exponent(scales) - 46;
  if (grid < -149) return "a group's score may be subnormal";
  if (in.scale != 0 && grid + std::ilogb(double{in.scale}) - 23 < -149) return "a score may be subnormal";
  return nullptr;
}

}  // namespace

HeadBound evaluate_int8_bound(const Int8Input& in, std::span<const float> output) {
  HeadBound result;
  const auto not_covered = [&](const char* why) {
    result.not_covered = why;
    return result;
  };
  const std::size_t dim = in.q.size();
  const std::size_t groups = (dim + q8_key_group - 1) / q8_key_group;
  const std::size_t n = in.keys.int8 ? in.keys.int8->values.size() / dim : in.keys.f32.size() / dim;
  if (n == 0) return not_covered("no visible row");
  if (!finite(in.q) || !finite(in.keys) || !finite(in.values)) return not_covered("an input is not finite");
  if (!std::isfinite(in.scale) || !std::isfinite(in.softcap)) return not_covered("scale or softcap is not finite");
  const bool sink = in.sink && *in.sink != -std::numeric_limits<float>::infinity();
  if (sink && !std::isfinite(*in.sink)) return not_covered("the sink is not finite");
  const std::vector<double> q = under_columns(in);
  if (const char* why = loses_below_normal(in, q)) return not_covered(why);

  Softmax rest;
  rest.head_dim = dim;
  if (sink) rest.sink = in.sink;
  const std::size_t h_q = in.keys.int8 ? 1 + (std::min<std::size_t>(dim, q8_key_group) + 15) / 16 + 4 + groups : (dim + 15) / 16 + 4;
  for (std::size_t p = 0; p < n; ++p) {
    Dot dot;
    Interval unscaled = 0;  // before a group's scale, which may be small
    for (std::size_t j = 0; j < dim; ++j) {
      const double key = in.keys.int8 ? double{in.keys.int8->scales[p * groups + j / q8_key_group]} * in.keys.int8->values[p * dim + j]
                                      : double{in.keys.f32[p * dim + j]};
      dot.add(real(q[j]) * real(key));
      if (in.keys.int8) unscaled += std::fabs(q[j]) * std::abs(int{in.keys.int8->values[p * dim + j]});
    }
    const Interval size = maximum(maximum(unscaled, dot.A), dot.A * abs(real(in.scale)));
    if (!(upper_end(size * power(1 + u(), dim + 1)) < 0x1p127)) return not_covered("a score may overflow");
    rest.scores.push_back(score_of(dot.z, dot.A, h_q, 0, dim, in.scale, in.softcap));
  }
  if (!in.values.int8) return bound_of(rest, [&](std::size_t p, std::size_t d) { return double{in.values.f32[p * dim + d]}; }, output);
  rest.extra_roundings = 2;
  rest.weights_normal = true;
  rest.value_scales.assign(in.values.int8->scales.begin(), in.values.int8->scales.end());
  rest.columns.assign(in.values.int8->columns.begin(), in.values.int8->columns.end());
  return bound_of(rest, [&](std::size_t p, std::size_t d) { return rest.value_scales[p] * in.values.int8->values[p * dim + d]; }, output);
}

HeadBound evaluate_bounded_bound(const BoundedInput& in, std::span<const float> output) {
  HeadBound result;
  const auto not_covered = [&](const char* why) {
    result.not_covered = why;
    return result;
  };
  const std::size_t dim = in.q.size();
  const std::size_t sinks = in.sink_keys.size() / dim;
  bool all = finite(in.q) && finite(in.sink_keys) && finite(in.sink_values) && finite(in.cos) && finite(in.sin);
  for (std::size_t delta = 0; delta < in.keys.size(); ++delta) all = all && finite(in.keys[delta]) && finite(in.values[delta]);
  if (!all) return not_covered("an input is not finite");
  if (!std::isfinite(in.scale)) return not_covered("the scale is not finite");
  if (sinks + in.keys.size() == 0) return not_covered("no visible row");

  Softmax rest;
  rest.head_dim = dim;
  const std::size_t h_q = (dim + 15) / 16 + 4;
  const auto overflows = [&](const Interval& A) {
    return !(upper_end(maximum(A, A * abs(real(in.scale))) * power(1 + u(), dim + 3)) < 0x1p127);
  };
  for (std::size_t i = 0; i < sinks; ++i) {
    Dot dot;
    for (std::size_t j = 0; j < dim; ++j) dot.add(double{in.q[j]} * double{in.sink_keys[i * dim + j]});
    if (overflows(dot.A)) return not_covered("a score may overflow");
    rest.scores.push_back(score_of(dot.z, dot.A, h_q, 0, dim, in.scale, 0));
  }
  for (std::size_t delta = 0; delta < in.keys.size(); ++delta) {
    Interval z = 0, A = 0, keys = 0, turns = 0;
    for (std::size_t j = 0; j < dim; ++j) {
      Interval turned = double{in.q[j]};
      double magnitude = std::fabs(double{in.q[j]});  // a_j, up to one rounding of binary64, which is made up for below
      if (j < 2 * in.half) {
        const std::size_t pair = j % in.half;
        const double c = in.cos[delta * in.half + pair], s = in.sin[delta * in.half + pair];
        const double x0 = in.q[pair], x1 = in.q[pair + in.half];
        turned = j < in.half ? real(x0 * c) - real(x1 * s) : real(x0 * s) + real(x1 * c);
        magnitude = j < in.half ? std::fabs(x0 * c) + std::fabs(x1 * s) : std::fabs(x0 * s) + std::fabs(x1 * c);
        magnitude *= 1 + 0x1p-51;
      }
      const double key = in.keys[delta][j];
      z += turned * key;
      A += real(magnitude) * std::fabs(key);
      keys += std::fabs(key);
      turns = maximum(turns, real(magnitude));
    }
    if (overflows(A) || overflows(turns)) return not_covered("a score may overflow");
    rest.scores.push_back(score_of(z, A, h_q + 2, 2 * lambda() * keys, dim, in.scale, 0));
  }
  const auto value = [&](std::size_t p, std::size_t d) {
    return double{p < sinks ? in.sink_values[p * dim + d] : in.values[p - sinks][d]};
  };
  return bound_of(rest, value, output);
}

}  // namespace kvcert::certify
