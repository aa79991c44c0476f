#include "certify/vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "certify/bits.hpp"
#include "certify/engine.hpp"
#include "certify/foreign/tensor_text.hpp"
#include "certify/generate.hpp"
#include "certify/json_count.hpp"
#include "certify/laws/law.hpp"
#include "certify/probes.hpp"
#include "optimized/binary16.hpp"
#include "reference/binary16.hpp"
#include "reference/evaluate.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

struct Note {
  const char *flag, *kind, *effect;
};
constexpr Note attention_notes[] = {
    {"Window", "edge", "the first visible row is off by one: a row too many or too few enters the mean"},
    {"HeadMap", "indexing", "a query head that reads another KV head answers with that head's number"},
    {"SinkMass", "formula", "a sink that is dropped, doubled, capped or another head's changes the mass of all rows"},
    {"Poison", "masking", "hidden rows hold NaN, infinities or huge numbers: masking by multiplication lets them through"},
    {"Softcap", "formula", "the cap is c * tanh(s / c), after the scale"},
    {"Scale", "formula", "the scale enters once"},
    {"OneKey", "edge", "one visible row is the answer, whatever it scores"},
    {"Shift", "overflow", "large common scores: without the maximum subtracted, exp overflows or every weight vanishes"},
    {"NoKey", "edge", "no visible row gives +0, with sinks as well"},
    {"Generated", "accuracy", "random rows; the exact value is correctly rounded"},
    {"Special", "bits", "NaN, infinities, subnormals and huge numbers: canonical bits, and no exact value where an input is not finite"}};
constexpr Note binary16_notes[] = {
    {"Tie", "rounding", "halfway between two neighbours: to even"},
    {"Carry", "rounding", "rounding up into the next binade: the carry reaches the exponent"},
    {"Overflow", "range", "65520 and above become infinity, 65519 does not"},
    {"Subnormal", "rounding", "below 2^-14 the unit is 2^-24 throughout"},
    {"NaN", "payload", "a NaN keeps its sign and the top 10 bits of its fraction, and never becomes an infinity"},
    {"Plain", "rounding", "ordinary numbers"}};

template <std::size_t n>
json notes_json(const Note (&notes)[n]) {
  json object;
  for (const Note& note : notes) object[note.flag] = {{"kind", note.kind}, {"effect", note.effect}};
  return object;
}

std::string flag_of(const std::string& probe) {
  static const std::map<std::string, std::string> flags{{"window", "Window"}, {"head map", "HeadMap"}, {"sink mass", "SinkMass"},
                                                        {"poison", "Poison"}, {"softcap", "Softcap"}, {"scale", "Scale"},
                                                        {"one key", "OneKey"}, {"shift", "Shift"}, {"no key", "NoKey"}};
  return flags.at(probe);
}

/// What the queried head stores, and the question: one group of query heads on one KV head.
struct Question {
  std::size_t head_dim = 0, rows = 0, first = 0, upto = 0;
  float scale = 1, softcap = 0;
  std::vector<float> q, k, v, sinks;
  Query query() const { return {.q_group = q, .kv_head = 0, .scale = scale, .first = first, .softcap = softcap, .sinks = sinks}; }
};

Question question_of(const TestCase& test) {
  return {test.geometry.head_dim, test.stored(), test.first, test.upto, test.scale, test.softcap, test.q, test.head_rows(test.k), test.head_rows(test.v), test.sinks};
}

json case_json(const Question& question, std::string comment, const std::string& flag) {
  const auto canonical = reference::canonical_attend_group(question.query(), question.k, question.v, question.head_dim, question.upto);
  const auto exact = reference::exact_attend_group(question.query(), question.k, question.v, question.head_dim, question.upto);
  json result{{"canonical", tensor_hex(canonical.output)}, {"exact", nullptr}};
  if (exact) result["exact"] = tensor_hex(exact->output);
  return {{"comment", std::move(comment)},
          {"flags", {flag}},
          {"rows", question.rows},
          {"first", question.first},
          {"upto", question.upto},
          {"q", tensor_hex(question.q)},
          {"k", tensor_hex(question.k)},
          {"v", tensor_hex(question.v)},
          {"sinks", tensor_hex(question.sinks)},
          {"result", std::move(result)}};
}

