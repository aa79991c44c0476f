// What a run of `kvcert certify` leaves behind: a table for people, a JSON certificate for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "certify/checks.hpp"
#include "certify/throughput.hpp"

namespace kvcert::certify {

/// One engine's checks and how they ended.
struct Section {
  std::string engine;  ///< "exact mode and judge", "scalar", "avx2", "avx512", "neon"
  std::vector<Check> checks;
  std::vector<Finding> findings;
  Tally tally;
  std::uint64_t digest = 0;    ///< of all outputs of law 13
  bool has_outputs = false;    ///< whether there was anything to digest
  std::uint64_t kernel_calls = 0;
  std::vector<Throughput> throughput;
};

struct Certificate {
  std::uint64_t seed = 0;
  unsigned percent = 100;
  double seconds = 0;
  std::vector<Section> sections;

  std::uint64_t count(Judgement verdict) const;
  std::uint64_t cases() const;
  /// All outputs of all engines had the same digest; true for one engine, which has nothing to differ from.
  bool digests_agree() const;
  /// Nothing wrong, nothing left unjudged, and every engine the same bits.
  bool holds() const;
};

/// SHA-1 of the running program's file, in hex; "unknown" where the file cannot be read.
std::string subject_hash();
/// What a certificate of this version does not speak about, one sentence each.
std::vector<std::string> not_covered();

/// The certificate's JSON. Field meanings: docs/certificate.md.
nlohmann::json to_json(const Certificate& certificate);

/// The table's head, one line of it, and the closing lines. `color`: with terminal colours; the line is cut to `columns`.
std::string table_head(std::size_t columns);
std::string table_line(const Check& check, const Finding& finding, bool color, std::size_t columns);
std::string summary(const Certificate& certificate, bool color);

}  // namespace kvcert::certify
