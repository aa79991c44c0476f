// Generated cases: random rows and queries, random histories, and the same question asked again.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "certify/foreign/builder.hpp"

namespace kvcert::certify {
namespace {

EngineLayer random_layer(Random& random, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  if (random.chance(1, 3)) layer.window = random.between(1, 20);
  if (random.chance(1, 4)) layer.softcap = random.pick({50.0F, 5.0F, 30.0F, 0.5F});
  if (random.chance(1, 5)) layer.scale = random.pick({1.0F, 0.125F, -0.3F, 1.7F});
  if (random.chance(1, 3)) {
    for (std::size_t h = 0; h < layer.query_heads; ++h) layer.sinks.push_back(random.normal() * random.pick({1.0F, 4.0F}));
  }
  return layer;
}

EngineCase accuracy(std::size_t, Random& random, const Shape& shape) {
  const EngineLayer layer = random_layer(random, shape);
  const std::size_t most = std::max<std::size_t>(4, 3000 / layer.row_floats());
  const std::size_t T = random.chance(1, 4) ? 16 * random.between(1, 5) + random.below(3) - 1 : random.between(1, 90);
  const float key_size = random.pick({1.0F, 1.0F, 0.1F, 4.0F});
  CaseBuilder build("random rows, a random question");
  build.create(layer).append(std::min(T, most), normal(random, key_size), normal(random));
  return build.attend(std::min(T, most) - 1, 1, normal(random)).take();
}

EngineCase repeated(std::size_t, Random& random, const Shape& shape) {
  const EngineLayer layer = random_layer(random, shape);
  CaseBuilder build("the same history in two layers, and the same question four times");
  const std::uint64_t seed = random.bits();
  build.create(layer, 0).create(layer, 1);
  for (std::size_t on : {0, 1}) {
    Random rows(seed);
    build.on(on).append(7, normal(rows), normal(rows)).append(4, normal(rows), normal(rows));
    const auto question = normal(rows);
    Random again = rows;
    build.attend(9, 2, question).attend(9, 2, normal(again));
  }
  return build.take();
}

EngineCase batches(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = random_layer(random, shape);
  const std::size_t T = std::array<std::size_t, 5>{6, 9, 17, 33, 12}[index % 5];
  CaseBuilder build("all positions at once, one by one, and in chunks");
  const std::uint64_t seed = random.bits();
  build.create(layer, 0).create(layer, 1).create(layer, 2);
  std::vector<float> queries;
  for (std::size_t i = 0; i < T * layer.query_floats(); ++i) queries.push_back(random.normal());
  const std::size_t steps[] = {T, 1, 3 + index % 2};
  for (std::size_t on : {0, 1, 2}) {
    Random rows(seed);
    build.on(on);
    for (std::size_t from = 0; from < T;) {
      const std::size_t n = std::min(steps[on], T - from);
      const auto query = [&](std::size_t i, std::size_t head, std::size_t d) {
        return queries[((from + i) * layer.query_heads + head) * layer.head_dim + d];
      };
      build.forward(n, normal(rows), normal(rows), query);
      from += n;
    }
  }
  return build.take();
}

/// A step of a random life: the count of positions follows along, and layers stay small.
void live(CaseBuilder& build, Random& random, std::size_t& T, std::optional<std::size_t>& saved, std::optional<std::size_t>& exported,
          bool windowed) {
  switch (random.below(12)) {
    case 0:
    case 1:
    case 2: {
      const std::size_t n = random.between(1, 6);
      build.forward(n, normal(random), normal(random), normal(random));
      T += n;
      break;
    }
    case 3: {
      const std::size_t n = random.between(0, 9);
      build.append(n, normal(random), normal(random));
      T += n;
      break;
    }
    case 4:
    case 5:
      if (T > 0) build.attend(T - 1, 1, normal(random));
      break;
    case 6: {
      const std::size_t n = random.below(5);
      build.truncate(n).simple(EngineOp::length);
      T -= std::min(n, T);
      break;
    }
    case 7:
      build.slot(EngineOp::snapshot, 0);
      saved = T;
      break;
    case 8:
      if (!saved) break;
      build.slot(EngineOp::restore, 0);
      T = *saved;
      break;
    case 9:
      build.slot(EngineOp::export_state, 1);
      exported = T;
      break;
    case 10:
      if (!exported) break;
      build.slot(EngineOp::import_state, 1);
      T = *exported;
      break;
    default:
      if (random.chance(1, 3)) {
        build.simple(EngineOp::clear);
        T = 0;
      } else if (!windowed && T > 6) {
        build.evict(5);
        T = 5;
      }
      break;
  }
}

EngineCase history(std::size_t, Random& random, const Shape& shape) {
  const EngineLayer layer = random_layer(random, shape);
  CaseBuilder build("a random life of a layer");
  build.create(layer);
  std::size_t T = 0;
  std::optional<std::size_t> saved, exported;
  const std::size_t steps = random.between(6, 16);
  for (std::size_t i = 0; i < steps && T < 40; ++i) live(build, random, T, saved, exported, layer.window != 0);
  build.forward(2, normal(random), normal(random), normal(random));
  return build.take();
}

}  // namespace

std::vector<SuiteCheck> generated_checks() {
  return {{"accuracy", "the real value, and an error below its bound", 40, 300, accuracy},
          {"repeat", "the same again (bits, where an engine claims them)", 3, 15, repeated},
          {"batch", "whatever is computed beside it (bits, where an engine claims them)", 5, 20, batches},
          {"histories", "any operations in any order", 20, 150, history}};
}

}  // namespace kvcert::certify
