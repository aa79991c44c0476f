#include "certify/foreign/runner.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "certify/foreign/simpler_case.hpp"
#include "certify/json_text.hpp"
#include "certify/progress.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

std::string own_path() {
  std::error_code fault;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", fault);
  return fault ? "kvcert" : path.string();
}

/// A whole case, as a program was asked: how many queries it answered, and in what time.
CallTime round_trip(const EngineCase& test, const EngineAnswer& answer, Clock::duration taken) {
  CallTime time{1, 0, 0, static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count())};
  std::map<std::size_t, std::size_t> heads;
  for (std::size_t i = 0; i < std::min(test.steps.size(), answer.steps.size()); ++i) {
    const EngineStep& step = test.steps[i];
    if (step.op == EngineOp::create) heads[step.on] = step.layer.query_heads;
    if ((step.op == EngineOp::attend || step.op == EngineOp::forward) && answer.steps[i].numbers) time.count += step.n * heads[step.on];
  }
  return time;
}

/// What the certificate says about speed.
std::vector<Throughput> throughput_of(const std::map<std::string, CallTime>& times) {
  std::vector<Throughput> list;
  for (const auto& [op, t] : times) {
    const bool inside = op != "case";
    Throughput entry{op, "", op == "append" ? "rows" : "queries", t.calls, t.count, static_cast<double>(t.nanoseconds) * 1e-9, {}};
    entry.measured = inside ? fmt::format("inside the library's {}, over the cases of this suite", op)
                            : "from a case sent to its answer read, with pipe, JSON and every other step of the case";
    if (op == "attend" || op == "forward") entry.visible_rows = static_cast<double>(t.visible) / static_cast<double>(t.count);
    if (t.count > 0) list.push_back(std::move(entry));
  }
  return list;
}

