// The files that a certificate goes to.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>

namespace kvcert::certify {

/// Whether all of them can be written, asked before minutes of work; says which cannot. Empty paths are not asked for.
inline bool can_write(std::initializer_list<std::string> paths) {
  for (const std::string& path : paths) {
    if (path.empty() || std::ofstream(path, std::ios::app)) continue;
    fmt::print(stderr, "kvcert: cannot write {}\n", path);
    return false;
  }
  return true;
}

/// Writes the text and says so; nothing for an empty path.
inline bool write_text(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  std::ofstream file(path);
  file << text << "\n";
  if (!file.flush()) {
    fmt::print(stderr, "kvcert: cannot write {}\n", path);
    return false;
  }
  fmt::print("written   {}\n", path);
  return true;
}

}  // namespace kvcert::certify
