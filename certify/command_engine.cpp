// certify --engine, gen, judge, replay of their findings: engines of other makes.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "certify/commands.hpp"
#include "certify/foreign/answers_judge.hpp"
#include "certify/foreign/page.hpp"
#include "certify/foreign/runner.hpp"
#include "certify/report_files.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

/// Throws std::runtime_error.
Shape shape_from(const std::string& geometry, std::size_t fan_out) {
  Shape shape;
  std::size_t used = 0;
  const auto cross = geometry.find('x');
  try {
    shape.kv_heads = std::stoul(geometry.substr(0, cross), &used);
    if (used != cross) throw std::invalid_argument("");
    shape.head_dim = std::stoul(geometry.substr(cross + 1), &used);
    if (cross + 1 + used != geometry.size()) throw std::invalid_argument("");
  } catch (const std::exception&) {
    throw std::runtime_error(fmt::format("\"{}\" is no geometry: KV heads x head_dim, as in 8x128", geometry));
  }
  shape.fan_out = fan_out;
  shape.fixed = true;
  if (shape.kv_heads < 1 || shape.kv_heads > 256 || shape.head_dim < 1 || shape.head_dim > 4096) {
    throw std::runtime_error(fmt::format("the geometry {} is outside 1x1 to 256x4096", geometry));
  }
  return shape;
}

SuiteSpec spec_of(const SuiteOptions& options) {
  SuiteSpec spec;
  spec.suite = options.suite;
  spec.seed = options.seed;
  spec.count = options.count;
  if (!options.geometry.empty()) spec.shape = shape_from(options.geometry, options.fanout);
  if (options.type == "f16") spec.type = Precision::f16;
  if (options.type == "bf16") spec.type = Precision::bf16;
  return spec;
}

int finish(const EngineReport& report, const ReportFiles& files) {
  fmt::print("{}", report_text(report, isatty(STDOUT_FILENO) != 0));
  const json certificate = to_json(report);
  if (!write_text(files.json, certificate.dump(1, ' ', false, json::error_handler_t::replace))) return 2;
  if (!files.html.empty() && !write_text(files.html, page(certificate))) return 2;
  return report.holds() ? 0 : 1;
}

EngineSource source_of(const EngineOptions& options) {
  EngineSource source;
  source.library = options.library;
  source.option = options.option;
  source.program = options.program;
  source.limits = {.seconds = options.seconds, .megabytes = options.megabytes};
  // dlopen looks elsewhere for a name without a slash.
  if (!source.library.empty() && source.library.find('/') == std::string::npos) source.library = "./" + source.library;
  return source;
}

}  // namespace

int run_certify_engine(const EngineOptions& options) {
  const EngineSource source = source_of(options);
  const SuiteSpec spec = spec_of(options.suite);
  parts(spec);  // a suite that does not exist is said before anything is started
  if (!can_write({options.files.json, options.files.html})) return 2;
  EngineRunner runner(source);
  if (const std::string fault = runner.begin(); !fault.empty()) {
    fmt::print(stderr, "kvcert: {}\n", fault);
    return 2;
  }
  fmt::print("Certifying {}{}, suite {}, seed {}\n\n", source.library.empty() ? source.program : source.library,
             runner.declared().name == "unnamed" ? "" : fmt::format(" ({})", runner.declared().name), spec.suite, spec.seed);
  std::fflush(stdout);
  return finish(run_suite(runner, source, spec, options.findings), options.files);
}

int run_gen(const SuiteOptions& options) {
  const SuiteSpec spec = spec_of(options);
  for (const auto& part : parts(spec)) {
    for (std::size_t index = 0; index < part.cases; ++index) {
      const std::string line = to_json(suite_case(spec, *part.check, index)).dump() + "\n";
      if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) {
        fmt::print(stderr, "kvcert: the cases could not be written\n");
        return 2;
      }
    }
  }
  return 0;
}

int run_judge(const std::string& cases, const std::string& findings, const ReportFiles& files) {
  if (!can_write({files.json, files.html})) return 2;
  const auto begin = std::chrono::steady_clock::now();
  AnswersJudge judge(cases, findings);
  if (const std::string fault = judge.index(); !fault.empty()) {
    fmt::print(stderr, "kvcert: {}\n", fault);
    return 2;
  }
  std::ios::sync_with_stdio(false);
  EngineReport report({}, "answers on standard input to " + cases);
  report.suite.suite = "the cases of a file";
  judge.judge(std::cin, report);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return finish(report, files);
}

int run_engine_replay(const std::string& path, const json& finding, bool again) {
  const EngineCase test = engine_case_from_json(finding.at("case"));
  Declared declared = declared_from_json(finding.at("declared"));
  EngineTally tally;
  CaseVerdict verdict;
  fmt::print("{}  {}\n  {}\n", test.id, test.check, test.about);
  if (finding.contains("answer") && !again) {
    fmt::print("  the answers are those that {} holds{}\n", path, finding.contains("engine") ? "; --again asks the engine" : "");
    verdict = judge_case(test, answer_from_json(finding.at("answer")), declared, tally, {.explain = true, .hint = true});
  } else {
    if (!finding.contains("engine")) {
      fmt::print(stderr, "kvcert: {} came over the pipe and names no engine that could be asked again: answer the case anew and judge it, or let "
                 "certify --program 'COMMAND' ask your program line by line\n", path);
      return 2;
    }
    const json& engine = finding.at("engine");
    EngineSource source;
    source.library = engine.value("library", "");
    source.option = engine.value("option", "");
    source.program = engine.value("program", "");
    EngineRunner runner(source);
    if (const std::string fault = runner.begin(); !fault.empty()) throw std::runtime_error(fault);
    verdict = runner.judge(test, engine.value("variant", std::size_t{0}), tally, {.explain = true, .hint = true}).verdict;
  }
  for (const EngineStep& step : test.steps) {
    if (step.op != EngineOp::create) continue;
    const EngineLayer& l = step.layer;
    fmt::print("  layer {}: {} KV heads × {}, {} query heads, window {}, scale {}, softcap {}, {} sinks\n", step.on, l.kv_heads, l.head_dim,
               l.query_heads, l.window == 0 ? "none" : std::to_string(l.window), l.scale, l.softcap, l.sinks.size());
  }
  for (const std::string& line : verdict.explained) fmt::print("  {}\n", line);
  if (verdict.verdict != Judgement::wrong) {
    fmt::print("{}{}\n", name(verdict.verdict), verdict.sentence.empty() ? "" : ": " + verdict.sentence);
    return verdict.verdict == Judgement::not_judged ? 1 : 0;
  }
  fmt::print("wrong   {}\nbroken  {}\n", verdict.sentence, verdict.law);
  if (!verdict.hint.empty()) fmt::print("hint    {} (so far as this case alone can tell)\n", verdict.hint);
  return 1;
}

}  // namespace kvcert::certify