std::string one_line(const json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

Child& EngineRunner::child(std::size_t variant) {
  while (children_.size() <= variant) {
    const std::size_t i = children_.size();
    const std::vector<std::string> command =
        source_.program.empty()
            ? std::vector<std::string>{own_path(), "engine-host", "--engine", source_.library, "--option", source_.option, "--variant", std::to_string(i)}
            : std::vector<std::string>{"/bin/sh", "-c", "exec " + source_.program};
    children_.push_back(std::make_unique<Child>(command));
  }
  return *children_[variant];
}

std::string EngineRunner::begin() {
  Child& first = child(0);
  if (auto fault = first.start(); !fault.empty()) return fault;
  if (!source_.program.empty()) return {};  // a program may say what it is, with its first answer
  const auto line = first.ask(nullptr, source_.limits);
  if (!line.text) return "the engine could not be started: " + line.fault;
  try {
    const json hello = parse_json(*line.text);
    if (hello.contains("refused")) return hello.at("refused").get<std::string>();
    declared_ = declared_from_json(hello.at("engine"));
  } catch (const std::exception& fault) {
    return fmt::format("what the engine declares makes no sense: {}", fault.what());
  }
  return {};
}

Child::Line EngineRunner::ask(const EngineCase& test, std::size_t variant) {
  Child& engine = child(variant);
  const bool fresh = !engine.running();
  if (auto fault = engine.start(); !fault.empty()) return {std::nullopt, fault, false};
  if (fresh && source_.program.empty()) {
    if (auto hello = engine.ask(nullptr, source_.limits); !hello.text) return hello;
  }
  const std::string line = one_line(to_json(test));
  Child::Line got = engine.ask(&line, source_.limits);
  if (!source_.program.empty() && got.text && got.text->find("\"engine\"") != std::string::npos) {
    const json hello = parse_json(*got.text);
    if (hello.is_object() && hello.contains("engine")) {
      declared_ = declared_from_json(hello.at("engine"));
      got = engine.ask(nullptr, source_.limits);
    }
  }
  if (!got.text) return got;
  if (const std::string report = engine.sanitizer_report(); !report.empty()) {
    engine.end();  // UBSan says each place once in a process: only a new one says it again, for the next case and for a smaller one
    return {std::nullopt, "a sanitizer reports " + report, false};
  }
  return got;
}

EngineRunner::Judged EngineRunner::judge(const EngineCase& test, std::size_t variant, EngineTally& tally, JudgeOptions options) {
  const auto begin = Clock::now();
  Judged judged;
  std::string fault;
  try {
    const Child::Line line = ask(test, variant);
    const auto taken = Clock::now() - begin;
    engine_seconds_ += std::chrono::duration<double>(taken).count();
    judged.hung = line.hung;
    fault = line.fault;
    if (line.text) {
      judged.answer = answer_from_json(parse_json(*line.text));
      if (judged.answer->id != test.id) throw std::runtime_error(fmt::format("the answer is to \"{}\", asked was \"{}\"", judged.answer->id, test.id));
      judged.environment = std::exchange(judged.answer->environment, "");
      judged.times = std::exchange(judged.answer->times, {});
      if (!source_.program.empty()) judged.times = {{"case", round_trip(test, *judged.answer, taken)}};
      judged.verdict = judge_case(test, *judged.answer, declared_, tally, options);
      return judged;
    }
  } catch (const std::exception& problem) {
    judged.answer.reset();
    fault = fmt::format("the answer cannot be read: {}", problem.what());
    child(variant).end();
  }
  judged.verdict.verdict = Judgement::wrong;
  judged.verdict.law = fault.starts_with("a sanitizer reports") ? "no input makes a sanitizer speak" : "no input ends an engine";
  judged.verdict.sentence = fault;
  return judged;
}

bool write_finding(const std::string& path, const EngineCase& test, const std::optional<EngineAnswer>& answer, const Declared& declared,
                   const CaseVerdict& verdict, const EngineSource& source, std::size_t variant) {
  std::error_code fault;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), fault);
  json finding{{"finding", 2},
               {"check", test.check},
               {"sentence", verdict.sentence},
               {"law", verdict.law},
               {"hint", verdict.hint},
               {"declared", to_json(declared)},
               {"case", to_json(test)}};
  if (answer) finding["answer"] = to_json(*answer);
  if (!source.library.empty()) finding["engine"] = {{"library", std::filesystem::absolute(source.library).string()}, {"option", source.option}, {"variant", variant}};
  if (!source.program.empty()) finding["engine"] = {{"program", source.program}};
  std::ofstream file(path);
  file << finding.dump(1, ' ', false, json::error_handler_t::replace) << "\n";
  return static_cast<bool>(file.flush());
}

namespace {

class SuiteRun {
 public:
  SuiteRun(EngineRunner& runner, const EngineSource& source, const SuiteSpec& spec, const std::string& findings, EngineReport& report)
      : runner_(runner), source_(source), spec_(spec), findings_(findings), report_(report) {}

  void run() {
    const auto chosen = parts(spec_);
    std::uint64_t total = 0;
    for (const auto& part : chosen) total += part.cases;
    Progress progress(total);
    for (const auto& part : chosen) {
      progress.label(part.check->name);
      std::size_t hangs = 0;
      for (std::size_t index = 0; index < part.cases; ++index) {
        progress.tick();
        if (hangs < 2) hangs += one(suite_case(spec_, *part.check, index)) ? 1 : 0;
        else skipped(part.check->name);
      }
    }
    finish();
  }

 private:
  /// Asks every variant; true if one of them hung.
  bool one(const EngineCase& test) {
    bool hung = false;
    std::optional<std::uint64_t> digest;
    for (std::size_t variant = 0; variant < std::max<std::size_t>(1, runner_.declared().variants.size()); ++variant) {
      auto judged = runner_.judge(test, variant, report_.tally);
      hung = hung || judged.hung;
      if (!judged.environment.empty()) environment(test.id, judged.environment);
      for (const auto& [op, time] : judged.times) times_[op].add(time);
      if (judged.verdict.verdict == Judgement::wrong && runner_.declared().variants.size() > 1) {
        judged.verdict.sentence = fmt::format("variant \"{}\": {}", runner_.declared().variants[variant], judged.verdict.sentence);
      }
      if (report_.add(test.check, test.id, judged.verdict)) found(test, variant, judged);
      if (runner_.declared().same_variants) same_bits(test.id, variant, judged.verdict.digest, digest);
    }
    return hung;
  }

