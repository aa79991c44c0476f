#include "certify/bound_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "certify/bound_head.hpp"
#include "certify/bound_number.hpp"

namespace kvcert::certify {
namespace {

using certify::finite;
bool finite(const StoredRows& rows) {
  return rows.int8 ? finite(rows.int8->scales) && finite(rows.int8->columns) : finite(rows.f32);
}

/// Σ of products and of their magnitudes.
struct Dot {
  Interval z = 0, A = 0;
  void add(const Interval& product) {
    z += product;
    A += abs(product);
  }
};

/// Everything behind the dots.
struct Rest {
  Formula formula;                    ///< the engine, scale, z and A, head_dim, n
  std::vector<Interval> absolute{};   ///< [n], as for settle_scores
  std::vector<bool> wide{};           ///< [n] or empty, as for settle_scores
  float softcap = 0;
  std::optional<float> sink{};
  std::vector<double> value_scales{}; ///< int8 values: s_p of every row
  std::vector<float> columns{};       ///< [HD] or empty: the output's last factor

  void take(const Dot& dot, const Interval& beside = 0) {
    formula.z.push_back(dot.z);
    formula.A.push_back(dot.A);
    absolute.push_back(beside);
  }
};

Rest canonical(std::size_t head_dim, std::size_t rows, float scale) {
  Rest rest;
  take_engine(rest.formula, canonical_parameters(head_dim, rows));
  rest.formula.head_dim = head_dim, rest.formula.n = rows, rest.formula.scale = scale;
  return rest;
}

bool may_overflow(const Interval& A, float scale, std::size_t roundings) {
  return !certainly_less(maximum(A, A * abs(Interval(scale))) * power(Interval(1 + 0x1p-24), roundings), Interval(0x1p127));
}

/// Whether a weight, or a weight times its row's scale, may be subnormal.
bool weights_normal(const Rest& rest) {
  const Formula& f = rest.formula;
  for (std::size_t p = 0; p < f.n; ++p) {
    const double least = std::min(lower_end(f.w[p] / (exp(f.B[p]) * f.K)), lower_end(exp(f.t[p] - f.m_plus)));
    if (!(least > 0x1p-125) || !(least * rest.value_scales[p] > 0x1p-125)) return false;
  }
  return true;
}

/// `value(p, d)`: the row's number without the column, exact in binary64.
template <class Value>
HeadBound bound_of(Rest& rest, const Value& value, std::span<const float> output) {
  HeadBound result;
  Formula& f = rest.formula;
  result.not_covered = settle_scores(f, rest.absolute, rest.wide, rest.softcap, rest.sink);
  if (result.not_covered.empty() && !rest.value_scales.empty() && !weights_normal(rest)) {
    result.not_covered = "a weight may be subnormal";
  }
  for (std::size_t d = 0; d < f.head_dim && result.not_covered.empty(); ++d) {
    const Dimension dimension{.value = [&](std::size_t p) { return Interval(value(p, d)); },
                              .added = {},
                              .column = rest.columns.empty() ? std::nullopt : std::optional(rest.columns[d])};
    result.not_covered = bound_dimension(f, dimension, 0x1p127, result, output.empty() ? std::nullopt : std::optional(output[d]));
  }
  if (!result.not_covered.empty()) return {result.not_covered, {}, {}, {}, {}};
  return result;
}

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

  Rest rest = canonical(dim, n, in.scale);
  rest.softcap = in.softcap;
  if (sink) rest.sink = in.sink;
  rest.formula.h_q = in.keys.int8 ? 1 + (std::min<std::size_t>(dim, q8_key_group) + 15) / 16 + 4 + groups : (dim + 15) / 16 + 4;
  for (std::size_t p = 0; p < n; ++p) {
    Dot dot;
    Interval unscaled = 0;  // before a group's scale, which may be small
    for (std::size_t j = 0; j < dim; ++j) {
      const double key = in.keys.int8 ? double{in.keys.int8->scales[p * groups + j / q8_key_group]} * in.keys.int8->values[p * dim + j]
                                      : double{in.keys.f32[p * dim + j]};
      dot.add(Interval(q[j]) * Interval(key));
      if (in.keys.int8) unscaled += std::fabs(q[j]) * std::abs(int{in.keys.int8->values[p * dim + j]});
    }
    if (may_overflow(dot.A, in.scale, dim + 1) || may_overflow(unscaled, 1, dim + 1)) return not_covered("a score may overflow");
    rest.take(dot);
  }
  if (!in.values.int8) return bound_of(rest, [&](std::size_t p, std::size_t d) { return double{in.values.f32[p * dim + d]}; }, output);
  rest.formula.h_v += 2;
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

  Rest rest = canonical(dim, sinks + in.keys.size(), in.scale);
  rest.wide.assign(sinks, false);
  rest.wide.resize(sinks + in.keys.size(), true);
  for (std::size_t i = 0; i < sinks; ++i) {
    Dot dot;
    for (std::size_t j = 0; j < dim; ++j) dot.add(double{in.q[j]} * double{in.sink_keys[i * dim + j]});
    if (may_overflow(dot.A, in.scale, dim + 3)) return not_covered("a score may overflow");
    rest.take(dot);
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
        turned = j < in.half ? Interval(x0 * c) - Interval(x1 * s) : Interval(x0 * s) + Interval(x1 * c);
        magnitude = j < in.half ? std::fabs(x0 * c) + std::fabs(x1 * s) : std::fabs(x0 * s) + std::fabs(x1 * c);
        magnitude *= 1 + 0x1p-51;
      }
      const double key = in.keys[delta][j];
      z += turned * key;
      A += Interval(magnitude) * std::fabs(key);
      keys += std::fabs(key);
      turns = maximum(turns, Interval(magnitude));
    }
    if (may_overflow(A, in.scale, dim + 3) || may_overflow(turns, in.scale, dim + 3)) return not_covered("a score may overflow");
    rest.take({z, A}, 2 * rest.formula.lambda * keys);
  }
  const auto value = [&](std::size_t p, std::size_t d) {
    return double{p < sinks ? in.sink_values[p * dim + d] : in.values[p - sinks][d]};
  };
  return bound_of(rest, value, output);
}

}  // namespace kvcert::certify
