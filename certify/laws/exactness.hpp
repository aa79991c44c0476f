// Laws 4, 13, 14 and the exact half of 16: answers against the real numbers and the canonical bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "certify/judge.hpp"
#include "certify/laws/law.hpp"
#include "certify/random.hpp"
#include "reference/binary32.hpp"
#include "reference/evaluate.hpp"

namespace kvcert::certify::laws {

/// What the reference's canonical arithmetic gives for the case, computed from the rows, not from any cache. The
/// accumulator is the canonical one too: one addition per head, heads ascending.
inline Answer canonical_answer(const TestCase& test) {
  using reference::Binary32;
  const auto keys = test.head_rows(test.k);
  const auto values = test.head_rows(test.v);
  auto answer = reference::canonical_attend_group(test.query(), keys, values, test.geometry.head_dim, test.upto);
  Answer result{std::move(answer.output), test.acc};
  const std::size_t visible = answer.rows - answer.first;
  for (std::size_t head = 0; head < test.heads(); ++head) {
    for (std::size_t i = 0; i < visible && answer.first + i < result.acc.size(); ++i) {
      float& sum = result.acc[answer.first + i];
      sum = (Binary32::of(sum) + Binary32::of(answer.probabilities[head * visible + i])).carrier();
    }
  }
  return result;
}

/// The canonical answers to a case: to its query, and to attend of its first head over all rows.
struct CanonicalAnswers {
  Answer answer;
  std::vector<float> attended, probabilities;
  explicit CanonicalAnswers(const TestCase& test) : answer(canonical_answer(test)) {
    const std::size_t dim = test.geometry.head_dim;
    const Query plain{.q_group = std::span(test.q).first(dim), .kv_head = test.kv_head, .scale = reference::canonical_default_scale(dim)};
    auto alone = reference::canonical_attend_group(plain, test.head_rows(test.k), test.head_rows(test.v), dim, test.stored());
    attended = std::move(alone.output);
    probabilities = std::move(alone.probabilities);
  }
};

/// Law 13, ISA: every kernel gives the canonical bits, hence all kernels the same: output, accumulator, and what attend
/// returns as probabilities.
template <class Engine>
Outcome canonical_bits(const Engine& engine, const TestCase& test, const CanonicalAnswers& canonical) {
  const auto layer = filled_layer(engine, test);
  if (auto found = difference(ask(layer, test), canonical.answer)) return violated("against canonical: " + *found);
  const auto attended = must(layer.attend(std::span(test.q).first(test.geometry.head_dim), test.kv_head), "attend");
  if (auto found = difference("attend's output", attended.output, canonical.attended)) return violated(*found);
  return unless(difference("probability", attended.probabilities, canonical.probabilities), "attend");
}

template <class Engine>
Outcome canonical_bits(const Engine& engine, const TestCase& test) {
  return canonical_bits(engine, test, CanonicalAnswers(test));
}

/// Law 14, accuracy: |engine − exact| within the bound, and the bits canonical. Adds to the tally. A case of which no
/// number could be held against the bound says nothing here.
template <class Engine>
Outcome accuracy(const Engine& engine, const TestCase& test, Tally& tally) {
  const Answer answer = ask(filled_layer(engine, test), test);
  const auto before = tally.numbers;
  Outcome outcome = judge(test, answer.out, canonical_answer(test).out, tally);
  if (outcome.verdict == Verdict::holds && tally.numbers == before) return not_exercised();
  return outcome;
}

/// The judge itself: canonical outputs pass, and the same outputs with one number moved by twice its bound do not.
inline Outcome judge_bites(const TestCase& test) {
  if (test.rows() == 0) return not_exercised();
  auto out = canonical_answer(test).out;
  Tally tally;
  if (auto fair = judge(test, out, {}, tally); fair.verdict == Verdict::violated) return fair;
  const std::size_t at = test.salt % out.size();
  const std::size_t dim = test.geometry.head_dim;
  const auto parameters = canonical_parameters(dim, test.rows() - test.first_visible());
  const auto bound = evaluate_bound(HeadCase(test).input(test, at / dim), parameters);
  if (!bound.not_covered.empty()) return not_exercised();
  const float original = out[at];
  const double direction = test.salt % 2 == 0 ? 1 : -1;
  // Rounding to binary32 may take some of the distance back; one more step of the grid gives it again.
  out[at] = static_cast<float>(double{original} + direction * 2 * bound.bound[at % dim]);
  out[at] = std::nextafter(out[at], static_cast<float>(direction * INFINITY));
  Tally moved;
  if (judge(test, out, {}, moved).verdict != Verdict::violated) {
    return violated(fmt::format("out[{}] moved from {} to {}, by twice the bound {:.3g}, and the judge passed it", at,
                                show(original), show(out[at]), bound.bound[at % dim]));
  }
  return holds();
}

/// Law 14, second half: the exact mode is correctly rounded: no neighbour is nearer to the real value.
inline Outcome exact_is_rounded(const TestCase& test) {
  const auto keys = test.head_rows(test.k);
  const auto values = test.head_rows(test.v);
  const std::size_t dim = test.geometry.head_dim;
  const auto exact = reference::exact_attend_group(test.query(), keys, values, dim, test.upto);
  if (!exact || exact->rows == 0) return not_exercised();
  const HeadCase rows(test);
  for (std::size_t head = 0; head < test.heads(); ++head) {
    const auto bound = evaluate_bound(rows.input(test, head), canonical_parameters(dim, exact->rows - exact->first));
    if (!bound.not_covered.empty()) return not_exercised();
    for (std::size_t d = 0; d < dim; ++d) {
      const float x = exact->output[head * dim + d];
      const double distance = std::fabs(double{x} - bound.exact[d]);
      // bound.exact is a double, 29 bits finer than x; a tie may look decided by half of its last bit.
      const double slack = std::fabs(bound.exact[d]) * 0x1p-52;
      for (float neighbour : {std::nextafter(x, INFINITY), std::nextafter(x, -INFINITY)}) {
        if (distance > std::fabs(double{neighbour} - bound.exact[d]) + slack) {
          return violated(fmt::format("head {}: exact out[{}] is {}, but {} is nearer to {:.17g}", head, d, show(x),
                                      show(neighbour), bound.exact[d]));
        }
      }
    }
  }
  return holds();
}

/// The case with one more dimension, in which every query is 1 and every key 0, and a scale that is a power of two: a way
/// to move scores by an exact amount.
inline TestCase with_score_dimension(const TestCase& test) {
  TestCase wider = test;
  wider.scale = 0.25F;
  wider.softcap = 0;
  ++wider.geometry.head_dim;
  const std::size_t dim = test.geometry.head_dim;
  const auto widen = [&](std::vector<float>& tensor, float filler) {
    std::vector<float> result;
    for (std::size_t at = 0; at < tensor.size(); at += dim) {
      const auto row = tensor.begin() + static_cast<std::ptrdiff_t>(at);
      result.insert(result.end(), row, row + static_cast<std::ptrdiff_t>(dim));
      result.push_back(filler);
    }
    tensor = std::move(result);
  };
  widen(wider.q, 1.0F);
  widen(wider.k, 0.0F);
  widen(wider.v, 0.0F);
  return wider;
}

/// Law 4, sink = softmax with one more column of value 0: the engine's answer with a sink lies within the bound of the
/// exact answer with that column written out as a row.
template <class Engine>
Outcome sink_is_a_column(const Engine& engine, const TestCase& original) {
  TestCase test = original;
  test.upto = test.positions;
  test.scale = 0.25F;
  test.softcap = 0;
  if (test.rows() == 0) return not_exercised();
  if (test.sinks.empty()) test.sinks.assign(test.heads(), 0.5F + static_cast<float>(test.salt % 7));
  const std::size_t dim = test.geometry.head_dim;
  const Answer answer = ask(filled_layer(engine, test), test);
  const HeadCase rows(test);
  TestCase wide = with_score_dimension(test);
  wide.sinks.clear();
  const HeadCase wide_rows(wide);
  bool exercised = false;
  for (std::size_t head = 0; head < test.heads(); ++head) {
    const float score = test.sinks[head];
    if (!std::isfinite(score) || std::fabs(score) > 0x1p100F) continue;
    HeadCase column = wide_rows;
    column.keys.insert(column.keys.end(), dim, 0.0F);
    column.keys.push_back(score * 4.0F);
    column.values.insert(column.values.end(), dim + 1, 0.0F);
    std::vector<float> got(answer.out.begin() + static_cast<std::ptrdiff_t>(head * dim),
                           answer.out.begin() + static_cast<std::ptrdiff_t>((head + 1) * dim));
    const auto bound = evaluate_bound(rows.input(test, head),
                                      canonical_parameters(dim, test.rows() - test.first_visible()), got);
    got.push_back(0.0F);
    const auto written_out = evaluate_bound(column.input(wide, head), canonical_parameters(dim + 1, 1), got);
    if (!bound.not_covered.empty() || !written_out.not_covered.empty()) continue;
    exercised = true;
    for (std::size_t d = 0; d < dim; ++d) {
      if (!(written_out.error[d] <= bound.bound[d])) {
        return violated(fmt::format("head {}: with sink {} out[{}] is {}; with the sink as a row it is {:.17g}", head,
                                    show(score), d, show(got[d]), written_out.exact[d]));
      }
    }
  }
  return exercised ? holds() : not_exercised();
}

/// Law 16 in exact arithmetic: permuting rows, or adding a constant to all scores, changes nothing.
/// Exact values with one zero: a value that underflows is −0 where its interval's ends say so and +0 where they do not, and
/// which of the two depends on the precision that sufficed. The exact value of both is 0.
inline std::vector<float> with_one_zero(std::vector<float> exact) {
  for (float& x : exact) x = x == 0 ? 0.0F : x;
  return exact;
}

inline Outcome exact_symmetries(const TestCase& original) {
  const TestCase test = with_score_dimension(original);
  const std::size_t dim = test.geometry.head_dim;
  TestCase plain = test;
  plain.sinks.clear();
  plain.first = 0;
  const auto keys = plain.head_rows(plain.k);
  const auto values = plain.head_rows(plain.v);
  const auto rows = keys.size() / dim;
  const auto exact = reference::exact_attend_group(plain.query(), keys, values, dim, rows);
  if (!exact || rows < 2) return not_exercised();

  std::vector<std::size_t> order(rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Random random(test.salt);
  for (std::size_t i = rows - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  std::vector<float> k2, v2, k3 = keys;
  for (std::size_t row : order) {
    const auto at = static_cast<std::ptrdiff_t>(row * dim);
    k2.insert(k2.end(), keys.begin() + at, keys.begin() + at + static_cast<std::ptrdiff_t>(dim));
    v2.insert(v2.end(), values.begin() + at, values.begin() + at + static_cast<std::ptrdiff_t>(dim));
  }
  const auto permuted = reference::exact_attend_group(plain.query(), k2, v2, dim, rows);
  if (!permuted) return violated("permuted rows leave the exact domain");
  if (auto found = difference("exact out", with_one_zero(permuted->output), with_one_zero(exact->output))) return violated("rows permuted: " + *found);

  const float constant = random.normal() * 100.0F;
  for (std::size_t row = 0; row < rows; ++row) k3[row * dim + dim - 1] = constant;
  const auto shifted = reference::exact_attend_group(plain.query(), k3, values, dim, rows);
  if (!shifted) return violated("shifted scores leave the exact domain");
  return unless(difference("exact out", with_one_zero(shifted->output), with_one_zero(exact->output)),
                fmt::format("{} added to every score", constant * 0.25F));
}

}  // namespace kvcert::certify::laws
