// Records that a fitting layer accepts.
#pragma once

#include "fuzz/dice.hpp"
#include "fuzz/furnished.hpp"
#include "fuzz/record_bytes.hpp"

namespace kvcert::fuzz {

/// Any bits of an element, special values among them, that do not overflow where they are written as binary16.
std::uint32_t element_bits(Dice& dice, std::size_t width);

/// A record of this kind for a layer of this geometry and window, with a few positions, now and then a dead head and a vector.
/// Without a header where `versioned` is false; a bounded layer takes no such body, and is given a linear one's.
Bytes valid_record(Dice& dice, const Names& names, const LayerShape& shape, bool versioned = true);

/// A small shape of any kind.
LayerShape any_shape(Dice& dice);

}  // namespace kvcert::fuzz
