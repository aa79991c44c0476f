// What an engine answered to a case: one line of JSON; the schema is docs/schemas/answer.json.
#pragma once

#include <cstdint>
#include <map>
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

/// What the calls of one kind took, inside the library.
struct CallTime {
  std::uint64_t calls = 0;
  std::uint64_t count = 0;    ///< attend, forward: queries, one per position and query head; append: rows of a KV head
  std::uint64_t visible = 0;  ///< rows that those queries saw
  std::uint64_t nanoseconds = 0;
  void add(const CallTime& other);
};

struct EngineAnswer {
  std::string id;
  Precision type = Precision::f32;  ///< of the numbers, as they were sent
  std::vector<StepAnswer> steps;
  /// What the library did to the floating-point environment, as the plug-in host saw it; empty: nothing.
  std::string environment;
  /// By operation, as the plug-in host measured them.
  std::map<std::string, CallTime> times;
};

nlohmann::json to_json(const EngineAnswer& answer);
/// Throws std::runtime_error with a sentence for a person.
EngineAnswer answer_from_json(const nlohmann::json& json);

}  // namespace kvcert::certify
