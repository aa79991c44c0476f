// A file that lies nowhere, for readers that want a path; and a terminal that stays quiet meanwhile.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kvcert::fuzz {

class ScratchFile {
 public:
  explicit ScratchFile(std::string_view content) : file_(memfd_create("kvcert fuzz", MFD_CLOEXEC)) {
    if (file_ < 0) throw std::runtime_error("no memory for a file");
    for (std::string_view rest = content; !rest.empty();) {
      const auto written = write(file_, rest.data(), rest.size());
      if (written <= 0) throw std::runtime_error("a file in memory could not be written");
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  ~ScratchFile() { close(file_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

/// What goes to the C library's stderr goes nowhere. A sanitizer's report does not go that way, and stays.
class QuietStderr {
 public:
  QuietStderr() : kept_(stderr) {
    static std::FILE* nowhere = std::fopen("/dev/null", "w");
    if (nowhere != nullptr) stderr = nowhere;
  }
  ~QuietStderr() { stderr = kept_; }
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;

 private:
  std::FILE* kept_;
};

}  // namespace kvcert::fuzz
