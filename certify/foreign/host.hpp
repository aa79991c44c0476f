// The child process that loads a shared library and answers cases: JSON lines in, JSON lines out.
#pragma once

#include <cstddef>
#include <string>

namespace kvcert::certify {

struct HostOptions {
  std::string library;
  std::string option;  ///< passed to kvcert_engine_v1
  std::size_t variant = 0;
};
/// Writes {"engine": declaration}, then one answer per case until the input ends. 2 if the library cannot be used.
int run_host(const HostOptions& options);

}  // namespace kvcert::certify
