// Probes: questions whose right answer is a closed form, with the nearby wrong ones far from it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "certify/foreign/builder.hpp"

namespace kvcert::certify {
namespace {

/// The same number for every query head of n positions from `from` of a window over rows numbered 0, 1, 2 ...
std::vector<double> window_means(const EngineLayer& layer, std::size_t from, std::size_t n) {
  std::vector<double> right;
  for (std::size_t p = from; p < from + n; ++p) {
    const std::size_t first = layer.window == 0 || p + 1 < layer.window ? 0 : p + 1 - layer.window;
    right.insert(right.end(), layer.query_heads, mean(first, p + 1));
  }
  return right;
}

constexpr std::array<std::size_t, 7> windows{1, 2, 3, 4, 5, 8, 64};

EngineCase window(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.window = windows[index % windows.size()];
  const std::size_t T = layer.window + std::array<std::size_t, 4>{0, 1, 2, layer.window * 2 + 3}[index / windows.size() % 4];
  CaseBuilder build(fmt::format("q = 0, V = row number, window {}: position {} sees the last {}", layer.window, T - 1, std::min(T, layer.window)));
  build.create(layer);
  for (std::size_t p = 0; p < T; ++p) build.append(1, any_key, row_number);
  return build.attend(T - 1, 1, zero).closed_form(window_means(layer, T - 1, 1)).take();
}

EngineCase filling(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.window = windows[1 + index % (windows.size() - 1)];
  const std::size_t T = 1 + (index / windows.size() + layer.window / 2) % (layer.window - 1);
  CaseBuilder build(fmt::format("q = 0, V = 1, {} rows in a window of {}: slots without a row do not count", T, layer.window));
  build.create(layer).append(T, any_key, [](auto, auto, auto) { return 1.0F; });
  return build.attend(T - 1, 1, zero).closed_form(std::vector<double>(layer.query_heads, 1.0)).take();
}

EngineCase wrap(std::size_t index, Random& random, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.window = std::array<std::size_t, 4>{2, 3, 4, 7}[index % 4];
  CaseBuilder build(fmt::format("chunks longer than the window of {}, through more than three windows", layer.window));
  build.create(layer);
  for (std::size_t chunk = 0; build.rows_so_far() < 3 * layer.window + 2; ++chunk) {
    const std::size_t n = chunk % 2 == 0 ? layer.window + 1 + random.below(layer.window + 2) : 1 + random.below(2);
    const std::size_t from = build.rows_so_far();
    build.forward(n, any_key, row_number, zero).closed_form(window_means(layer, from, n));
  }
  return build.take();
}

EngineCase chunk(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.window = index % 2 == 0 ? 0 : 4;
  const std::size_t n = std::array<std::size_t, 7>{2, 3, 5, 7, 16, 17, 33}[index % 7];
  CaseBuilder build(fmt::format("q = 0, V = row number, {} positions at once after 3: none sees a later one", n));
  build.create(layer).append(3, any_key, row_number);
  return build.forward(n, any_key, row_number, zero).closed_form(window_means(layer, 3, n)).take();
}

EngineCase tiles(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.window = std::array<std::size_t, 5>{1, 2, 3, 5, 17}[index % 5];
  const std::size_t T = std::array<std::size_t, 6>{31, 32, 33, 64, 65, 100}[index / 5 % 6];
  CaseBuilder build(fmt::format("window {} at the end of {} rows: whole tiles and parts of one are hidden", layer.window, T));
  build.create(layer).append(T, any_key, row_number);
  return build.attend(T - 1, 1, zero).closed_form(window_means(layer, T - 1, 1)).take();
}

EngineCase head_map(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  constexpr std::pair<std::size_t, std::size_t> maps[] = {{8, 2}, {6, 2}, {6, 3}, {12, 4}, {4, 1}, {4, 4}, {10, 2}};
  if (index < std::size(maps) && !shape.fixed) std::tie(layer.query_heads, layer.kv_heads) = maps[index];
  CaseBuilder build(fmt::format("V = KV head + 1, {} query heads on {} KV heads", layer.query_heads, layer.kv_heads));
  std::vector<double> right;
  for (std::size_t p = 0; p < 2; ++p) {
    for (std::size_t h = 0; h < layer.query_heads; ++h) right.push_back(static_cast<double>(h / (layer.query_heads / layer.kv_heads) + 1));
  }
  build.create(layer).append(3, any_key, [](std::size_t, std::size_t head, std::size_t) { return static_cast<float>(head + 1); });
  return build.attend(1, 2, zero).closed_form(std::move(right)).take();
}

EngineCase uneven(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  constexpr std::pair<std::size_t, std::size_t> maps[] = {{4, 3}, {2, 3}, {42, 8}, {7, 2}, {1, 4}};
  if (shape.fixed && shape.kv_heads > 1) layer.query_heads += 1 + index % (shape.kv_heads - 1);
  else std::tie(layer.query_heads, layer.kv_heads) = maps[index % std::size(maps)];
  CaseBuilder build(fmt::format("{} query heads cannot share {} KV heads", layer.query_heads, layer.kv_heads));
  return build.create(layer).take();
}

EngineCase sinks(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  if (!shape.fixed && shape.fan_out == 1) layer.query_heads *= 2;
  constexpr float levels[] = {0.6931472F, 3.0F, -2.0F, 0.0F, 1.5F, -0.5F};
  for (std::size_t h = 0; h < layer.query_heads; ++h) layer.sinks.push_back(levels[(h + index) % std::size(levels)]);
  layer.softcap = index % 2 == 0 ? 2.0F : 0.0F;
  const std::size_t n = 1 + index % 3;
  const std::size_t before = std::array<std::size_t, 4>{0, 1, 4, 30}[index % 4];
  CaseBuilder build(fmt::format("q = 0, V = 2, {} positions at once after {}: the answer is 2n / (n + e^sink) for each head's own sink", n, before));
  std::vector<double> right;
  for (std::size_t p = before; p < before + n; ++p) {
    for (float sink : layer.sinks) right.push_back(2 * static_cast<double>(p + 1) / (static_cast<double>(p + 1) + std::exp(double{sink})));
  }
  const auto twos = [](auto, auto, auto) { return 2.0F; };
  build.create(layer).append(before, any_key, twos);
  return build.forward(n, any_key, twos, zero).closed_form(std::move(right)).take();
}

/// Two rows that score +x and -x times the scale, with values 1 and 0.
EngineCase two_rows(std::string about, const EngineLayer& layer, float x, double score, bool hidden = false) {
  CaseBuilder build(std::move(about));
  build.create(layer);
  if (hidden) build.append(1, zero, [](auto, auto, auto) { return 100.0F; });
  build.rows_from(0);
  build.append(2, [x](std::size_t row, std::size_t, std::size_t d) { return d != 0 ? 0.0F : row == 0 ? x : -x; },
               [](std::size_t row, std::size_t, std::size_t) { return row == 0 ? 1.0F : 0.0F; });
  return build.attend(hidden ? 2 : 1, 1, [](std::size_t, std::size_t, std::size_t d) { return d == 0 ? 1.0F : 0.0F; })
      .closed_form(std::vector<double>(layer.query_heads, 1 / (1 + std::exp(-2 * score))))
      .take();
}

EngineCase softcap(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  const auto [x, cap, scale] = std::array<std::array<float, 3>, 5>{
      {{1.0F, 0.5F, 1.0F}, {20.0F, 1.5F, 1.0F}, {3.0F, 2.0F, 0.5F}, {-4.0F, 2.0F, 0.25F}, {1.0F, 0.75F, 0.5F}}}[index % 5];
  layer.scale = scale;
  layer.softcap = cap;
  const double s = double{x} * double{scale};
  const bool hidden = index % 2 == 1;
  if (hidden) layer.window = 2;
  return two_rows(fmt::format("two rows scoring ±{} under a cap of {}{}", s, cap, hidden ? ", and a row outside the window" : ""), layer, x,
                  double{cap} * std::tanh(s / double{cap}), hidden);
}

EngineCase scale(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.scale = std::array{0.5F, 0.25F, 0.125F, 2.0F, 0.0625F}[index % 5];
  return two_rows(fmt::format("two rows scoring ±1.5 times the scale {}", layer.scale), layer, 1.5F, 1.5 * double{layer.scale});
}

EngineCase shift(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.scale = 1;
  const float low = std::array{-6.0e4F, -100.0F, 2048.0F, 6.0e4F, -2048.0F, -300.0F}[index % 6];
  CaseBuilder build(fmt::format("four rows that score {} and the last {}: only differences count", low, low + 1));
  build.create(layer).append(4, [low](std::size_t row, std::size_t, std::size_t d) {
    return d == 0 ? low : d == 1 && row == 3 ? 1.0F : 0.0F;
  }, row_number);
  const double e = layer.head_dim > 1 ? std::exp(1.0) : 1.0;
  return build.attend(3, 1, [](std::size_t, std::size_t, std::size_t d) { return d < 2 ? 1.0F : 0.0F; })
      .closed_form(std::vector<double>(layer.query_heads, (0 + 1 + 2 + 3 * e) / (3 + e)))
      .take();
}

EngineCase poison(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  const float bad = std::array{std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3.0e38F}[index % 3];
  const auto broken = [bad](auto, auto, auto) { return bad; };
  CaseBuilder build("");
  switch (index / 3 % 4) {
    case 0:
      build = CaseBuilder(fmt::format("rows of {} that left the window", bad));
      layer.window = 4;
      build.create(layer).append(3, broken, broken).append(6, any_key, row_number).attend(8, 1, zero);
      return build.closed_form(std::vector<double>(layer.query_heads, mean(5, 9))).take();
    case 1:
      build = CaseBuilder(fmt::format("rows of {} that were taken back", bad));
      build.create(layer).append(3, any_key, row_number).append(2, broken, broken).truncate(2).attend(2, 1, zero);
      return build.closed_form(std::vector<double>(layer.query_heads, 1.0)).take();
    case 2:
      build = CaseBuilder(fmt::format("later rows of {} in the same chunk", bad));
      build.create(layer).append(3, any_key, row_number).append(2, broken, broken).attend(0, 3, zero);
      return build.closed_form(window_means(layer, 0, 3)).take();
    default:
      build = CaseBuilder(fmt::format("rows of {} before clear", bad));
      build.create(layer).append(3, broken, broken).simple(EngineOp::clear);
      build.rows_from(0);
      return build.append(2, any_key, row_number).attend(1, 1, zero).closed_form(std::vector<double>(layer.query_heads, 0.5)).take();
  }
}

EngineCase layout(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  // Numbers of channels that no vector width divides, too.
  if (!shape.fixed && index % 2 == 1) layer.head_dim = std::array<std::size_t, 5>{7, 33, 5, 1, 18}[index / 2 % 5];
  const std::size_t n = 2 + index % 5;
  CaseBuilder build("q = 0, every value says its row, KV head and channel: all of them arrive where they belong");
  build.create(layer).append(n, any_key, unique).append(1, any_key, unique);
  return build.attend(0, n + 1, zero).take();
}

EngineCase roles(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  CaseBuilder build("V = -K: keys are keys, and values are values");
  const std::size_t n = 1 + index % 4;
  const auto key = [](std::size_t row, std::size_t head, std::size_t d) { return 0.5F + static_cast<float>((row + 2 * head + d) % 7); };
  build.create(layer).append(n, key, [&](auto row, auto head, auto d) { return -key(row, head, d); });
  return build.attend(n - 1, 1, normal(random)).take();
}

EngineCase arguments(std::size_t index, Random&, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  CaseBuilder build("what is not stored cannot be asked for");
  build.create(layer).append(3, any_key, row_number);
  constexpr std::pair<std::size_t, std::size_t> questions[] = {{3, 1}, {2, 2}, {0, 4}, {SIZE_MAX, 1}, {SIZE_MAX - 1, 3}};
  const auto [from, n] = questions[index % std::size(questions)];
  return build.attend(from, n, zero).attend(2, 1, zero).take();
}

}  // namespace

std::vector<SuiteCheck> probe_checks() {
  return {{"window", "a position sees itself and the W-1 before it", 14, 28, window},
          {"window filling", "a window that is not full yet holds its rows and nothing else", 6, 18, filling},
          {"window wrap", "chunks longer than the window, through three windows", 4, 12, wrap},
          {"chunk", "no position of a chunk sees a later one", 7, 14, chunk},
          {"hidden tiles", "tiles that are hidden wholly or in part", 10, 30, tiles},
          {"head map", "query head h reads KV head h / (NH / KVH)", 7, 14, head_map},
          {"uneven heads", "head counts that do not divide are refused", 5, 5, uneven},
          {"sinks", "each head's own sink, once, uncapped, without a value", 8, 16, sinks},
          {"softcap", "c * tanh(s / c), after scaling", 5, 10, softcap},
          {"scale", "the scale, once", 5, 10, scale},
          {"shift", "large common scores cancel", 6, 12, shift},
          {"poison", "what must not be seen has no effect", 12, 12, poison},
          {"layout", "every number arrives at its row, head and channel", 5, 10, layout},
          {"keys and values", "keys score, values are averaged", 4, 8, roles},
          {"arguments", "questions about rows that are not stored are refused", 5, 5, arguments}};
}

}  // namespace kvcert::certify
