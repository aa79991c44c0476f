#include "reference/evaluate.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "reference/attend.hpp"
#include "reference/binary32.hpp"
#include "reference/decide.hpp"
#include "reference/exact.hpp"

namespace kvcert::reference {

namespace {

float carrier(std::uint32_t bits) { return std::bit_cast<float>(bits); }

bool is_finite(float value) { return Binary32::of(value).is_finite(); }

bool all_finite(std::span<const float> values) { return std::ranges::all_of(values, is_finite); }

/// Rows that there are for sure: as many as every span holds.
std::size_t count(const Rows& rows, std::size_t head_dim, std::size_t groups) {
  if (!rows.int8) return rows.f32.size() / head_dim;
  return std::min(rows.int8->values.size() / head_dim, rows.int8->scales.size() / groups);
}

/// A query taken apart: its heads, and the rows they see.
struct Group {
  const Query& query;
  VisibleRows rows;
  std::size_t heads;

  Group(const Query& asked, const Rows& keys, const Rows& values, std::size_t head_dim, std::size_t upto)
      : query(asked), rows{keys, values, head_dim, 0, 0}, heads(0) {
    if (head_dim == 0) return;
    heads = query.q_group.size() / head_dim;
    const std::size_t key_groups = head_dim / q8_key_group + (head_dim % q8_key_group != 0 ? 1 : 0);
    rows.end = std::min({count(keys, head_dim, key_groups), count(values, head_dim, 1), upto});
    if (rows.end != 0) rows.first = std::min(query.first, rows.end - 1);  // a head with rows shows at least its last
    for (Rows* tensor : {&rows.keys, &rows.values}) {  // columns are all there, or not frozen
      if (tensor->int8 && tensor->int8->columns.size() < head_dim) tensor->int8->columns = {};
      if (tensor->int8) tensor->int8->columns = tensor->int8->columns.first(tensor->int8->columns.empty() ? 0 : head_dim);
    }
  }

  HeadQuery head(std::size_t h) const {
    HeadQuery one{query.q_group.subspan(h * rows.head_dim, rows.head_dim), query.scale, {}, {}};
    if (!Binary32::of(query.softcap).is_zero()) one.softcap = query.softcap;
    if (h < query.sinks.size()) one.sink = query.sinks[h];
    return one;
  }

  /// Every output +0 and no probability: the answer where no row is visible.
  GroupAnswer blank() const {
    GroupAnswer answer;
    answer.first = rows.first;
    answer.rows = rows.end;
    answer.output.assign(heads * rows.head_dim, 0.0F);
    answer.probabilities.reserve(heads * rows.count());
    return answer;
  }
};

/// Output, then probabilities, in one list.
template <class Real>
std::vector<Real> joined(HeadAnswer<Real> answer) {
  std::vector<Real> all = std::move(answer.output);
  std::ranges::move(answer.probabilities, std::back_inserter(all));
  return all;
}

/// What of a tensor enters the visible rows' numbers.
bool visible_finite(const Rows& tensor, const VisibleRows& rows, std::size_t groups) {
  if (!tensor.int8) return all_finite(tensor.f32.subspan(rows.first * rows.head_dim, rows.count() * rows.head_dim));
  return all_finite(tensor.int8->scales.subspan(rows.first * groups, rows.count() * groups)) &&
         all_finite(tensor.int8->columns);
}

/// The inputs for which the operator is a real number.
bool in_exact_domain(const Query& query, const VisibleRows& rows) {
  const Binary32 softcap = Binary32::of(query.softcap);
  const auto positive_or_zero = [](Binary32 x) { return x.is_zero() || (x.bits() >> 31) == 0; };
  const auto finite_or_absent = [](float sink) {
    return is_finite(sink) || Binary32::of(sink).bits() == Binary32::minus_infinity().bits();
  };
  return all_finite(query.q_group) && is_finite(query.scale) && softcap.is_finite() && positive_or_zero(softcap) &&
         std::ranges::all_of(query.sinks, finite_or_absent) &&
         visible_finite(rows.keys, rows, (rows.head_dim + q8_key_group - 1) / q8_key_group) &&
         visible_finite(rows.values, rows, 1);
}

/// Rounds an enclosed number to binary32. 128 bits always decide here: a root of an integer, and a quotient of binary32
/// values, are either a midpoint exactly, so that both ends are that point, or further than 2^−70 (relative) from any.
Exact<38> round_enclosed(const Exact<38>& enclosed) { return Exact<38>::from_bits(enclosed.candidates().low); }

}  // namespace

GroupAnswer canonical_attend_group(const Query& query, const Rows& keys, const Rows& values, std::size_t head_dim,
                                   std::size_t upto) {
  const Binary32Section section;
  const Group group(query, keys, values, head_dim, upto);
  GroupAnswer answer = group.blank();
  if (group.rows.count() == 0) return answer;
  for (std::size_t h = 0; h < group.heads; ++h) {
    const HeadAnswer<Binary32> head = attend<Binary32>(group.head(h), group.rows);
    std::ranges::transform(head.output, answer.output.begin() + static_cast<std::ptrdiff_t>(h * head_dim),
                           &Binary32::carrier);
    std::ranges::transform(head.probabilities, std::back_inserter(answer.probabilities), &Binary32::carrier);
  }
  return answer;
}

std::optional<GroupAnswer> exact_attend_group(const Query& query, const Rows& keys, const Rows& values,
                                              std::size_t head_dim, std::size_t upto) {
  const ExponentRange range = ExponentRange::widest();
  const Group group(query, keys, values, head_dim, upto);
  if (!in_exact_domain(query, group.rows)) return std::nullopt;
  GroupAnswer answer = group.blank();
  if (group.rows.count() == 0) return answer;
  for (std::size_t h = 0; h < group.heads; ++h) {
    HeadQuery head = group.head(h);
    if (head.sink && !is_finite(*head.sink)) head.sink.reset();  // −∞: a column of weight 0
    const auto formula = [&]<class Real>() { return std::optional(joined(attend<Real>(head, group.rows))); };
    const auto entries = decide_all(formula, answer.ties);
    if (!entries) return std::nullopt;  // no input is known to come here
    const auto output_end = entries->begin() + static_cast<std::ptrdiff_t>(head_dim);
    std::copy(entries->begin(), output_end, answer.output.begin() + static_cast<std::ptrdiff_t>(h * head_dim));
    std::copy(output_end, entries->end(), std::back_inserter(answer.probabilities));
  }
  return answer;
}

GroupAnswer canonical_attend_group(const Query& query, std::span<const float> keys, std::span<const float> values,
                                   std::size_t head_dim, std::size_t upto) {
  return canonical_attend_group(query, Rows{.f32 = keys}, Rows{.f32 = values}, head_dim, upto);
}

std::optional<GroupAnswer> exact_attend_group(const Query& query, std::span<const float> keys,
                                              std::span<const float> values, std::size_t head_dim, std::size_t upto) {
  return exact_attend_group(query, Rows{.f32 = keys}, Rows{.f32 = values}, head_dim, upto);
}

float canonical_default_scale(std::size_t head_dim) {
  const Binary32Section section;
  return default_scale<Binary32>(head_dim, [](Binary32 x) { return x; }).carrier();
}

float exact_default_scale(std::size_t head_dim) {
  if (head_dim == 0) return carrier(0x7F800000);  // 1 / 0 is no real number
  const ExponentRange range = ExponentRange::widest();
  return carrier(default_scale<Exact<38>>(head_dim, round_enclosed).candidates().low);
}

}  // namespace kvcert::reference