  void skipped(const std::string& check) {
    CaseVerdict verdict;
    verdict.sentence = "not asked, after two that it did not answer in time";
    report_.add(check, "", verdict);
  }

  void environment(const std::string& id, const std::string& what) {
    if (changed_.empty()) changed_ = fmt::format("{}: {}", id, what);
  }

  void same_bits(const std::string& id, std::size_t variant, std::uint64_t digest, std::optional<std::uint64_t>& first) {
    if (!first) first = digest;
    CaseVerdict verdict;
    verdict.verdict = digest == *first ? Judgement::bit_identical : Judgement::wrong;
    verdict.law = "law 13: the same bits on every ISA";
    verdict.sentence = fmt::format("variant \"{}\" answers other bits than \"{}\"", runner_.declared().variants[variant], runner_.declared().variants[0]);
    if (variant > 0) report_.add("variants", id, verdict);
  }

  /// The first wrong case of a check: made smaller, and written down.
  void found(const EngineCase& test, std::size_t variant, const EngineRunner::Judged& judged) {
    const std::string law = judged.verdict.law;
    const auto fails = [&](const EngineCase& candidate) {
      try {
        EngineTally ignored;
        return runner_.judge(engine_case_from_json(to_json(candidate)), variant, ignored, {.explain = false, .hint = false}).verdict.law == law;
      } catch (const std::exception&) {
        return false;  // the candidate is no case
      }
    };
    const bool slow = judged.hung;
    const EngineCase smallest = findings_.empty() ? test : shrink(test, fails, slow ? 4 : 300, slow ? 30 : 6);
    EngineTally ignored;
    auto again = runner_.judge(smallest, variant, ignored);
    CheckResult& check = report_.check(test.check);
    if (again.verdict.verdict != Judgement::wrong) {  // it does not fail every time
      again = judged;
      check.first_wrong += " (not every time)";
    } else {
      check.first_wrong = again.verdict.sentence;
    }
    if (findings_.empty()) return;
    const std::string path = (std::filesystem::path(findings_) / (test.id + ".json")).string();
    if (write_finding(path, smallest, again.answer, runner_.declared(), again.verdict, source_, variant)) check.finding_file = path;
  }

  void finish() {
    report_.throughput = throughput_of(times_);
    if (source_.library.empty()) return;  // only the plug-in's host can see the modes
    CaseVerdict verdict;
    verdict.verdict = changed_.empty() ? Judgement::holds : Judgement::wrong;
    verdict.law = "law 13: FTZ, DAZ and rounding modes are the caller's";
    verdict.sentence = changed_;
    verdict.hint = changed_.find("was switched on") == std::string::npos ? "" : "a library linked with -ffast-math switches them on for the whole process";
    report_.add("environment", "environment", verdict);
  }

  EngineRunner& runner_;
  const EngineSource& source_;
  const SuiteSpec& spec_;
  std::string findings_, changed_;
  std::map<std::string, CallTime> times_;
  EngineReport& report_;
};

}  // namespace

EngineReport run_suite(EngineRunner& runner, const EngineSource& source, const SuiteSpec& spec, const std::string& findings) {
  const auto begin = Clock::now();
  EngineReport report(runner.declared(), source.program.empty() ? "plug-in " + source.library : "program " + source.program);
  report.suite = spec;
  report.option = source.option;
  report.library = source.library.empty() ? "" : std::filesystem::absolute(source.library).string();
  report.program = source.program;
  if (!source.library.empty()) report.subject_sha1 = file_sha1(source.library);
  SuiteRun(runner, source, spec, findings, report).run();
  report.declared = runner.declared();
  report.engine_seconds = runner.engine_seconds();
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return report;
}

}  // namespace kvcert::certify
