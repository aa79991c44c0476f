// The certificate of the built-in cache as one page of HTML that needs nothing else: no network, no script.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kvcert::certify {

/// `certificate`: the JSON of a Certificate.
std::string builtin_page(const nlohmann::json& certificate);

}  // namespace kvcert::certify
