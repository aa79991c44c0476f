// Digests of all results of a function, committed: what is the same for every ISA, compiler and machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace kvcert::exhaustive {

/// FNV-1a over words. Results are digested in chunks of 2^18 arguments, ascending as bit patterns, and then the digests of
/// the chunks.
class Digest {
 public:
  void add(std::uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3; }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

template <class Word>
std::uint64_t digest_of(const Word* words, std::size_t n) {
  Digest digest;
  for (std::size_t i = 0; i < n; ++i) digest.add(words[i]);
  return digest.value();
}

/// What digests.inc says of `name`, 0 where it says nothing.
inline std::uint64_t committed_digest(std::string_view name) {
  constexpr std::pair<std::string_view, std::uint64_t> committed[] = {
#include "proofs/exhaustive/digests.inc"
  };
  for (const auto& [other, digest] : committed) {
    if (other == name) return digest;
  }
  return 0;
}

/// Prints a digest beside the committed one; whether they are the same.
inline bool report_digest(std::string_view who, const char* name, std::uint64_t digest) {
  const std::uint64_t committed = committed_digest(name);
  std::printf("  %-6.*s digest of all results %016llx, committed %016llx%s\n", static_cast<int>(who.size()), who.data(),
              static_cast<unsigned long long>(digest), static_cast<unsigned long long>(committed),
              digest == committed ? "" : ": DIFFERENT");
  return digest == committed;
}

}  // namespace kvcert::exhaustive
