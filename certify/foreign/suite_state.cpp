// The life of a cache: taking back, saving, records, clearing, evicting, recurrent state. Values are row numbers, so that
// every row too many, too few or in the wrong place shows.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "certify/foreign/builder.hpp"

namespace kvcert::certify {
namespace {

/// Asks every stored position twice over: with zero queries (means), and with random ones (everything else).
void ask_all(CaseBuilder& build, std::size_t T, Random& random) {
  if (T == 0) return;
  build.attend(0, T, zero).attend(T - 1, 1, normal(random));
}

EngineCase rollback(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  const std::size_t before = 1 + random.below(5);
  const std::size_t batch = 2 + random.below(6);
  const std::size_t taken = std::array<std::size_t, 5>{1, batch - 1, batch, 0, 2}[index % 5];
  const std::size_t after = index % 3;
  CaseBuilder build(fmt::format("{} rows, then {} at once, {} taken back, {} more", before, batch, taken, after));
  build.create(layer).append(before, normal(random), row_number).append(batch, normal(random), row_number).truncate(taken).simple(EngineOp::length);
  const std::size_t T = before + batch - taken;
  ask_all(build, T, random);
  build.append(after, normal(random), row_number);
  ask_all(build, T + after, random);
  return build.take();
}

EngineCase rollback_all(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  CaseBuilder build("everything taken back, and more than there is: the layer is empty and goes on");
  build.create(layer).append(4, normal(random), row_number).truncate(index % 2 == 0 ? 4 : 9).simple(EngineOp::length);
  build.append(3, normal(random), row_number);
  ask_all(build, 3, random);
  return build.take();
}

EngineCase rollback_twice(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  CaseBuilder build("two rollbacks in a row, then speculation again");
  build.create(layer).append(6 + index, normal(random), row_number).truncate(1).truncate(2).simple(EngineOp::length);
  ask_all(build, 3 + index, random);
  build.append(3, normal(random), row_number).truncate(2).append(1, normal(random), row_number);
  ask_all(build, 5 + index, random);
  return build.take();
}

EngineCase rollback_wrapped(std::size_t index, Random& random, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.window = 3 + index % 3;
  const std::size_t T = layer.window + 2 + index % 4;
  const std::size_t taken = 1 + index % 2;
  CaseBuilder build(fmt::format("a window of {} that has wrapped, {} taken back: exact, or refused", layer.window, taken));
  build.create(layer);
  for (std::size_t p = 0; p < T; ++p) build.forward(1, normal(random), row_number, zero);
  build.truncate(taken).attend(T - taken - 1, 1, zero);
  build.forward(1, normal(random), row_number, zero).forward(1, normal(random), row_number, normal(random));
  return build.take();
}

EngineCase snapshot(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  CaseBuilder build("saved, rows overwritten and added, restored: the past, twice");
  build.create(layer).append(4, normal(random), row_number).slot(EngineOp::snapshot, 0);
  if (index % 2 == 1) build.truncate(2);
  build.append(3, normal(random), row_number);
  ask_all(build, index % 2 == 1 ? 5 : 7, random);
  build.slot(EngineOp::restore, 0).simple(EngineOp::length);
  ask_all(build, 4, random);
  build.append(2, normal(random), row_number);
  ask_all(build, 6, random);
  build.slot(EngineOp::restore, 0);
  ask_all(build, 4, random);
  return build.take();
}

EngineCase aliasing(std::size_t, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  CaseBuilder build("a snapshot keeps its rows while the layer overwrites its own");
  build.create(layer).append(5, normal(random), row_number).slot(EngineOp::snapshot, 0);
  build.simple(EngineOp::clear).append(5, normal(random), row_number).slot(EngineOp::snapshot, 1);
  build.slot(EngineOp::restore, 0);
  ask_all(build, 5, random);
  build.append(1, normal(random), row_number).slot(EngineOp::restore, 1);
  ask_all(build, 5, random);
  return build.take();
}

EngineCase record(std::size_t index, Random& random, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.window = index % 3 == 2 ? 4 : 0;
  const std::size_t T = index % 4 == 3 ? 0 : 3 + index % 5;
  CaseBuilder build(fmt::format("{} rows exported and taken by a fresh layer, which goes on", T));
  build.create(layer, 0).create(layer, 1).on(0).append(T, normal(random), row_number);
  build.slot(EngineOp::export_state, 0).on(1);
  if (index % 2 == 1) build.append(2, normal(random), [](auto, auto, auto) { return 99.0F; });  // what an import replaces
  build.slot(EngineOp::import_state, 0).simple(EngineOp::length);
  if (T > 0) build.attend(T - 1, 1, zero);
  build.append(2, normal(random), row_number).attend(T + 1, 1, zero).attend(T, 2, normal(random));
  if (T > 0) build.on(0).attend(T - 1, 1, normal(random));
  return build.take();
}

EngineCase refused_record(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  CaseBuilder build("a record that was cut is refused, and leaves the layer as it was");
  build.create(layer, 0).create(layer, 1).on(0).append(4, normal(random), row_number).slot(EngineOp::export_state, 0).on(1);
  build.append(3, normal(random), row_number);
  build.slot(EngineOp::import_state, 0, std::array<std::size_t, 6>{1, 4, 8, 17, 33, 1000000}[index % 6]).simple(EngineOp::length);
  ask_all(build, 3, random);
  build.append(1, normal(random), row_number);
  ask_all(build, 4, random);
  return build.take();
}

EngineCase identity(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  EngineLayer other = layer;
  switch (index % 4) {
    case 0: other.layer = 1; break;
    case 1: other.identity = 77; break;
    case 2: std::swap(other.kv_heads, other.head_dim); other.query_heads = other.kv_heads; break;
    default: other.head_dim += 1; break;
  }
  if (other.kv_heads == layer.kv_heads && other.head_dim == layer.head_dim && index % 4 == 2) other.head_dim += 2;
  CaseBuilder build("a record of another layer, another model or another geometry is refused, and leaves the layer as it was");
  build.create(layer, 0).create(other, 1).on(0).append(2, normal(random), row_number).slot(EngineOp::export_state, 0).on(1);
  build.append(2, normal(random), row_number).slot(EngineOp::import_state, 0);
  ask_all(build, 2, random);
  return build.take();
}

EngineCase clear(std::size_t index, Random& random, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.window = index % 3 == 1 ? 4 : 0;
  CaseBuilder build("cleared = new");
  build.create(layer).append(3 + index, normal(random), row_number).simple(EngineOp::clear).simple(EngineOp::length);
  build.append(2, normal(random), row_number);
  ask_all(build, 2, random);
  return build.take();
}

std::vector<float> masses(std::size_t T, Random& random) {
  std::vector<float> mass;
  for (std::size_t p = 0; p < T; ++p) mass.push_back(static_cast<float>(p * 3 + random.below(3)));
  for (std::size_t p = T; p > 1; --p) std::swap(mass[p - 1], mass[random.below(p)]);
  return mass;
}

EngineCase evict_recent(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  const std::size_t T = 6 + index % 4;
  CaseBuilder build("the last positions stay, in order");
  build.create(layer).append(T, normal(random), row_number).evict(3).simple(EngineOp::length);
  ask_all(build, 3, random);
  build.append(2, normal(random), row_number);
  ask_all(build, 5, random);
  return build.take();
}

EngineCase evict_by_mass(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  const std::size_t T = 8 + index % 5;
  const std::size_t sink = index % 3;
  const std::size_t recent = 1 + index % 2;
  CaseBuilder build(fmt::format("of {} positions 5 stay: the first {}, the last {}, and the heaviest", T, sink, recent));
  build.create(layer).append(T, normal(random), row_number).numbers(EngineOp::accumulate, masses(T, random));
  build.evict(5, std::pair{sink, recent}).simple(EngineOp::importance);
  ask_all(build, 5, random);
  return build.take();
}

EngineCase importance(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  const std::size_t T = 9 + index % 3;
  CaseBuilder build("importance stays with its row through rollback and eviction, and starts at 0");
  build.create(layer).append(T, normal(random), row_number).numbers(EngineOp::accumulate, masses(T, random));
  build.truncate(2).append(1, normal(random), row_number).simple(EngineOp::importance);
  build.evict(6, std::pair{1, 2}).simple(EngineOp::importance).numbers(EngineOp::accumulate, masses(6, random));
  build.simple(EngineOp::importance).evict(4, std::pair{0, 1}).simple(EngineOp::importance);
  ask_all(build, 4, random);
  return build.take();
}

EngineCase recurrence(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  const auto vector = [&](std::size_t n) {
    std::vector<float> numbers;
    for (std::size_t i = 0; i < n; ++i) numbers.push_back(random.normal());
    return numbers;
  };
  CaseBuilder build("a draft that is not accepted leaves no trace in a recurrent state");
  build.create(layer).numbers(EngineOp::commit, vector(6), 3).numbers(EngineOp::draft, vector(6));
  switch (index % 4) {
    case 0: build.simple(EngineOp::discard).simple(EngineOp::state).simple(EngineOp::accept); break;
    case 1: build.simple(EngineOp::accept).simple(EngineOp::state).simple(EngineOp::length); break;
    case 2:
      build.slot(EngineOp::snapshot, 0).simple(EngineOp::accept).numbers(EngineOp::commit, vector(6), 2);
      build.slot(EngineOp::restore, 0).simple(EngineOp::state).simple(EngineOp::accept);
      break;
    default: build.simple(EngineOp::clear).simple(EngineOp::accept); break;
  }
  build.simple(EngineOp::state).simple(EngineOp::length);
  return build.take();
}

}  // namespace

std::vector<SuiteCheck> state_checks() {
  return {{"rollback", "append n, truncate n = nothing happened", 10, 40, rollback},
          {"rollback to nothing", "all positions taken back, and more than there are", 2, 6, rollback_all},
          {"rollback twice", "one rollback after another", 2, 8, rollback_twice},
          {"rollback wrapped", "a window that wrapped comes back exactly, or the call is refused", 4, 16, rollback_wrapped},
          {"snapshot", "restore = the past, as often as one likes", 4, 16, snapshot},
          {"aliasing", "a snapshot shares nothing with the layer", 2, 6, aliasing},
          {"record", "a fresh layer takes the record and goes on", 6, 24, record},
          {"refused record", "a record that was cut is refused and changes nothing", 6, 12, refused_record},
          {"identity", "records of other layers, models and geometries are refused", 4, 8, identity},
          {"clear", "cleared = new", 3, 12, clear},
          {"evict recent", "the last positions stay, in order", 3, 8, evict_recent},
          {"evict by mass", "first, last and heaviest positions stay", 6, 24, evict_by_mass},
          {"importance", "importance stays with its row", 3, 12, importance},
          {"recurrence", "drafts are accepted, or leave no trace", 4, 8, recurrence}};
}

}  // namespace kvcert::certify
