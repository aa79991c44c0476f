// A case for anybody's engine: what is done with it, step by step. One line of JSON; the schema is docs/schemas/case.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "certify/foreign/precision.hpp"

namespace kvcert::certify {

enum class EngineOp : std::uint8_t {
  create, append, attend, forward, length,
  truncate, clear, snapshot, restore, export_state, import_state,
  accumulate, importance, evict_recent, evict_by_mass,
  commit, draft, accept, discard, state,
};
inline constexpr std::size_t engine_op_count = static_cast<std::size_t>(EngineOp::state) + 1;
const char* name(EngineOp op);

/// What one layer of the case is; engine.h says what the members mean.
struct EngineLayer {
  std::size_t kv_heads = 1, head_dim = 1, query_heads = 1, window = 0;
  float scale = 1, softcap = 0;
  std::vector<float> sinks;  ///< empty or [query_heads]
  std::uint32_t layer = 0;
  std::uint64_t identity = 0;

  std::size_t row_floats() const { return kv_heads * head_dim; }
  std::size_t query_floats() const { return query_heads * head_dim; }
};

struct EngineStep {
  EngineOp op{};
  std::size_t on = 0;  ///< which of the case's layers
  EngineLayer layer;   ///< create
  std::size_t n = 0;   ///< positions: append, attend, forward, truncate, commit; evict_*: how many to keep
  std::size_t from = 0;               ///< attend: the first position
  std::size_t sink = 0, recent = 0;   ///< evict_by_mass
  std::size_t slot = 0;               ///< snapshot, restore, export, import
  std::size_t cut = 0;                ///< import: so many bytes are missing at the end of the record
  std::vector<float> k, v, q;         ///< [n × row_floats], [n × query_floats]
  std::vector<float> numbers;         ///< accumulate: masses; commit, draft: the vector
};

struct EngineCase {
  std::string id, check;  ///< check: what the case is about, and what is at fault when it fails
  std::string about;      ///< one sentence for a person
  Precision type = Precision::f32;  ///< of the tensors in its JSON: f32, f16, bf16
  /// The numbers that the case's last attend must give, one per position and query head, the same in every channel; empty where there is
  /// no closed form. The judge does not use them: they are for readers, and the tests hold the judge against them.
  std::vector<double> closed_form;
  std::vector<EngineStep> steps;
};

nlohmann::json to_json(const EngineCase& test);
/// Throws std::runtime_error with a sentence that names the values at fault.
EngineCase engine_case_from_json(const nlohmann::json& json);

}  // namespace kvcert::certify
