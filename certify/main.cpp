// The kvcert binary: a command line over certify/.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "certify/build_info.hpp"
#include "certify/commands.hpp"
#include "certify/foreign/host.hpp"

namespace {

void suite_options(CLI::App* command, kvcert::certify::SuiteOptions& options) {
  command->add_option("--suite", options.suite, "quick, standard, or the name of one check")->capture_default_str();
  command->add_option("--geometry", options.geometry, "KV heads x head_dim, as in 8x128 (default: several)");
  command->add_option("--fanout", options.fanout, "query heads per KV head, with --geometry")->check(CLI::Range(1, 64))->capture_default_str();
  command->add_option("--count", options.count, "so many cases of every check (default: the suite's own number)");
  command->add_option("--seed", options.seed, "seed of all cases")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--type", options.type, "numbers that fit, and travel as: f32, f16, bf16")->check(CLI::IsMember({"f32", "f16", "bf16"}))->capture_default_str();
}

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
  app.footer("Example: kvcert certify --engine ./mine.so --suite quick --html certificate.html\nkvcert COMMAND --help says more, with an example.");

  CertifyOptions certify;
  auto* certify_command = app.add_subcommand("certify", "run every check on the built-in cache, for each ISA of this machine");
  certify_command->add_option("--json", certify.json_file, "write the certificate here");
  certify_command->add_option("--isa", certify.isa, "only this ISA (scalar, avx2, avx512, neon); KVCERT_ISA has no say here");
  certify_command->add_option("--seed", certify.seed, "seed of all cases")->check(CLI::NonNegativeNumber)->capture_default_str();
  certify_command->add_option("--percent", certify.percent, "share of the standard number of cases, 1 to 10000")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  certify_command->add_option("--findings", certify.findings, "folder for the smallest failing cases")->capture_default_str();
  certify_command->footer("Example: kvcert certify --json certificate.json --html certificate.html\nExample: kvcert certify --engine ./mine.so --suite quick\nExit status: 0 if everything holds, 1 if not, 2 for a bad call.");

  EngineOptions engine;
  certify_command->add_option("--engine", engine.library, "instead: a shared library with the interface of kvcert/engine.h");
  certify_command->add_option("--program", engine.program, "instead: a program that answers cases line by line, for /bin/sh");
  certify_command->add_option("--option", engine.option, "passed to the library's kvcert_engine_v1");
  certify_command->add_option("--seconds", engine.seconds, "a case that takes an engine longer is a finding")->check(CLI::Range(0.01, 3600.0))->capture_default_str();
  certify_command->add_option("--memory", engine.megabytes, "an engine that takes more megabytes is a finding; 0 = no limit")->capture_default_str();
  certify_command->add_option("--html", engine.files.html, "write the certificate as a page here, for a browser");
  auto* engine_suite = certify_command->add_option_group("cases", "for --engine and --program");
  engine_suite->add_option("--suite", engine.suite.suite, "quick, standard, or the name of one check")->capture_default_str();
  engine_suite->add_option("--geometry", engine.suite.geometry, "KV heads x head_dim, as in 8x128 (default: several)");
  engine_suite->add_option("--fanout", engine.suite.fanout, "query heads per KV head, with --geometry")->check(CLI::Range(1, 64))->capture_default_str();
  engine_suite->add_option("--count", engine.suite.count, "so many cases of every check");

  SuiteOptions gen;
  auto* gen_command = app.add_subcommand("gen", "write cases for an engine of any make, one JSON object a line");
  suite_options(gen_command, gen);
  gen_command->footer("Example: kvcert gen --suite quick --geometry 8x128 --fanout 4 > cases.jsonl");

  std::string cases;
  std::string judge_findings = "kvcert-findings";
  ReportFiles judge_files;
  auto* judge_command = app.add_subcommand("judge", "judge an engine's answers, read from standard input");
  judge_command->add_option("CASES", cases, "the file that gen wrote")->required();
  judge_command->add_option("--json", judge_files.json, "write the certificate here");
  judge_command->add_option("--html", judge_files.html, "write the certificate as a page here");
  judge_command->add_option("--findings", judge_findings, "folder for the first wrong case of each check")->capture_default_str();
  judge_command->footer("Example: ./my_engine < cases.jsonl | kvcert judge cases.jsonl\nExit status: 0 if everything holds, 1 if not, 2 for a bad call.");

  std::string certificate;
  auto* verify_command = app.add_subcommand("verify", "run again what a certificate says was run, and compare");
  verify_command->add_option("FILE", certificate, "a certificate that certify wrote with --json")->required();
  verify_command->footer("Example: kvcert verify certificate.json\nExit status: 0 the same, 1 not the same, 2 it cannot be run again.");

  std::string vectors_folder = "corpus/vectors";
  auto* vectors_command = app.add_subcommand("vectors", "files of known answers");
  vectors_command->require_subcommand(1);
  auto* vectors_make = vectors_command->add_subcommand("make", "write them");
  vectors_make->add_option("DIR", vectors_folder, "a folder")->required();
  vectors_make->footer("Example: kvcert vectors make corpus/vectors");
  auto* vectors_check = vectors_command->add_subcommand("check", "hold them against the reference, the exact mode and the optimized cache");
  vectors_check->add_option("DIR", vectors_folder, "a folder")->required();
  vectors_check->footer("Example: kvcert vectors check corpus/vectors\nExit status: 0 all as stated, 1 not, 2 unreadable.");
  vectors_command->footer("Example: kvcert vectors check corpus/vectors");

  HostOptions host;
  auto* host_command = app.add_subcommand("engine-host", "");
  host_command->group("");  // for this program's own use
  host_command->add_option("--engine", host.library)->required();
  host_command->add_option("--option", host.option);
  host_command->add_option("--variant", host.variant);

  std::string finding;
  auto* replay_command = app.add_subcommand("replay", "run one finding again and explain it");
  replay_command->add_option("FILE", finding, "a file that certify or judge wrote")->required();
  bool again = false;
  replay_command->add_flag("--again", again, "ask an engine of another make anew, instead of showing its recorded answers");
  replay_command->footer("Example: kvcert replay kvcert-findings/avx2-law-5-rollback.json");

  WireOptions show;
  WireOptions check;
  auto* wire_command = app.add_subcommand("wire", "look at state records");
  wire_command->require_subcommand(1);
  wire_command->footer("Example: kvcert wire show corpus/wire/peer/full-f32.cmfs");
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
  engine.suite.seed = certify.seed;
  engine.findings = certify.findings;
  engine.files.json = certify.json_file;
  certify.html_file = engine.files.html;
  const bool foreign = !engine.library.empty() || !engine.program.empty();
  const int status = *certify_command && foreign ? run_certify_engine(engine)
                     : *certify_command          ? run_certify(certify)
                     : *gen_command    ? run_gen(gen)
                     : *judge_command  ? run_judge(cases, judge_findings, judge_files)
                     : *host_command   ? run_host(host)
                     : *verify_command ? run_verify(certificate)
                     : *vectors_make   ? run_vectors_make(vectors_folder)
                     : *vectors_check  ? run_vectors_check(vectors_folder)
                     : *replay_command ? run_replay(finding, again)
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
