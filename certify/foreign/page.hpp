// The certificate as one page of HTML that needs nothing else: no network, no script.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kvcert::certify {

/// `certificate`: the JSON of an EngineReport.
std::string page(const nlohmann::json& certificate);

}  // namespace kvcert::certify
