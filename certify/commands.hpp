// The subcommands of the kvcert binary. Each returns the process's exit status:
// 0 everything holds or is accepted, 1 something is wrong or refused, 2 the question itself was at fault.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace kvcert::certify {

struct CertifyOptions {
  std::string json_file, html_file;           ///< empty: no certificate is written
  std::string isa;                            ///< empty: every ISA this machine has
  std::uint64_t seed = 1;
  unsigned percent = 100;                     ///< of the standard number of cases
  std::string findings = "kvcert-findings";  ///< where the smallest failing cases go
};
int run_certify(const CertifyOptions& options);

/// Which cases engines of other makes are asked.
struct SuiteOptions {
  std::string suite = "standard";  ///< quick, standard, or one check
  std::string geometry;            ///< "8x128"; empty: several
  std::size_t fanout = 1;
  std::size_t count = 0;           ///< of every check; 0: the suite's own number
  std::uint64_t seed = 1;
  std::string type = "f32";        ///< of tensors: f32, f16, bf16
};
struct ReportFiles {
  std::string json, html;  ///< empty: not written
};
struct EngineOptions {
  std::string library, program, option;
  SuiteOptions suite;
  double seconds = 10;
  std::size_t megabytes = 2048;
  std::string findings = "kvcert-findings";
  ReportFiles files;
};
/// Every case of a suite, put to an engine in a child process. Throws std::runtime_error for a bad call.
int run_certify_engine(const EngineOptions& options);
/// The suite's cases on standard output, one JSON object a line.
int run_gen(const SuiteOptions& options);
/// Answers on standard input against a file of cases.
int run_judge(const std::string& cases, const std::string& findings, const ReportFiles& files);

/// Runs the check that a finding's file names on the case it holds, and explains. `again`: asks a foreign engine anew.
int run_replay(const std::string& file, bool again);
int run_engine_replay(const std::string& path, const nlohmann::json& finding, bool again);

/// Runs again what a certificate says was run, and compares.
int run_verify(const std::string& certificate);
/// The files of known answers: written to a folder, and held against every engine of this build.
int run_vectors_make(const std::string& folder);
int run_vectors_check(const std::string& folder);

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
