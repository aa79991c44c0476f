// The readers of what people hand to the binary, each with what it owes for any text: an answer, or an exception with a sentence;
// what is taken is well formed, and comes back when it is written.
#pragma once

#include <span>
#include <string_view>

namespace kvcert::fuzz {

struct Reader {
  const char* name;
  void (*read)(std::string_view text);
  /// It reads, and no more: memory within a multiple of the text. Those that judge or recalculate work on what they read.
  bool only_reads = true;
};

/// Every reader. A new one is one line in text_readers.cpp.
std::span<const Reader> all_readers();

}  // namespace kvcert::fuzz
