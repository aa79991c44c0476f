// Known-answer vectors for people who only want files: questions with the exact value and the canonical bits.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kvcert::certify {

/// The files of corpus/vectors/, by name: attention.json, binary16.json.
std::vector<std::pair<std::string, nlohmann::json>> make_vectors();

struct VectorsReport {
  std::size_t cases = 0;
  std::vector<std::string> faults;  ///< at most 20, each naming file, case and values
};
/// Holds one file against the reference, the exact mode and the optimized cache on every ISA of this machine, and looks for what
/// makes vectors hard to use: ids that repeat, flags without a note, notes without a case, sizes that do not fit.
VectorsReport check_vectors(const std::string& file_name, const nlohmann::json& file);

}  // namespace kvcert::certify
