// Comparing and printing numbers by their bits.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvcert::certify {

inline std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

inline std::vector<std::uint32_t> bits(std::span<const float> numbers) {
  std::vector<std::uint32_t> result;
  result.reserve(numbers.size());
  for (float x : numbers) result.push_back(bits(x));
  return result;
}

/// "0x3f800000 (0x1p+0 = 1)": the bits decide, the rest is for the eye.
inline std::string show(float x) { return fmt::format("{:#010x} ({:a} = {})", bits(x), x, x); }

/// The first place where two tensors differ in a bit.
inline std::optional<std::size_t> first_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return a.size() < b.size() ? a.size() : b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (bits(a[i]) != bits(b[i])) return i;
  }
  return std::nullopt;
}

/// Nothing if equal; else "NAME[i]: A, expected B".
inline std::optional<std::string> difference(const std::string& name, std::span<const float> got,
                                             std::span<const float> expected) {
  const auto at = first_difference(got, expected);
  if (!at) return std::nullopt;
  if (got.size() != expected.size()) {
    return fmt::format("{} has {} numbers, expected {}", name, got.size(), expected.size());
  }
  return fmt::format("{}[{}] is {}, expected {}", name, *at, show(got[*at]), show(expected[*at]));
}

}  // namespace kvcert::certify
