// What an engine answered to a case: one line of JSON; the schema is docs/schemas/answer.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "certify/foreign/precision.hpp"

namespace kvcert::certify {

enum class Status : std::uint8_t { ok, unsupported, refused, failed };

struct StepAnswer {
  Status status = Status::ok;
  std::optional<std::vector<float>> numbers;  ///< attend, forward, importance, state
  std::optional<std::uint64_t> count;         ///< length, evict_*
  std::string text;                           ///< failed: what happened
};

struct EngineAnswer {
  std::string id;
  Precision type = Precision::f32;  ///< of the numbers, as they were sent
  std::vector<StepAnswer> steps;
  /// What the library did to the floating-point environment, as the plug-in host saw it; empty: nothing.
  std::string environment;
};

nlohmann::json to_json(const EngineAnswer& answer);
/// Throws std::runtime_error with a sentence for a person.
EngineAnswer answer_from_json(const nlohmann::json& json);

}  // namespace kvcert::certify
