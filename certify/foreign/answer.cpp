#include "certify/foreign/answer.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "certify/foreign/tensor_text.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

json step_json(const StepAnswer& step, Precision type) {
  switch (step.status) {
    case Status::unsupported: return "unsupported";
    case Status::refused: return "refused";
    case Status::failed: return {{"failed", step.text}};
    case Status::ok: break;
  }
  if (step.numbers) return {{"out", tensor_hex(*step.numbers, type)}};
  if (step.count) return {{"count", *step.count}};
  return "ok";
}

StepAnswer step_from(const json& value, Precision type) {
  if (value == "ok") return {};
  if (value == "unsupported") return {.status = Status::unsupported, .numbers = {}, .count = {}, .text = {}};
  if (value == "refused") return {.status = Status::refused, .numbers = {}, .count = {}, .text = {}};
  StepAnswer step;
  if (value.is_object() && value.size() == 1) {
    if (value.contains("out") && value.at("out").is_string()) {
      const auto& text = value.at("out").get_ref<const std::string&>();
      step.numbers = tensor_from_hex(text, type, "out", text.size() / (type == Precision::f32 ? 8 : 4));
      return step;
    }
    if (value.contains("count") && value.at("count").is_number_unsigned()) {
      step.count = value.at("count").get<std::uint64_t>();
      return step;
    }
    if (value.contains("failed") && value.at("failed").is_string()) {
      step.status = Status::failed;
      step.text = value.at("failed");
      return step;
    }
  }
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  throw std::runtime_error(fmt::format("{} is no answer to a step: \"ok\", \"unsupported\", \"refused\", {{\"out\": hex}}, "
                                       "{{\"count\": n}} or {{\"failed\": why}}", text));
}

}  // namespace

void CallTime::add(const CallTime& other) {
  calls += other.calls;
  count += other.count;
  visible += other.visible;
  nanoseconds += other.nanoseconds;
}

json to_json(const EngineAnswer& answer) {
  json steps = json::array();
  for (const StepAnswer& step : answer.steps) steps.push_back(step_json(step, answer.type));
  json object{{"id", answer.id}, {"steps", std::move(steps)}};
  if (answer.type != Precision::f32) object["type"] = name(answer.type);
  if (!answer.environment.empty()) object["environment"] = answer.environment;
  for (const auto& [op, t] : answer.times) object["times"][op] = {t.calls, t.count, t.visible, t.nanoseconds};
  return object;
}

EngineAnswer answer_from_json(const json& object) try {
  if (!object.is_object()) throw std::runtime_error("an answer is a JSON object");
  EngineAnswer answer;
  if (!object.contains("id") || !object.at("id").is_string()) throw std::runtime_error("it has no \"id\" that is a string");
  answer.id = object.at("id");
  const json type = object.value("type", json("f32"));
  if (type == "f16") answer.type = Precision::f16;
  else if (type == "bf16") answer.type = Precision::bf16;
  else if (type != "f32") throw std::runtime_error(fmt::format("\"type\" is {}, expected f32, f16 or bf16", type.dump()));
  if (!object.contains("steps") || !object.at("steps").is_array()) throw std::runtime_error("it has no array \"steps\"");
  std::size_t at = 0;
  for (const json& step : object.at("steps")) {
    ++at;
    try {
      answer.steps.push_back(step_from(step, answer.type));
    } catch (const std::exception& fault) {
      throw std::runtime_error(fmt::format("step {}: {}", at, fault.what()));
    }
  }
  answer.environment = object.value("environment", "");
  const json times = object.value("times", json::object());
  for (const auto& [op, t] : times.items()) answer.times[op] = {t.at(0), t.at(1), t.at(2), t.at(3)};
  return answer;
} catch (const json::exception& fault) {
  throw std::runtime_error(fmt::format("not an answer: {}", fault.what()));
}

}  // namespace kvcert::certify
