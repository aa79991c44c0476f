// Laws 1–4 and 16: what attention owes, whatever the numbers are.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "certify/laws/law.hpp"
#include "certify/random.hpp"

namespace kvcert::certify::laws {

/// Law 1, grouping: attend_group on n heads = n calls on one head each, in order, accumulator included.
template <class Engine>
Outcome grouping(const Engine& engine, const TestCase& test) {
  const auto layer = filled_layer(engine, test);
  const Answer together = ask(layer, test);
  const std::size_t dim = test.geometry.head_dim;
  Answer apart{{}, test.acc};
  for (std::size_t head = 0; head < test.heads(); ++head) {
    Query one = test.query();
    one.q_group = one.q_group.subspan(head * dim, dim);
    if (!one.sinks.empty()) one.sinks = one.sinks.subspan(head, 1);
    Answer answer = ask(layer, one, test.upto, std::move(apart.acc));
    apart.out.insert(apart.out.end(), answer.out.begin(), answer.out.end());
    apart.acc = std::move(answer.acc);
  }
  return unless(difference(together, apart), "heads together against heads one by one");
}

/// The lengths of the chunks into which the case's salt splits its positions.
inline std::vector<std::size_t> split(const TestCase& test) {
  Random random(test.salt);
  std::vector<std::size_t> chunks;
  for (std::size_t left = test.positions; left > 0;) {
    chunks.push_back(std::min(left, random.pick<std::size_t>({1, 1, 2, 3, 7, 16, 17, 64, left})));
    left -= chunks.back();
  }
  return chunks;
}

/// Law 2, chunk = sequence: append all, then attend_group_upto(i + 1), equals append and attend one at a time; however the
/// positions are split into chunks, layer and answers are the same bits.
template <class Engine>
Outcome chunk_is_sequence(const Engine& engine, const TestCase& test) {
  if (test.positions == 0) return not_exercised();
  auto chunked = empty_layer(engine, test);
  std::size_t done = 0;
  for (std::size_t chunk : split(test)) {
    const std::size_t floats = test.row_floats();
    must(chunked.append_chunk(std::span(test.k).subspan(done * floats, chunk * floats),
                              std::span(test.v).subspan(done * floats, chunk * floats), chunk, test.alive),
         "append_chunk");
    done += chunk;
  }
  auto sequential = empty_layer(engine, test);
  // Every position is appended; a few are asked about, the last among them.
  Random random(test.salt);
  for (std::size_t position = 0; position < test.positions; ++position) {
    append_positions(sequential, test, position, position + 1);
    if (position + 1 != test.positions && !random.chance(4, test.positions)) continue;
    Answer now{std::vector<float>(test.q.size()), test.acc};
    must(sequential.attend_group(test.query(), now.out, now.acc), "attend_group");
    const Answer later = ask(chunked, test.query(), position + 1, test.acc);
    if (auto found = difference(later, now)) {
      return violated(fmt::format("position {} asked after all appends against asked in its turn: {}", position, *found));
    }
  }
  return unless(layer_difference(chunked, sequential, test), "appended in chunks against one at a time");
}

/// Law 3, window = mask, first half: hidden rows may hold anything; nothing of them is read.
template <class Engine>
Outcome window_hides(const Engine& engine, const TestCase& original) {
  TestCase test = original;
  if (test.stored() < 2) return not_exercised();
  if (test.first_visible() == 0) test.first = 1 + test.salt % (test.rows() > 1 ? test.rows() - 1 : 1);
  if (test.first_visible() == 0 && test.rows() == test.stored()) return not_exercised();
  const Answer clean = ask(filled_layer(engine, test), test);

  TestCase poisoned = test;
  Random random(test.salt);
  for (std::size_t position = 0; position < test.positions; ++position) {
    if (position >= test.first_visible() && position < test.rows()) continue;
    const std::size_t begin = position * test.row_floats() + test.kv_head * test.geometry.head_dim;
    for (std::size_t at = begin; at < begin + test.geometry.head_dim; ++at) {
      poisoned.k[at] = random.pick({std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::max()});
      poisoned.v[at] = random.pick({std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()});
    }
  }
  if (auto found = difference(ask(filled_layer(engine, poisoned), poisoned), clean)) {
    return violated(fmt::format("visible rows {} to {}, the others poisoned: {}", test.first_visible(), test.rows() - 1,
                                *found));
  }
  // Accumulator entries of hidden rows and past the rows are left alone.
  for (std::size_t p = 0; p < test.acc.size(); ++p) {
    const bool visible = p >= test.first_visible() && p < test.rows();
    if (!visible && bits(clean.acc[p]) != bits(test.acc[p])) {
      return violated(fmt::format("acc[{}] of a hidden row changed from {} to {}", p, show(test.acc[p]),
                                  show(clean.acc[p])));
    }
  }
  return holds();
}

inline void keep_first_head(TestCase& test) {
  test.q.erase(test.q.begin() + static_cast<std::ptrdiff_t>(test.geometry.head_dim), test.q.end());
  if (!test.sinks.empty()) test.sinks.erase(test.sinks.begin() + 1, test.sinks.end());
}

/// A key whose score is −∞ for every query head of the case, if there is one: −∞ times one coordinate that has one sign in
/// all heads, and +0 for the rest.
inline std::optional<std::vector<float>> minus_infinity_key(const TestCase& test) {
  const std::size_t dim = test.geometry.head_dim;
  if (test.scale == 0 || test.softcap != 0) return std::nullopt;
  if (!std::all_of(test.q.begin(), test.q.end(), [](float x) { return std::isfinite(x); })) return std::nullopt;
  for (std::size_t at = 0; at < dim; ++at) {
    bool up = true;
    bool down = true;
    for (std::size_t head = 0; head < test.heads(); ++head) {
      up = up && test.q[head * dim + at] > 0;
      down = down && test.q[head * dim + at] < 0;
    }
    if (!up && !down) continue;
    std::vector<float> key(dim, 0.0F);
    key[at] = (up == (test.scale > 0)) ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
    return key;
  }
  return std::nullopt;
}

/// Law 3, second half: showing only rows from `first` on = scoring all of them with −∞ before `first`: output, and
/// accumulator at visible rows.
template <class Engine>
Outcome window_is_mask(const Engine& engine, const TestCase& original) {
  TestCase test = original;
  if (test.stored() < 2 || test.rows() < 2) return not_exercised();
  test.softcap = 0;
  if (test.scale == 0) test.scale = 1;
  if (test.first_visible() == 0) test.first = 1 + test.salt % (test.rows() - 1);
  keep_first_head(test);  // so that the masking key below exists
  const auto key = minus_infinity_key(test);
  if (!key) return not_exercised();
  TestCase masked = test;
  masked.first = 0;
  for (std::size_t position = 0; position < test.first_visible(); ++position) {
    const std::size_t begin = position * test.row_floats() + test.kv_head * test.geometry.head_dim;
    std::copy(key->begin(), key->end(), masked.k.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  const Answer window = ask(filled_layer(engine, test), test);
  Answer mask = ask(filled_layer(engine, masked), masked);
  // A masked row adds exp(−∞) = +0 to its entry, or NaN in a head without a finite score; a hidden row adds nothing.
  for (std::size_t p = 0; p < std::min(test.acc.size(), test.first_visible()); ++p) mask.acc[p] = test.acc[p];
  return unless(difference(window, mask), fmt::format("window from row {} against a mask", test.first_visible()));
}

/// Law 16, metamorphic: values times 2^e give outputs times 2^e, bit for bit, while nothing is subnormal or overflows.
template <class Engine>
Outcome values_scale(const Engine& engine, const TestCase& test) {
  if (test.rows() == 0) return not_exercised();
  const int exponent = static_cast<int>(test.salt % 17) - 8;
  const Answer plain = ask(filled_layer(engine, test), test);
  // The premise, on both sides: with weights and values of 2^-40 and more every product is a multiple of 2^-126, and so
  // is every sum, so that no rounding happens among the subnormals, neither before the scaling nor after it.
  const auto safe = [](float x) { return x == 0 || (std::fabs(x) >= 0x1p-40F && std::fabs(x) < 0x1p60F); };
  if (!std::all_of(test.v.begin(), test.v.end(), safe) || !std::all_of(plain.out.begin(), plain.out.end(), safe)) {
    return not_exercised();
  }
  for (std::size_t head = 0; head < test.heads(); ++head) {
    Query one = test.query();
    one.q_group = one.q_group.subspan(head * test.geometry.head_dim, test.geometry.head_dim);
    if (!one.sinks.empty()) one.sinks = one.sinks.subspan(head, 1);
    const Answer weights = ask(filled_layer(engine, test), one, test.upto, std::vector<float>(test.rows(), 0.0F));
    for (float weight : weights.acc) {
      if (!safe(weight)) return not_exercised();
    }
  }
  TestCase scaled = test;
  for (float& x : scaled.v) x = std::ldexp(x, exponent);
  Answer got = ask(filled_layer(engine, scaled), scaled);
  for (float& x : got.out) x = std::ldexp(x, -exponent);
  return unless(difference(got, plain), fmt::format("values scaled by 2^{}, outputs scaled back", exponent));
}

/// Law 16: a KV group stored twice answers the same in both places.
template <class Engine>
Outcome group_copies(const Engine& engine, const TestCase& test) {
  TestCase twice = test;
  const std::size_t dim = test.geometry.head_dim;
  ++twice.geometry.num_kv_heads;
  twice.alive.push_back(test.alive[test.kv_head]);
  twice.k.clear();
  twice.v.clear();
  for (std::size_t position = 0; position < test.positions; ++position) {
    for (auto tensor : {&TestCase::k, &TestCase::v}) {
      const auto row = (test.*tensor).begin() + static_cast<std::ptrdiff_t>(position * test.row_floats());
      const auto head = row + static_cast<std::ptrdiff_t>(test.kv_head * dim);
      (twice.*tensor).insert((twice.*tensor).end(), row, row + static_cast<std::ptrdiff_t>(test.row_floats()));
      (twice.*tensor).insert((twice.*tensor).end(), head, head + static_cast<std::ptrdiff_t>(dim));
    }
  }
  const auto layer = filled_layer(engine, twice);
  const Answer original = ask(filled_layer(engine, test), test);
  if (auto found = difference(ask(layer, twice), original)) return violated("beside its copy: " + *found);
  twice.kv_head = test.geometry.num_kv_heads;
  return unless(difference(ask(layer, twice), original), "the copied group against the original");
}

/// Law 16: rows of score −∞ appended while an old score is greater change no bit of the output.
template <class Engine>
Outcome minus_infinity_rows(const Engine& engine, const TestCase& original) {
  TestCase test = original;
  test.softcap = 0;
  if (test.scale == 0) test.scale = 1;
  keep_first_head(test);
  test.upto = test.positions;
  const auto key = minus_infinity_key(test);
  if (!key || test.stored() == 0) return not_exercised();
  const Answer before = ask(filled_layer(engine, test), test);
  // A NaN output may come from scores that are all −∞ already; then the premise does not hold.
  if (std::any_of(before.out.begin(), before.out.end(), [](float x) { return std::isnan(x); })) return not_exercised();
  const std::size_t extra = 1 + test.salt % 19;
  TestCase longer = test;
  longer.positions += extra;
  longer.upto = longer.positions;
  longer.first = test.first_visible();
  for (std::size_t i = 0; i < extra; ++i) {
    for (std::size_t head = 0; head < test.geometry.num_kv_heads; ++head) {
      longer.k.insert(longer.k.end(), key->begin(), key->end());
      longer.v.insert(longer.v.end(), test.geometry.head_dim, std::numeric_limits<float>::quiet_NaN());
    }
  }
  const Answer after = ask(filled_layer(engine, longer), longer);
  return unless(difference("out", after.out, before.out), fmt::format("{} rows of score −∞ appended", extra));
}

}  // namespace kvcert::certify::laws
