// Storage and environment: int8 rows, binary16 rows, numbers that are small, large or infinite.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "certify/foreign/builder.hpp"

namespace kvcert::certify {
namespace {

EngineCase constant_rows(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  const float c = std::array{0.0F, 1.0F, -3.5F, 0.0F, 127.0F, 1.0e-6F}[index % 6];
  CaseBuilder build(fmt::format("rows that are {} throughout", c));
  const auto constant = [c](auto, auto, auto) { return c; };
  if (index % 2 == 0) build.create(layer).append(1, constant, constant).attend(0, 1, normal(random)).closed_form(std::vector<double>(layer.query_heads, double{c}));
  else build.create(layer).append(3, constant, constant).attend(2, 1, normal(random)).closed_form(std::vector<double>(layer.query_heads, double{c}));
  return build.take();
}

/// Groups of 32 channels, and what is left over behind them.
EngineCase group_tail(std::size_t index, Random& random, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  if (!shape.fixed) layer.head_dim = std::array<std::size_t, 6>{33, 40, 100, 31, 65, 80}[index % 6];
  CaseBuilder build(fmt::format("{} channels: the last group is shorter, and its numbers are larger", layer.head_dim));
  const std::size_t tail = layer.head_dim / 32 * 32;
  const auto number = [&](auto, auto, std::size_t d) { return random.normal() * (d >= tail ? 4.0F : 0.25F); };
  build.create(layer).append(5, number, number);
  return build.attend(4, 1, normal(random, 0.5F)).take();
}

/// Rows, heads and channels of very different size: a scale along the wrong axis cannot serve them.
EngineCase scale_axis(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape.fixed ? shape : Shape{std::max<std::size_t>(shape.kv_heads, 2), shape.head_dim, shape.fan_out});
  CaseBuilder build("neighbouring rows and heads a hundredfold apart");
  const bool by_row = index % 2 == 0;
  const auto number = [&, by_row](std::size_t row, std::size_t head, std::size_t) {
    return random.normal() * ((by_row ? row : head) % 2 == 0 ? 0.02F : 2.0F);
  };
  build.create(layer).append(1, number, number).append(5, number, number);
  return build.attend(0, 6, normal(random)).take();
}

/// One row, whose value comes back as it was stored.
EngineCase one_row(std::size_t index, Random& random, const Shape& shape) {
  const EngineLayer layer = layer_of(shape);
  constexpr std::array<float, 12> edges{1.9999911F, -1.9999911F, 65504.0F, 65519.0F, 255.99F,  0.26910877F, 1.00095F,  1.0014648F,
                                        6.1035156e-5F, 3.0e-5F, 5.9604645e-8F, 0.33325195F};
  CaseBuilder build("one row is the answer, whatever it scores: numbers at the edges of binary16 and bfloat16");
  build.create(layer).append(1, normal(random), [&](std::size_t, std::size_t head, std::size_t d) {
    const float x = edges[(index + head + d) % edges.size()];
    return d % 3 == 2 ? random.normal() : x;
  });
  // With q = 0 what storage does to keys leaves the answer alone, and what it does to the value shows.
  return index % 2 == 0 ? build.attend(0, 1, zero).take() : build.attend(0, 1, normal(random)).take();
}

EngineCase large_dots(std::size_t index, Random&, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  const float size = std::array{200.0F, 400.0F, 1000.0F}[index % 3];
  layer.scale = 1 / (size * size * static_cast<float>(layer.head_dim));
  CaseBuilder build(fmt::format("products of {0} and {0}: a dot past 65504 that the scale brings back to 1", size));
  build.create(layer).append(3, [size](std::size_t row, std::size_t, std::size_t) { return row == 1 ? -size : size; }, row_number);
  return build.attend(2, 1, [size](auto, auto, auto) { return size; }).take();
}

EngineCase small(std::size_t index, Random& random, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  const float size = std::array{0x1p-130F, 0x1p-126F, 0x1p-140F, 0x1p-149F}[index % 4];
  CaseBuilder build(fmt::format("values about {}: subnormal numbers are numbers", size));
  build.create(layer).append(4, normal(random), [&](auto, auto, auto) { return static_cast<float>(static_cast<int>(random.below(9)) - 4) * size; });
  return build.attend(0, 4, normal(random)).take();
}

EngineCase infinities(std::size_t index, Random& random, const Shape& shape) {
  EngineLayer layer = layer_of(shape);
  layer.scale = 1;
  const float huge = index % 2 == 0 ? -3.0e38F : -std::numeric_limits<float>::infinity();
  CaseBuilder build("rows that score minus infinity, before and after rows that do not (canonical bits only)");
  const std::size_t hidden = index % 3;
  build.create(layer).append(5, [=](std::size_t row, std::size_t, std::size_t d) { return row % 3 == hidden ? huge : d == 0 ? 1.0F : 0.5F; }, row_number);
  return build.attend(4, 1, [](auto, auto, auto) { return 4.0F; }).attend(0, 5, normal(random)).take();
}

}  // namespace

std::vector<SuiteCheck> storage_checks() {
  return {{"constant rows", "rows of one number, of zeros too, come back", 6, 12, constant_rows},
          {"group tail", "channels behind the last whole group count", 6, 12, group_tail},
          {"scale axis", "small rows beside large ones keep their digits", 4, 12, scale_axis},
          {"one row", "one visible row is the answer", 12, 24, one_row},
          {"large dots", "dots past the range of binary16", 3, 6, large_dots},
          {"small numbers", "subnormal numbers are numbers", 4, 8, small},
          {"infinities", "rows of score minus infinity change nothing", 6, 12, infinities}};
}

}  // namespace kvcert::certify
