#include "fuzz/generate_record.hpp"

namespace kvcert::fuzz {
namespace {

void put_elements(Bytes& out, Dice& dice, std::uint64_t count, std::size_t width) {
  for (std::uint64_t i = 0; i < count; ++i) put_le(out, element_bits(dice, width), width);
}

void put_full_body(Bytes& out, Dice& dice, const Geometry& geometry, std::uint64_t f16, std::uint64_t rows) {
  const std::uint64_t linear_len = dice.chance(1, 3) ? 1 + dice.below(3) : 0;
  for (std::uint64_t field : {f16, rows, std::uint64_t{geometry.num_kv_heads}, std::uint64_t{geometry.head_dim}, linear_len, rows}) {
    put_le(out, field, 4);
  }
  put_elements(out, dice, linear_len + rows, 4);
  for (std::size_t head = 0; head < geometry.num_kv_heads; ++head) {
    const std::uint64_t length = dice.chance(1, 6) ? 0 : rows * geometry.head_dim;
    for (int tensor = 0; tensor < 2; ++tensor) {
      put_le(out, length, 4);
      put_elements(out, dice, length, f16 == 1 ? 2 : 4);
    }
  }
}

/// The unversioned body that a linear layer takes: a vector, and no rows at any position.
void put_rowless_body(Bytes& out, Dice& dice, const Geometry& geometry, std::uint64_t f16) {
  const std::uint64_t length = dice.below(4);
  for (std::uint64_t field : {f16, dice.bits() & 0xFFFFU, std::uint64_t{geometry.num_kv_heads}, std::uint64_t{geometry.head_dim},
                              length, std::uint64_t{0}}) {
    put_le(out, field, 4);
  }
  put_elements(out, dice, length, 4);
  for (std::size_t head = 0; head < 2 * geometry.num_kv_heads; ++head) put_le(out, 0, 4);
}

void put_linear_body(Bytes& out, Dice& dice, const Geometry& geometry) {
  const std::uint64_t length = dice.below(4);
  for (std::uint64_t field : {std::uint64_t{geometry.num_kv_heads}, std::uint64_t{geometry.head_dim}, length}) put_le(out, field, 4);
  put_elements(out, dice, length, 4);
}

void put_bounded_body(Bytes& out, Dice& dice, const LayerShape& shape, std::uint64_t f16, std::uint64_t position) {
  const auto [heads, dim] = shape.geometry;
  const std::uint64_t window = shape.window, length = std::min(position, window);
  for (std::uint64_t field : {std::uint64_t{heads}, std::uint64_t{dim}, window, length, position % window}) put_le(out, field, 4);
  for (std::size_t head = 0; head < 2 * heads; ++head) {  // ring_k, then ring_v
    put_elements(out, dice, length * dim, f16 == 1 ? 2 : 4);
    for (std::uint64_t i = length * dim; i < window * dim; ++i) put_le(out, 0, f16 == 1 ? 2 : 4);
  }
}

}  // namespace

std::uint32_t element_bits(Dice& dice, std::size_t width) {
  if (width == 2) {
    if (dice.chance(1, 2)) return static_cast<std::uint32_t>(dice.bits() & 0xFFFFU);
    return dice.pick<std::uint32_t>({0, 0x8000, 1, 0x83FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7C01, 0xFDFF, 0x7E00, 0x3C00});
  }
  if (dice.chance(1, 4)) return static_cast<std::uint32_t>(dice.bits());
  // Around binary16's edges: its smallest half, its ties, its largest value and the first that is none.
  return dice.pick<std::uint32_t>({0, 0x80000000, 0x3F800000, 0x33000000, 0x33000001, 0x33C00000, 0x387FE000, 0x3F801000, 0x3F803000,
                                   0x477FE000, 0x477FEFFF, 0x477FF000, 0xC77FF000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001,
                                   0xFFBFFFFF, 0x7FA01000, 1, 0x807FFFFF, 0x7F7FFFFF});
}

LayerShape any_shape(Dice& dice) {
  LayerShape shape;
  shape.geometry = {1 + dice.below(3), dice.pick<std::size_t>({1, 2, 3, 4})};
  shape.kind = static_cast<WireKind>(dice.pick({0, 0, 1, 2}));
  if (shape.kind == WireKind::bounded) shape.window = 1 + dice.below(4);
  return shape;
}

Bytes valid_record(Dice& dice, const Names& names, const LayerShape& shape, bool versioned) {
  const std::uint64_t f16 = dice.below(2);
  std::uint64_t position = dice.pick<std::uint64_t>({0, 1, 1, 2, 3});
  if (shape.kind == WireKind::bounded) position = dice.chance(1, 8) ? dice.bits() >> 1U : dice.below(3 * shape.window);
  if (shape.kind == WireKind::linear) position = dice.chance(1, 8) ? dice.bits() >> 1U : dice.below(4);
  Bytes out;
  if (versioned) put_header(out, names, shape.kind, f16, position);
  if (shape.kind == WireKind::full) {
    put_full_body(out, dice, shape.geometry, f16, position);
  } else if (!versioned) {
    put_rowless_body(out, dice, shape.geometry, f16);
  } else if (shape.kind == WireKind::linear) {
    put_linear_body(out, dice, shape.geometry);
  } else {
    put_bounded_body(out, dice, shape, f16, position);
  }
  return out;
}

}  // namespace kvcert::fuzz
