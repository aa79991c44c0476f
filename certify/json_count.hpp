// A size, an index or a seed out of JSON. The library would turn a fraction, a negative number or a string's neighbour into some
// other number, or into none; so it is asked first what is there.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace kvcert::certify {

/// The number; throws std::runtime_error with a sentence that calls it `name`.
inline std::uint64_t count_of(const nlohmann::json& value, const char* name, std::uint64_t low, std::uint64_t high) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < low || value.get<std::uint64_t>() > high) {
    throw std::runtime_error(fmt::format("\"{}\" is {}, expected an integer from {} to {}", name, value.dump(), low, high));
  }
  return value.get<std::uint64_t>();
}

/// The member of that name.
inline std::uint64_t count_from(const nlohmann::json& object, const char* name, std::uint64_t low, std::uint64_t high) {
  return count_of(object.at(name), name, low, high);
}

}  // namespace kvcert::certify