json attention_file() {
  // Groups share head_dim, query heads, scale and softcap.
  std::map<std::tuple<std::size_t, std::size_t, std::uint32_t, std::uint32_t>, json> groups;
  std::size_t id = 0;
  const auto add = [&](const TestCase& test, std::string comment, const std::string& flag) {
    const Question question = question_of(test);
    json& group = groups[{question.head_dim, test.heads(), bits(question.scale), bits(question.softcap)}];
    if (group.is_null()) {
      group = {{"head_dim", question.head_dim}, {"query_heads", test.heads()}, {"scale", tensor_hex({&question.scale, 1})},
               {"softcap", tensor_hex({&question.softcap, 1})}, {"cases", json::array()}};
    }
    json entry = case_json(question, std::move(comment), flag);
    entry["id"] = ++id;
    group["cases"].push_back(std::move(entry));
  };
  for (const Probe& probe : all_probes()) add(probe.test, probe.question, flag_of(probe.name));
  for (std::uint64_t seed = 1; seed <= 60; ++seed) add(generate(seed, Domain::finite, {40, 3000}), fmt::format("random, seed {}", seed), "Generated");
  for (std::uint64_t seed = 1; seed <= 60; ++seed) add(generate(seed, Domain::any, {30, 2000}), fmt::format("any bits, seed {}", seed), "Special");
  json list = json::array();
  for (auto& [key, group] : groups) list.push_back(std::move(group));
  return {{"vectors", "kvcert attention"}, {"format", 1}, {"schema", "docs/schemas/vectors.json"}, {"notes", notes_json(attention_notes)},
          {"cases", id}, {"groups", std::move(list)}};
}

json binary16_file() {
  json cases = json::array();
  const auto add = [&](std::uint32_t pattern, const char* flag, const char* comment) {
    const std::uint16_t half = reference::binary16_from_binary32(pattern);
    cases.push_back({{"id", cases.size() + 1}, {"comment", comment}, {"flags", {flag}}, {"binary32", fmt::format("{:08x}", pattern)},
                     {"result", {{"binary16", fmt::format("{:04x}", half)}, {"back", fmt::format("{:08x}", reference::binary32_from_binary16(half))}}}});
  };
  for (std::uint32_t half = 0; half < 0x7C00; half += 1021) {  // a number, the tie above it, and the tie's neighbours
    const std::uint32_t low = reference::binary32_from_binary16(static_cast<std::uint16_t>(half));
    const std::uint32_t high = reference::binary32_from_binary16(static_cast<std::uint16_t>(half + 1));
    const bool carry = (half & 0x3FFU) == 0x3FFU;
    add(low, half < 0x400 ? "Subnormal" : "Plain", "a binary16 number");
    const float middle = (std::bit_cast<float>(low) + std::bit_cast<float>(high)) / 2;
    for (int step : {-1, 0, 1}) {
      const auto near = static_cast<std::uint32_t>(static_cast<std::int64_t>(bits(middle)) + step);
      add(near, step == 0 ? "Tie" : carry ? "Carry" : half < 0x400 ? "Subnormal" : "Plain", step == 0 ? "halfway" : "beside the halfway point");
      add(near | 0x80000000U, step == 0 ? "Tie" : carry ? "Carry" : half < 0x400 ? "Subnormal" : "Plain", "the same, negative");
    }
  }
  for (float x : {1.9999911F, -1.9999911F, 3.9999F, 0.99999F}) add(bits(x), "Carry", "into the next binade");
  for (float x : {65504.0F, 65519.996F, 65520.0F, 1.0e5F, 3.0e38F, -65520.0F}) add(bits(x), "Overflow", "about the largest finite number");
  for (std::uint32_t nan : {0x7FC00000U, 0x7F800001U, 0xFFA00001U, 0x7F801FFFU, 0xFF802000U}) add(nan, "NaN", "not a number");
  return {{"vectors", "kvcert binary16"}, {"format", 1}, {"schema", "docs/schemas/vectors.json"}, {"notes", notes_json(binary16_notes)},
          {"cases", cases.size()}, {"groups", {{{"cases", std::move(cases)}}}}};
}

class Checker {
 public:
  Checker(std::string file, VectorsReport& report) : file_(std::move(file)), report_(report) {}

  void run(const json& file) {
    const std::string what = file.at("vectors");
    if (what != "kvcert attention" && what != "kvcert binary16") throw std::runtime_error(fmt::format("\"vectors\" is \"{}\"", what));
    for (const json& group : file.at("groups")) {
      for (const json& entry : group.at("cases")) {
        ++report_.cases;
        id_ = entry.at("id").dump();
        try {
          lint(file, entry);
          if (what == "kvcert attention") attention(group, entry);
          else binary16(entry);
        } catch (const std::exception& problem) {
          fault(problem.what());
        }
      }
    }
    id_ = "all";
    if (report_.cases == 0) fault("there is no case");
    if (file.at("cases") != report_.cases) fault(fmt::format("\"cases\" is {}, and there are {}", file.at("cases").dump(), report_.cases));
    for (const auto& [flag, note] : file.at("notes").items()) {
      if (!used_.contains(flag)) fault(fmt::format("the note \"{}\" has no case", flag));
    }
  }

 private:
  void fault(const std::string& sentence) {
    if (report_.faults.size() < 20) report_.faults.push_back(fmt::format("{} case {}: {}", file_, id_, sentence));
  }

