// libFuzzer's hooks for text_inputs: mutations that know JSON. One value is changed and the rest of the text stays as it is, which
// blind mutation of characters seldom does; now and then libFuzzer's own.
#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fuzz/dice.hpp"

extern "C" __attribute__((weak)) std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using kvcert::fuzz::Dice;
using nlohmann::json;

/// Values that readers forget: numbers at the edges of what a size can be, and every type where another is expected.
json surprising(Dice& dice) {
  static const std::array<json, 24> values{
      json(0), json(1), json(2), json(-1), json(1.0), json(0.5), json(1e300), json(-1e300), json(16), json(256), json(1U << 20U), json((1U << 20U) + 1),
      json(0xFFFFFFFFU), json((std::uint64_t{1} << 63U) - 1), json(std::uint64_t{1} << 63U), json(~std::uint64_t{0}), json(true), json(nullptr),
      json(""), json("f16"), json::array(), json::object(), json("0000c07f"), json("0000807f")};
  return values[dice.below(values.size())];
}

void nodes_of(json& value, std::vector<json*>& nodes) {
  nodes.push_back(&value);
  if (!value.is_structured()) return;
  for (json& child : value) nodes_of(child, nodes);
}

void change_string(std::string& text, Dice& dice) {
  static constexpr std::array patterns{"00000000", "00000080", "01000000", "0000803f", "ffff7f7f", "0000807f", "0000c07f", "efbeadde", "ffff477f", "0100807f"};
  const std::size_t at = text.empty() ? 0 : dice.below(text.size());
  switch (dice.below(6)) {
    case 0:
    case 1: if (text.size() >= 8) text.replace(at / 8 * 8 + 8 > text.size() ? 0 : at / 8 * 8, 8, patterns[dice.below(patterns.size())]); break;
    case 2: text.insert(at, patterns[dice.below(patterns.size())]); break;
    case 3: text.erase(at, 1 + dice.below(8)); break;
    case 4: text += text.substr(0, 64); break;
    default:
      // Half of them beside the digits: one more, one less.
      if (!text.empty()) text[at] = dice.chance(1, 2) ? dice.pick({'/', ':', '@', 'G', '`', 'g'}) : static_cast<char>(' ' + dice.below(95));
      break;
  }
}

void change_number(json& value, Dice& dice) {
  if (value.is_number_unsigned() && dice.chance(3, 4)) {
    const auto n = value.get<std::uint64_t>();
    value = dice.chance(1, 2) ? n + 1 + dice.below(3) : n - std::min<std::uint64_t>(n, 1 + dice.below(3));
  } else {
    value = surprising(dice);
  }
}

/// Elements and members: one goes, comes twice, or takes the value of another.
void change_structure(json& value, Dice& dice) {
  if (value.empty()) {
    value = surprising(dice);
    return;
  }
  const auto chosen = [&] { return std::next(value.begin(), static_cast<std::ptrdiff_t>(dice.below(value.size()))); };
  if (value.is_array()) {
    const json element = *chosen();
    if (dice.chance(1, 3)) value.erase(chosen());
    else if (dice.chance(1, 2)) value.insert(chosen(), element);
    else *chosen() = element;
  } else if (dice.chance(1, 2)) {
    value.erase(chosen());
  } else {
    const json element = *chosen();
    *chosen() = element;
  }
}

void mutate_value(json& value, Dice& dice) {
  std::vector<json*> nodes;
  nodes_of(value, nodes);
  json& node = *nodes[dice.below(nodes.size())];
  if (dice.chance(1, 8)) {
    const json other = *nodes[dice.below(nodes.size())];  // a copy: it may hold the node, or lie in it
    node = other;
  } else if (dice.chance(1, 8)) {
    node = surprising(dice);
  } else if (node.is_string()) {
    change_string(node.get_ref<std::string&>(), dice);
  } else if (node.is_structured()) {
    change_structure(node, dice);
  } else {
    change_number(node, dice);
  }
}

/// True if the text is lines of JSON, or one value over many, and something in it was changed.
bool mutate_json(std::string& text, Dice& dice) {
  if (json whole = json::parse(text, nullptr, false); !whole.is_discarded()) {
    mutate_value(whole, dice);
    text = whole.dump(-1, ' ', false, json::error_handler_t::replace);
    return true;
  }
  std::vector<std::string> lines(1);
  for (char c : text) {
    if (c == '\n') lines.emplace_back();
    else lines.back() += c;
  }
  std::string& line = lines[dice.below(lines.size())];
  if (dice.chance(1, 8)) {
    line = std::string(lines[dice.below(lines.size())]);  // once more, in the place of another
  } else {
    json value = json::parse(line, nullptr, false);
    if (value.is_discarded()) return false;
    mutate_value(value, dice);
    line = value.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  text.clear();
  for (const std::string& each : lines) text += (&each == &lines.front() ? "" : "\n") + each;
  return true;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  Dice dice(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  if ((dice.chance(1, 4) && LLVMFuzzerMutate != nullptr) || !mutate_json(text, dice) || text.size() > max_size) {
    return LLVMFuzzerMutate == nullptr ? size : LLVMFuzzerMutate(data, size, max_size);
  }
  while (dice.chance(1, 3)) mutate_json(text, dice);
  const std::size_t length = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), length);
  return length;
}
