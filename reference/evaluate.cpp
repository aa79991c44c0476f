#include "reference/evaluate.hpp"

#include <algorithm>
#include <bit>

#include "reference/attend.hpp"
#include "reference/binary32.hpp"
#include "reference/exact.hpp"

namespace kvcert::reference {

namespace {

float carrier(std::uint32_t bits) { return std::bit_cast<float>(bits); }

bool is_finite(float value) { return Binary32::of(value).is_finite(); }

bool all_finite(std::span<const float> values) { return std::ranges::all_of(values, is_finite); }

/// A query taken apart: its heads, and the rows they see.
struct Group {
  const Query& query;
  VisibleRows rows;
  std::size_t heads;

  Group(const Query& asked, std::span<const float> keys, std::span<const float> values, std::size_t head_dim,
        std::size_t upto)
      : query(asked), rows{keys, values, head_dim, 0, 0}, heads(0) {
    if (head_dim == 0) return;
    heads = query.q_group.size() / head_dim;
    rows.end = std::min(std::min(keys.size(), values.size()) / head_dim, upto);
    if (rows.end != 0) rows.first = std::min(query.first, rows.end - 1);  // a head with rows shows at least its last
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

/// Entries of one head's answer that earlier precisions decided, and those that they did not.
using Entries = std::vector<std::optional<std::uint32_t>>;

enum class Undecided { leave, take_as_tie };

/// One head's answer by enclosures of the given digits: output, then probabilities. Decides what it can; returns
/// whether nothing is left. As the last resort entries between two neighbours are taken as the tie, and counted.
template <unsigned digits>
bool decide(const HeadQuery& query, const VisibleRows& rows, Entries& entries, Undecided undecided,
            std::uint64_t& ties) {
  HeadAnswer<Exact<digits>> enclosed = attend<Exact<digits>>(query, rows);
  std::vector<Exact<digits>> all = std::move(enclosed.output);
  std::ranges::move(enclosed.probabilities, std::back_inserter(all));
  entries.resize(all.size());
  bool complete = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (entries[i]) continue;
    const Candidates found = all[i].candidates();
    if (found.decided()) {
      entries[i] = found.low;
    } else if (undecided == Undecided::take_as_tie && found.neighbours()) {
      entries[i] = found.even();
      ++ties;
    } else {
      complete = false;
    }
  }
  return complete;
}

/// The precisions in turn: 128 bits are enough for almost every entry; each further step doubles them.
bool decide_all(const HeadQuery& query, const VisibleRows& rows, Entries& entries, std::uint64_t& ties) {
  return decide<38>(query, rows, entries, Undecided::leave, ties) ||
         decide<77>(query, rows, entries, Undecided::leave, ties) ||
         decide<154>(query, rows, entries, Undecided::leave, ties) ||
         decide<308>(query, rows, entries, Undecided::leave, ties) ||
         decide<616>(query, rows, entries, Undecided::take_as_tie, ties);
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
         all_finite(rows.keys.subspan(rows.first * rows.head_dim, rows.count() * rows.head_dim)) &&
         all_finite(rows.values.subspan(rows.first * rows.head_dim, rows.count() * rows.head_dim));
}

/// Rounds an enclosed number to binary32. 128 bits always decide here: a root of an integer, and a quotient of binary32
/// values, are either a midpoint exactly, so that both ends are that point, or further than 2^−70 (relative) from any.
Exact<38> round_enclosed(const Exact<38>& enclosed) { return Exact<38>::from_bits(enclosed.candidates().low); }

}  // namespace

GroupAnswer canonical_attend_group(const Query& query, std::span<const float> keys, std::span<const float> values,
                                   std::size_t head_dim, std::size_t upto) {
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

std::optional<GroupAnswer> exact_attend_group(const Query& query, std::span<const float> keys,
                                              std::span<const float> values, std::size_t head_dim, std::size_t upto) {
  const ExponentRange range = ExponentRange::widest();
  const Group group(query, keys, values, head_dim, upto);
  if (!in_exact_domain(query, group.rows)) return std::nullopt;
  GroupAnswer answer = group.blank();
  if (group.rows.count() == 0) return answer;
  for (std::size_t h = 0; h < group.heads; ++h) {
    HeadQuery head = group.head(h);
    if (head.sink && !is_finite(*head.sink)) head.sink.reset();  // −∞: a column of weight 0
    Entries entries;
    if (!decide_all(head, group.rows, entries, answer.ties)) return std::nullopt;  // no input is known to come here
    for (std::size_t d = 0; d < head_dim; ++d) answer.output[h * head_dim + d] = carrier(*entries[d]);
    for (std::size_t i = head_dim; i < entries.size(); ++i) answer.probabilities.push_back(carrier(*entries[i]));
  }
  return answer;
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
