// The file that `kvcert certify` writes for a finding and `kvcert replay` reads.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "certify/test_case.hpp"

namespace kvcert::certify {

struct ReplayFile {
  std::string engine, group, check;
  std::uint64_t index = 0;
  TestCase test;
};

/// Throws std::exception with a sentence for a person if the object is no such file.
ReplayFile replay_file_from_json(const nlohmann::json& json);

}  // namespace kvcert::certify