  void lint(const json& file, const json& entry) {
    if (!ids_.insert(id_).second) fault("the id is used twice");
    if (entry.at("comment").get<std::string>().empty()) fault("there is no comment");
    for (const json& flag : entry.at("flags")) {
      used_.insert(flag.get<std::string>());
      if (!file.at("notes").contains(flag.get<std::string>())) fault(fmt::format("the flag {} has no note", flag.dump()));
    }
  }

  static Question question(const json& group, const json& entry) {
    Question question;
    const auto tensor = [&](const json& object, const char* field, std::size_t size) {
      return tensor_from_hex(object.at(field).get<std::string>(), Precision::f32, field, size);
    };
    question.head_dim = count_from(group, "head_dim", 1, 4096);
    question.rows = count_from(entry, "rows", 0, 1U << 16U);
    const std::size_t heads = count_from(group, "query_heads", 1, 256);
    question.first = count_from(entry, "first", 0, max_count);
    question.upto = count_from(entry, "upto", 0, max_count);
    question.scale = tensor(group, "scale", 1).front();
    question.softcap = tensor(group, "softcap", 1).front();
    question.q = tensor(entry, "q", heads * question.head_dim);
    question.k = tensor(entry, "k", question.rows * question.head_dim);
    question.v = tensor(entry, "v", question.rows * question.head_dim);
    question.sinks = tensor(entry, "sinks", entry.at("sinks").get<std::string>().empty() ? 0 : heads);
    return question;
  }

  void attention(const json& group, const json& entry) {
    const Question asked = question(group, entry);
    const auto canonical = tensor_from_hex(entry.at("result").at("canonical").get<std::string>(), Precision::f32, "canonical", asked.q.size());
    const auto expect = [&](const std::string& who, std::span<const float> got, std::span<const float> expected) {
      if (const auto found = difference("out", got, expected)) fault(fmt::format("{}: {}", who, *found));
    };
    expect("reference", reference::canonical_attend_group(asked.query(), asked.k, asked.v, asked.head_dim, asked.upto).output, canonical);
    const auto exact = reference::exact_attend_group(asked.query(), asked.k, asked.v, asked.head_dim, asked.upto);
    const json& stated = entry.at("result").at("exact");
    if (exact.has_value() == stated.is_null()) fault("whether there is an exact value differs");
    if (exact && stated.is_string()) expect("exact mode", exact->output, tensor_from_hex(stated.get<std::string>(), Precision::f32, "exact", asked.q.size()));
    for (auto isa : optimized::available_isas()) {
      auto layer = must(OptimizedEngine{isa}.make({1, asked.head_dim}), "create");
      must(layer.append_chunk(asked.k, asked.v, asked.rows, {}), "append_chunk");
      expect(std::string(optimized::name(isa)), ask(layer, asked.query(), asked.upto, {}).out, canonical);
    }
  }

  static std::uint32_t pattern_from(const json& object, const char* field, std::size_t digits) {
    const auto& text = object.at(field).get_ref<const std::string&>();
    std::uint32_t pattern = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), pattern, 16);
    if (text.size() != digits || fault != std::errc{} || end != text.data() + digits) {
      throw std::runtime_error(fmt::format("\"{}\" is \"{}\", expected {} hex digits", field, text, digits));
    }
    return pattern;
  }

  void binary16(const json& entry) {
    const std::uint32_t pattern = pattern_from(entry, "binary32", 8);
    const auto half = static_cast<std::uint16_t>(pattern_from(entry.at("result"), "binary16", 4));
    const std::uint32_t back = pattern_from(entry.at("result"), "back", 8);
    if (reference::binary16_from_binary32(pattern) != half) fault(fmt::format("the reference gives {:04x}, not {:04x}", reference::binary16_from_binary32(pattern), half));
    if (optimized::to_binary16(pattern) != half) fault(fmt::format("the optimized codec gives {:04x}, not {:04x}", optimized::to_binary16(pattern), half));
    if (reference::binary32_from_binary16(half) != back) fault(fmt::format("the reference reads {:08x}, not {:08x}", reference::binary32_from_binary16(half), back));
    if (optimized::from_binary16(half) != back) fault(fmt::format("the optimized codec reads {:08x}, not {:08x}", optimized::from_binary16(half), back));
  }

  std::string file_, id_;
  VectorsReport& report_;
  std::set<std::string> ids_, used_;
};

}  // namespace

std::vector<std::pair<std::string, json>> make_vectors() { return {{"attention.json", attention_file()}, {"binary16.json", binary16_file()}}; }

VectorsReport check_vectors(const std::string& file_name, const json& file) {
  VectorsReport report;
  try {
    Checker(file_name, report).run(file);
  } catch (const std::exception& problem) {
    report.faults.push_back(fmt::format("{} is no file of vectors: {}", file_name, problem.what()));
  }
  return report;
}

}  // namespace kvcert::certify
