// JSON from outside. The library reads any depth, but writes, and so quotes in a message, by recursion: brackets by the hundred
// thousand would end the program.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

namespace kvcert::certify {

/// Nothing that is read here is nested deeper than ten.
inline constexpr std::size_t deepest_json = 100;

/// Throws std::exception with a sentence for a person if the text is no JSON, or is nested deeper than deepest_json.
inline nlohmann::json parse_json(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;  // whatever follows does not end the string
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest_json) throw std::runtime_error(fmt::format("it is nested deeper than {} at character {}", deepest_json, i));
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return nlohmann::json::parse(text);
}

}  // namespace kvcert::certify
