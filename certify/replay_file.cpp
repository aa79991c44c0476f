#include "certify/replay_file.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace kvcert::certify {

ReplayFile replay_file_from_json(const nlohmann::json& json) {
  const auto& index = json.at("index");
  // Asked first: the library would convert a fraction or a negative number into some other number.
  if (!index.is_number_unsigned()) throw std::runtime_error("\"index\" is " + index.dump() + ", expected a count");
  return {json.at("engine"), json.at("group"), json.at("check"), index, test_case_from_json(json.at("case"))};
}

}  // namespace kvcert::certify
