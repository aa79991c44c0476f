#include "certify/test_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "certify/bits.hpp"
#include "certify/json_count.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

std::string hex(std::span<const float> tensor) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(tensor.size() * 8);
  for (float x : tensor) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      const std::uint32_t byte = (bits(x) >> shift) & 0xFFU;
      text += digits[byte >> 4U];
      text += digits[byte & 0xFU];
    }
  }
  return text;
}

[[noreturn]] void refuse(const std::string& sentence) { throw std::runtime_error(sentence); }

std::uint32_t hex_digit(char c, const std::string& name) {
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint32_t>(c - 'a' + 10);
  refuse(fmt::format("\"{}\" holds {:?}, which is no lower-case hex digit", name, c));
}

std::vector<float> tensor_from(const json& object, const std::string& name, std::size_t size) {
  const auto& text = object.at(name).get_ref<const std::string&>();
  if (text.size() % 8 != 0 || (size != std::string::npos && text.size() != size * 8)) {
    refuse(fmt::format("\"{}\" has {} hex digits, expected {}", name, text.size(),
                       size == std::string::npos ? std::string("a multiple of 8") : std::to_string(size * 8)));
  }
  std::vector<float> tensor;
  tensor.reserve(text.size() / 8);
  for (std::size_t at = 0; at < text.size(); at += 8) {
    std::uint32_t pattern = 0;
    for (unsigned byte = 0; byte < 4; ++byte) {
      const std::uint32_t high = hex_digit(text[at + 2 * byte], name);
      const std::uint32_t low = hex_digit(text[at + 2 * byte + 1], name);
      pattern |= (high << 4U | low) << (8 * byte);
    }
    tensor.push_back(std::bit_cast<float>(pattern));
  }
  return tensor;
}

}  // namespace

std::vector<float> TestCase::head_rows(const std::vector<float>& tensor) const {
  std::vector<float> rows;
  for (std::size_t position = 0; position < stored(); ++position) {
    const auto row = tensor.begin() + static_cast<std::ptrdiff_t>(position * row_floats() + kv_head * geometry.head_dim);
    rows.insert(rows.end(), row, row + static_cast<std::ptrdiff_t>(geometry.head_dim));
  }
  return rows;
}

bool operator==(const TestCase& a, const TestCase& b) {
  const auto same = [](const std::vector<float>& x, const std::vector<float>& y) { return !first_difference(x, y); };
  return a.geometry == b.geometry && a.alive == b.alive && a.positions == b.positions && a.kv_head == b.kv_head &&
         a.first == b.first && a.upto == b.upto && bits(a.scale) == bits(b.scale) &&
         bits(a.softcap) == bits(b.softcap) && a.salt == b.salt && same(a.k, b.k) && same(a.v, b.v) &&
         same(a.q, b.q) && same(a.sinks, b.sinks) && same(a.acc, b.acc);
}

json to_json(const TestCase& test) {
  return {{"kv_heads", test.geometry.num_kv_heads},
          {"head_dim", test.geometry.head_dim},
          {"alive", test.alive},
          {"positions", test.positions},
          {"k", hex(test.k)},
          {"v", hex(test.v)},
          {"kv_head", test.kv_head},
          {"first", test.first},
          {"upto", test.upto},
          {"scale", hex({&test.scale, 1})},
          {"softcap", hex({&test.softcap, 1})},
          {"heads", test.heads()},
          {"q", hex(test.q)},
          {"sinks", hex(test.sinks)},
          {"acc", hex(test.acc)},
          {"salt", test.salt}};
}

TestCase test_case_from_json(const json& object) try {
  constexpr std::size_t limit = std::size_t{1} << 20U;  // more is no case anybody wants to read
  TestCase test;
  test.geometry = {count_from(object, "kv_heads", 1, limit), count_from(object, "head_dim", 1, limit)};
  test.positions = count_from(object, "positions", 0, limit);
  if (!object.at("alive").is_array()) refuse(fmt::format("\"alive\" is {}, expected an array of 0 and 1", object.at("alive").dump()));
  for (const json& flag : object.at("alive")) {
    if (flag != 0 && flag != 1) refuse(fmt::format("\"alive\" holds {}, expected 0 or 1", flag.dump()));
    test.alive.push_back(flag.get<std::uint8_t>());
  }
  if (test.alive.size() != test.geometry.num_kv_heads) {
    refuse(fmt::format("\"alive\" has {} flags, expected one for each of {} KV heads", test.alive.size(),
                       test.geometry.num_kv_heads));
  }
  test.k = tensor_from(object, "k", test.positions * test.row_floats());
  test.v = tensor_from(object, "v", test.positions * test.row_floats());
  test.kv_head = count_from(object, "kv_head", 0, test.geometry.num_kv_heads - 1);
  test.first = count_from(object, "first", 0, max_count);
  test.upto = count_from(object, "upto", 0, max_count);
  test.scale = tensor_from(object, "scale", 1).front();
  test.softcap = tensor_from(object, "softcap", 1).front();
  const std::size_t heads = count_from(object, "heads", 1, limit);
  test.q = tensor_from(object, "q", heads * test.geometry.head_dim);
  test.sinks = tensor_from(object, "sinks", std::string::npos);
  if (!test.sinks.empty() && test.sinks.size() != heads) {
    refuse(fmt::format("\"sinks\" has {} logits, expected none or {}", test.sinks.size(), heads));
  }
  test.acc = tensor_from(object, "acc", std::string::npos);
  test.salt = count_from(object, "salt", 0, std::string::npos);
  return test;
} catch (const json::exception& fault) {
  refuse(fmt::format("not a case: {}", fault.what()));
}

}  // namespace kvcert::certify
