// Tensors as text: hex of little-endian binary32, binary16 or bfloat16, so that every bit pattern survives any JSON library.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "certify/foreign/precision.hpp"

namespace kvcert::certify {

/// `type` is f32, f16 or bf16; what it cannot hold is rounded to nearest even.
std::string tensor_hex(std::span<const float> numbers, Precision type = Precision::f32);
/// Throws std::runtime_error with a sentence that names `field`. `size`: how many numbers there must be.
std::vector<float> tensor_from_hex(std::string_view text, Precision type, const std::string& field, std::size_t size);
/// The number as that type holds it.
float rounded_to(float x, Precision type);

}  // namespace kvcert::certify
