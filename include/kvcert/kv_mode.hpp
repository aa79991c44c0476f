// The storage that a user asks for in the environment. No layer reads it: a caller does, and passes the answer to create.
#pragma once

#include <cstdlib>
#include <string_view>

#include "kvcert/geometry.hpp"

namespace kvcert {

/// q8 and q8_2f: keys and values; q8k: keys only; q8v: values only; anything else, nothing included: f32.
constexpr KvMode kv_mode_from(std::string_view name) {
  if (name == "q8" || name == "q8_2f") return KvMode::q8;
  if (name == "q8k") return KvMode::q8_keys;
  if (name == "q8v") return KvMode::q8_values;
  return KvMode::f32;
}

/// What the environment variable CMF_KV names. As std::getenv, not to be called while another thread changes the environment.
inline KvMode kv_mode_from_env() {
  const char* set = std::getenv("CMF_KV");
  return set == nullptr ? KvMode::f32 : kv_mode_from(set);
}

}  // namespace kvcert
