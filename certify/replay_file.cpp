#include "certify/replay_file.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "certify/json_count.hpp"

namespace kvcert::certify {

ReplayFile replay_file_from_json(const nlohmann::json& json) {
  const std::uint64_t index = count_from(json, "index", 0, std::numeric_limits<std::uint64_t>::max());
  return {json.at("engine"), json.at("group"), json.at("check"), index, test_case_from_json(json.at("case"))};
}

}  // namespace kvcert::certify
