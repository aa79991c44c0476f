#include "certify/judge.hpp"

#include <fmt/format.h>

#include <algorithm>

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
      continue;
    }
    const HeadBound bound = evaluate_bound(rows.input(test, head), parameters, got);
    if (!bound.not_covered.empty()) {
      // Outside the hypotheses only canonical bits can speak, and only if they are claimed.
      ++tally.heads[canonical.empty() ? Judgement::not_judged : Judgement::bit_identical];
      ++tally.not_judged[bound.not_covered];
      continue;
    }
    for (std::size_t d = 0; d < dim; ++d) {
      const double ratio = bound.error[d] / bound.bound[d];
      if (!(bound.error[d] <= bound.bound[d])) {
        ++tally.heads[Judgement::wrong];
        return violated(fmt::format(
            "head {}: out[{}] is {}; the real value is {:.17g}, so the error is {:.3g}, and the bound is {:.3g}",
            head, d, show(got[d]), bound.exact[d], bound.error[d], bound.bound[d]));
      }
      tally.worst_over_bound = std::max(tally.worst_over_bound, ratio);
      if (bound.unit[d] > 0x1p-120) tally.worst_units = std::max(tally.worst_units, bound.error[d] / bound.unit[d]);
      ++tally.numbers;
    }
    ++tally.heads[canonical.empty() ? Judgement::within_bound : Judgement::bit_identical];
  }
  return holds();
}

}  // namespace kvcert::certify
