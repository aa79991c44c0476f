#include "certify/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvcert::certify {

std::uint64_t Tally::judged() const {
  std::uint64_t sum = 0;
  for (const auto& [judgement, n] : heads) {
    if (judgement != Judgement::not_judged) sum += n;
  }
  return sum;
}

void Tally::add(const Tally& other) {
  for (const auto& [judgement, n] : other.heads) heads[judgement] += n;
  for (const auto& [why, n] : other.not_judged) not_judged[why] += n;
  worst_over_bound = std::max(worst_over_bound, other.worst_over_bound);
  worst_units = std::max(worst_units, other.worst_units);
  numbers += other.numbers;
  for (std::size_t i = 0; i < ulp_bins; ++i) ulps[i] += other.ulps[i];
  for (const auto& [geometry, features] : other.coverage) {
    for (const auto& [feature, n] : features) coverage[geometry][feature] += n;
  }
}

double ulps_of(double error, double exact) {
  return std::ldexp(error, -(exact == 0 ? -149 : std::max(std::ilogb(exact) - 23, -149)));
}

void Tally::count(const HeadBound& bound, std::size_t d) {
  if (bound.bound[d] > 0) worst_over_bound = std::max(worst_over_bound, bound.error[d] / bound.bound[d]);
  if (bound.unit[d] > 0x1p-120) worst_units = std::max(worst_units, bound.error[d] / bound.unit[d]);
  ++numbers;
  const double error = ulps_of(bound.error[d], bound.exact[d]);
  std::size_t bin = 0;
  for (double limit = 0.5; bin + 1 < ulp_bins && !(error <= limit); limit *= 2) ++bin;
  ++ulps[bin];
}

void Tally::cover(Geometry geometry, const std::vector<std::string>& features) {
  const std::size_t dims = geometry.head_dim < 16 ? 0 : geometry.head_dim < 64 ? 1 : geometry.head_dim < 128 ? 2 : 3;
  auto& row = coverage[geometry_classes()[dims + (geometry.num_kv_heads > 1 ? 4 : 0)]];
  ++row["attention"];
  for (const std::string& feature : features) ++row[feature];
}

const std::vector<std::string>& builtin_features() {
  static const std::vector<std::string> features{"attention", "window", "earlier position", "sinks", "softcap", "grouped queries", "int8 rows", "ring"};
  return features;
}

const std::vector<std::string>& geometry_classes() {
  static const std::vector<std::string> classes{"1 × 1–15", "1 × 16–63", "1 × 64–127", "1 × 128–256", "2–4 × 1–15", "2–4 × 16–63", "2–4 × 64–127", "2–4 × 128–256"};
  return classes;
}

HeadCase::HeadCase(const TestCase& test) {
  const std::size_t dim = test.geometry.head_dim;
  const auto visible = [&](const std::vector<float>& tensor) {
    const auto rows = test.head_rows(tensor);
    return std::vector<float>(rows.begin() + static_cast<std::ptrdiff_t>(test.first_visible() * dim),
                              rows.begin() + static_cast<std::ptrdiff_t>(test.rows() * dim));
  };
  keys = visible(test.k);
  values = visible(test.v);
}

HeadInput HeadCase::input(const TestCase& test, std::size_t head) const {
  const std::size_t dim = test.geometry.head_dim;
  HeadInput in{.q = std::span(test.q).subspan(head * dim, dim),
               .keys = keys,
               .values = values,
               .scale = test.scale,
               .softcap = test.softcap,
               .sink = std::nullopt};
  if (!test.sinks.empty()) in.sink = test.sinks[head];
  return in;
}

namespace {

std::vector<std::string> features_of(const TestCase& test) {
  std::vector<std::string> features;
  if (test.first_visible() > 0) features.emplace_back("window");
  if (test.upto < test.stored()) features.emplace_back("earlier position");
  if (!test.sinks.empty()) features.emplace_back("sinks");
  if (test.softcap > 0) features.emplace_back("softcap");
  if (test.heads() > 1) features.emplace_back("grouped queries");
  return features;
}

}  // namespace

Outcome judge(const TestCase& test, std::span<const float> out, std::span<const float> canonical, Tally& tally) {
  const std::size_t dim = test.geometry.head_dim;
  const HeadCase rows(test);
  const auto parameters = canonical_parameters(dim, test.rows() - test.first_visible());
  for (std::size_t head = 0; head < test.heads(); ++head) {
    const auto got = out.subspan(head * dim, dim);
    if (!canonical.empty()) {
      if (auto found = difference(fmt::format("head {}: out", head), got, canonical.subspan(head * dim, dim))) {
        ++tally.heads[Judgement::wrong];
        return violated("canonical bits are claimed, and " + *found);
      }
    }
    if (test.rows() == 0) {  // no arithmetic: the answer is +0, in any engine
      for (float x : got) {
        if (bits(x) != 0) return violated(fmt::format("head {}: without a row the output is {}, expected +0", head, show(x)));
      }
      ++tally.heads[Judgement::bit_identical];
      tally.cover(test.geometry, features_of(test));
      continue;
    }
    const HeadBound bound = evaluate_bound(rows.input(test, head), parameters, got);
    if (!bound.not_covered.empty()) {
      // Outside the hypotheses only canonical bits can speak, and only if they are claimed.
      ++tally.heads[canonical.empty() ? Judgement::not_judged : Judgement::bit_identical];
      ++tally.not_judged[bound.not_covered];
      if (!canonical.empty()) tally.cover(test.geometry, features_of(test));
      continue;
    }
    for (std::size_t d = 0; d < dim; ++d) {
      if (!(bound.error[d] <= bound.bound[d])) {
        ++tally.heads[Judgement::wrong];
        return violated(fmt::format(
            "head {}: out[{}] is {}; the real value is {:.17g}, so the error is {:.3g}, and the bound is {:.3g}",
            head, d, show(got[d]), bound.exact[d], bound.error[d], bound.bound[d]));
      }
      tally.count(bound, d);
    }
    ++tally.heads[canonical.empty() ? Judgement::within_bound : Judgement::bit_identical];
    tally.cover(test.geometry, features_of(test));
  }
  return holds();
}

}  // namespace kvcert::certify
