// The kvcert binary: a command line over certify/.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "certify/build_info.hpp"
#include "certify/commands.hpp"

namespace {

void wire_options(CLI::App* command, kvcert::certify::WireOptions& options) {
  command->add_option("FILE", options.file, "a record")->required();
  command->add_flag("--json", options.json, "answer for programs");
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace kvcert::certify;
  CLI::App app{"kvcert: a KV cache that can be read, one that can be shipped, and what holds the one against the other"};
  app.name("kvcert");
  app.set_version_flag("--version", build::version);
  app.require_subcommand(1);

  CertifyOptions certify;
  auto* certify_command = app.add_subcommand("certify", "run every check on the built-in cache, for each ISA of this machine");
  certify_command->add_option("--json", certify.json_file, "write the certificate here");
  certify_command->add_option("--isa", certify.isa, "only this ISA (scalar, avx2, avx512, neon); KVCERT_ISA has no say here");
  certify_command->add_option("--seed", certify.seed, "seed of all cases")->check(CLI::NonNegativeNumber)->capture_default_str();
  certify_command->add_option("--percent", certify.percent, "share of the standard number of cases, 1 to 10000")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  certify_command->add_option("--findings", certify.findings, "folder for the smallest failing cases")->capture_default_str();
  certify_command->footer("Example: kvcert certify --json certificate.json\nExit status: 0 if everything holds, 1 if not, 2 for a bad call.");

  std::string finding;
  auto* replay_command = app.add_subcommand("replay", "run one finding again and explain it");
  replay_command->add_option("FILE", finding, "a file that certify wrote")->required();
  replay_command->footer("Example: kvcert replay kvcert-findings/avx2-law-5-rollback.json");

  WireOptions show;
  WireOptions check;
  auto* wire_command = app.add_subcommand("wire", "look at state records");
  wire_command->require_subcommand(1);
  auto* show_command = wire_command->add_subcommand("show", "print every field of a record with its offset");
  wire_options(show_command, show);
  show_command->footer("Example: kvcert wire show corpus/wire/peer/full-f32.cmfs");
  auto* check_command = wire_command->add_subcommand("check", "ask both decoders whether a layer takes a record");
  wire_options(check_command, check);
  check_command->add_option("--kv-heads", check.kv_heads, "the layer's KV heads (default: as the record says)");
  check_command->add_option("--head-dim", check.head_dim, "the layer's head_dim (default: as the record says)");
  check_command->add_option("--layer", check.layer, "the layer's index (default: as the record says)")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{0xFFFFFFFF}));
  check_command->add_option("--identity", check.identity, "the model's identity (default: as the record says)");
  check_command->add_flag("--refuse-unversioned", check.refuse_unversioned, "the layer takes no records without a header");
  check_command->footer("Example: kvcert wire check --layer 3 state.cmfs\nExit status: 0 accepted, 1 refused, 2 unreadable.");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    return app.exit(fault) == 0 ? 0 : 2;
  }
  const int status = *certify_command  ? run_certify(certify)
                     : *replay_command ? run_replay(finding)
                     : *show_command   ? run_wire_show(show)
                                       : run_wire_check(check);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {  // what nobody could read was no success
    std::fputs("kvcert: the answer could not be written\n", stderr);
    return 2;
  }
  return status;
} catch (const std::exception& fault) {
  std::fprintf(stderr, "kvcert: %s\n", fault.what());
  return 2;
}
