// Laws 2, 5 and 6 for int8 storage, on both sides of the freeze, and what a row loses.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "certify/laws/law.hpp"
#include "certify/random.hpp"

namespace kvcert::certify::laws {

/// The case's rows made tame enough for int8, and enough of them for the salt's side of the freeze.
inline TestCase int8_case(const TestCase& test) {
  TestCase tame = test;
  Random random(test.salt + 5);
  tame.positions = random.pick<std::size_t>({random.between(1, 20), random.between(60, 64), random.between(65, 75)});
  for (auto tensor : {&TestCase::k, &TestCase::v}) {
    (tame.*tensor).resize(tame.positions * tame.row_floats());
    for (float& x : tame.*tensor) x = random.normal() * (random.chance(1, 50) ? 40.0F : 1.0F);
  }
  tame.upto = tame.positions;
  return tame;
}

inline KvMode int8_mode(const TestCase& test) {
  constexpr KvMode modes[] = {KvMode::q8, KvMode::q8_keys, KvMode::q8_values};
  return modes[test.salt % 3];
}

/// Law 2 for int8: appended in chunks = appended one at a time, through the freeze as well; a position asked later gives the
/// bits of its own turn, if no freeze came in between.
template <class Engine>
Outcome int8_chunk_is_sequence(const Engine& engine, const TestCase& original) {
  const TestCase test = int8_case(original);
  Random random(test.salt + 6);
  auto chunked = must(engine.make(test.geometry), "create");
  auto sequential = must(engine.make(test.geometry), "create");
  must(chunked.set_mode(int8_mode(test)), "set_mode");
  must(sequential.set_mode(int8_mode(test)), "set_mode");
  const std::size_t floats = test.row_floats();
  for (std::size_t done = 0; done < test.positions;) {
    const std::size_t n = std::min(test.positions - done, random.between(1, 30));
    must(chunked.append_chunk(std::span(test.k).subspan(done * floats, n * floats),
                              std::span(test.v).subspan(done * floats, n * floats), n, test.alive), "append_chunk");
    done += n;
  }
  std::vector<std::pair<std::size_t, Answer>> in_turn;
  for (std::size_t position = 0; position < test.positions; ++position) {
    append_positions(sequential, test, position, position + 1);
    if (sequential.frozen() != (position + 1 > q8_freeze_at)) {
      return violated(fmt::format("after {} appends the column field is{} frozen", position + 1, sequential.frozen() ? "" : " not"));
    }
    if (random.chance(1, 8)) in_turn.emplace_back(position, ask(sequential, test.query(), position + 1, test.acc));
  }
  if (auto found = layer_difference(chunked, sequential, test)) return violated("in chunks against one at a time: " + *found);
  const bool froze = chunked.frozen();
  for (const auto& [position, answer] : in_turn) {
    if (froze && position + 1 <= q8_freeze_at) continue;  // the freeze rewrote the rows it was asked about
    if (auto found = difference(ask(chunked, test.query(), position + 1, test.acc), answer)) {
      return violated(fmt::format("position {} later against in its turn: {}", position, *found));
    }
  }
  return holds();
}

/// Law 5 for int8: a rollback that spans no freeze leaves everything as it was. One that does keeps the frozen rows.
template <class Engine>
Outcome int8_rollback(const Engine& engine, const TestCase& original) {
  const TestCase test = int8_case(original);
  auto before = must(engine.make(test.geometry), "create");
  must(before.set_mode(int8_mode(test)), "set_mode");
  append_positions(before, test, 0, test.positions);
  auto layer = before;
  const std::size_t n = 1 + test.salt % 12;
  for (std::size_t i = 0; i < n; ++i) append_positions(layer, test, i % test.positions, i % test.positions + 1);
  must(layer.truncate_last(n), "truncate_last");
  if (layer.frozen() == before.frozen()) {
    return unless(layer_difference(layer, before, test), fmt::format("{} rows appended to {} and taken back", n, test.positions));
  }
  if (!layer.frozen() || layer.seq_len() != before.seq_len()) return violated("a rollback across the freeze thawed it, or lost rows");
  layer.clear();
  if (layer.frozen() || layer.mode() != int8_mode(test)) return violated("clear keeps the column field, or loses the mode");
  append_positions(layer, test, 0, test.positions);
  return unless(layer_difference(layer, before, test), "cleared, and the same rows appended again");
}

/// Law 6 for int8: a snapshot brings back rows, columns and mode, whatever happened since, a freeze and a change of mode too.
template <class Engine>
Outcome int8_snapshot(const Engine& engine, const TestCase& original) {
  const TestCase test = int8_case(original);
  auto before = must(engine.make(test.geometry), "create");
  must(before.set_mode(int8_mode(test)), "set_mode");
  append_positions(before, test, 0, test.positions);
  const auto saved = must(before.snapshot(), "snapshot");
  auto layer = before;
  for (std::size_t i = 0; i < 10; ++i) append_positions(layer, test, i % test.positions, i % test.positions + 1);
  if (test.salt % 2 == 0) {
    layer.clear();
    must(layer.set_mode(KvMode::f32), "set_mode");
    append_positions(layer, test, 0, 1);
  }
  must(layer.restore(saved), "restore");
  if (auto found = layer_difference(layer, before, test)) return violated("after restore: " + *found);
  for (auto* one : {&layer, &before}) {
    for (std::size_t i = 0; i < 8; ++i) append_positions(*one, test, i % test.positions, i % test.positions + 1);
  }
  return unless(layer_difference(layer, before, test), "appends after restore");
}

/// An unfrozen constant row of ordinary magnitude stores ±127 in every channel and comes back within 2 ulp.
template <class Engine>
Outcome int8_constant_row(const Engine& engine, const TestCase& test) {
  Random random(test.salt + 7);
  float x = random.normal();
  for (int i = static_cast<int>(random.below(60)); i > 0; --i) x *= random.chance(1, 2) ? 3.7F : 1.9F;
  if (std::fabs(x) < 127e-12F) x = 127e-12F * 1.001F;
  auto layer = must(engine.make(test.geometry), "create");
  must(layer.set_mode(KvMode::q8), "set_mode");
  const std::vector<float> row(test.row_floats(), x);
  must(layer.append(row, row, {}), "append");
  const auto q = static_cast<std::int8_t>(x < 0 ? -127 : 127);
  for (const Q8Rows& rows : {*layer.head_q8_keys(0), *layer.head_q8_values(0)}) {
    for (std::int8_t stored : rows.values) {
      if (stored != q) return violated(fmt::format("a row of {} stores {}", show(x), stored));
    }
    for (float scale : rows.scales) {
      const float back = scale * static_cast<float>(q);
      const float two_ulp = 2 * (std::nextafter(std::fabs(x), INFINITY) - std::fabs(x));
      if (!(std::fabs(back - x) <= two_ulp)) return violated(fmt::format("a row of {} comes back as {}", show(x), show(back)));
    }
  }
  return holds();
}

/// What is not finite is refused by int8 storage, and changes nothing; an f32 tensor beside it keeps any bits.
template <class Engine>
Outcome int8_refuses(const Engine& engine, const TestCase& original) {
  const TestCase test = int8_case(original);
  const KvMode mode = int8_mode(test);
  auto layer = must(engine.make(test.geometry), "create");
  must(layer.set_mode(mode), "set_mode");
  append_positions(layer, test, 0, test.positions);
  const auto before = observe(layer);
  Random random(test.salt + 8);
  std::size_t head = random.below(test.geometry.num_kv_heads);
  for (bool keys : {true, false}) {
    std::vector<float> k(test.row_floats(), 0.5F), v(test.row_floats(), 0.5F);
    (keys ? k : v)[head * test.geometry.head_dim] = random.pick({std::numeric_limits<float>::quiet_NaN(), -INFINITY, INFINITY});
    const bool quantized = mode == KvMode::q8 || (mode == KvMode::q8_keys) == keys;
    auto target = layer;
    const auto result = target.append(k, v, test.alive);
    const bool alive = test.alive[head] != 0;
    if (quantized && alive) {
      if (result || result.error().code != ErrorCode::non_finite) return violated("a row that is not finite is not refused");
      if (auto found = difference(observe(target), before)) return violated("a refused append changed " + *found);
    } else if (!result) {
      return violated(fmt::format("a row that int8 does not store was refused with {}", name(result.error().code)));
    }
  }
  return holds();
}

}  // namespace kvcert::certify::laws
