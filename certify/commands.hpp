// The subcommands of the kvcert binary. Each returns the process's exit status:
// 0 everything holds or is accepted, 1 something is wrong or refused, 2 the question itself was at fault.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kvcert::certify {

struct CertifyOptions {
  std::string json_file;                      ///< empty: no certificate is written
  std::string isa;                            ///< empty: every ISA this machine has
  std::uint64_t seed = 1;
  unsigned percent = 100;                     ///< of the standard number of cases
  std::string findings = "kvcert-findings";  ///< where the smallest failing cases go
};
int run_certify(const CertifyOptions& options);

/// Runs the check that a finding's file names on the case it holds, and explains.
int run_replay(const std::string& file);

struct WireOptions {
  std::string file;
  bool json = false;
  // What the layer that should take the record is; unset: what the record says of itself.
  std::optional<std::uint64_t> kv_heads, head_dim, layer, identity;
  bool refuse_unversioned = false;
};
/// Every field of a record with its offset, as far as it can be read.
int run_wire_show(const WireOptions& options);
/// The verdict of both decoders, which must agree, and whether the record is written again to the same bytes.
int run_wire_check(const WireOptions& options);

}  // namespace kvcert::certify
