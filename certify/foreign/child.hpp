// A process that answers cases, watched: what it says, what it takes, and how it ends.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace kvcert::certify {

struct ChildLimits {
  double seconds = 10;               ///< for one case
  std::size_t megabytes = 2048;      ///< resident; 0 = no limit
};

class Child {
 public:
  explicit Child(std::vector<std::string> command) : command_(std::move(command)) {}
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  struct Line {
    std::optional<std::string> text;
    std::string fault;  ///< where there is no line: "it crashed: ...", "it answered nothing for 10 s"
    bool hung = false;
  };
  /// Starts the process where there is none; the sentence of a failure, or nothing.
  std::string start();
  bool running() const { return pid_ > 0; }
  /// Sends a line (none: sends nothing) and waits for one.
  Line ask(const std::string* line, const ChildLimits& limits);
  /// What a sanitizer has written since the last call, or nothing.
  std::string sanitizer_report();
  void end();

 private:
  std::string death();
  void read_errors();
  std::size_t resident_megabytes() const;

  std::vector<std::string> command_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string buffered_, errors_;
};

}  // namespace kvcert::certify
