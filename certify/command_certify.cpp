#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "certify/builtin_page.hpp"
#include "certify/certificate.hpp"
#include "certify/checks.hpp"
#include "certify/commands.hpp"
#include "certify/json_text.hpp"
#include "certify/progress.hpp"
#include "certify/replay_file.hpp"
#include "certify/report_files.hpp"
#include "optimized/dispatch.hpp"

namespace kvcert::certify {
namespace {

/// The finding as a file that `kvcert replay` runs; its path, or nothing if it could not be written.
std::optional<std::string> save_finding(const std::string& folder, const std::string& engine, const Check& check, const Finding& finding) {
  std::string stem = engine + "-" + check.group + "-" + check.name;
  for (char& c : stem) {
    if (c == ' ') c = '-';
  }
  const auto path = std::filesystem::path(folder) / (stem + ".json");
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  std::ofstream file(path);
  file << nlohmann::json{{"finding", 1},
                         {"engine", engine},
                         {"group", check.group},
                         {"check", check.name},
                         {"index", finding.index},
                         {"sentence", finding.sentence},
                         {"case", to_json(*finding.smallest)}}
              .dump(1)
       << "\n";
  if (!file.flush()) return std::nullopt;
  return path.string();
}

void print_wrong(const std::string& engine, const Check& check, const Finding& finding, const std::string& findings) {
  fmt::print("\nwrong  {} on {}: {}\n", check.name, engine, check.promise);
  if (finding.smallest) {
    const TestCase& c = *finding.smallest;
    fmt::print("       smallest case: kv_heads {}  head_dim {}  {} query heads on KV head {}  {} positions\n",
               c.geometry.num_kv_heads, c.geometry.head_dim, c.heads(), c.kv_head, c.positions);
  }
  fmt::print("       {}\n", finding.sentence);
  if (finding.smallest) {
    const auto path = save_finding(findings, engine, check, finding);
    fmt::print("       {}{}\n", path ? "replay: ./kvcert replay " : "the case could not be written to ", path.value_or(findings));
  }
  fmt::print("\n");
}

/// Columns of the terminal that standard output is; plenty where it is a file.
std::size_t output_columns() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 200;
  return size.ws_col;
}

Section run_section(const std::string& engine, Plan plan, Progress& progress, const CertifyOptions& options) {
  const bool color = isatty(STDOUT_FILENO) != 0;
  Section section;
  section.engine = engine;
  progress.erase();
  fmt::print("{}\n{}\n", engine, table_head(output_columns()));
  for (const Check& check : plan.checks) {
    progress.label(engine + ", " + check.name);
    Finding finding = run(check, [&] { progress.tick(); });
    progress.tick(check.cases - finding.cases);  // a wrong check stops early
    progress.erase();
    fmt::print("{}\n", table_line(check, finding, color, output_columns()));
    if (finding.verdict == Judgement::wrong) print_wrong(engine, check, finding, options.findings);
    std::fflush(stdout);
    section.findings.push_back(std::move(finding));
  }
  section.tally = *plan.tally;
  section.digest = *plan.digest;
  section.checks = std::move(plan.checks);
  return section;
}

}  // namespace

int run_certify(const CertifyOptions& options) {
  std::vector<OptimizedEngine> engines;
  if (options.isa.empty()) {
    for (auto isa : optimized::available_isas()) engines.push_back({isa});
  } else {
    const auto isa = optimized::isa_from_name(options.isa);
    if (!isa || !optimized::is_available(*isa)) {
      std::string names;
      for (auto available : optimized::available_isas()) names += fmt::format(" {}", optimized::name(available));
      fmt::print(stderr, "kvcert: this machine has no ISA \"{}\"; it has:{}\n", options.isa, names);
      return 2;
    }
    engines.push_back({*isa});
  }
  if (!can_write({options.json_file, options.html_file})) return 2;

  const auto begin = std::chrono::steady_clock::now();
  Certificate certificate;
  certificate.seed = options.seed;
  certificate.percent = options.percent;
  std::vector<std::pair<std::string, Plan>> plans;
  plans.emplace_back("exact mode and judge", exact_plan(options.seed, options.percent));
  for (const auto& engine : engines) plans.emplace_back(engine.name(), plan(engine, options.seed, options.percent));
  std::uint64_t total = 0;
  for (const auto& [name, plan] : plans) {
    for (const Check& check : plan.checks) total += check.cases;
  }
  std::string names;
  for (const auto& engine : engines) names += " " + engine.name();
  fmt::print("Certifying the built-in cache: kernels{}, {} cases, seed {}\n\n", names, total, options.seed);
  Progress progress(total);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::uint64_t calls = i == 0 ? 0 : optimized::kernel_calls(engines[i - 1].isa);
    Section section = run_section(plans[i].first, std::move(plans[i].second), progress, options);
    if (i > 0) {
      section.has_outputs = true;
      section.kernel_calls = optimized::kernel_calls(engines[i - 1].isa) - calls;
      section.throughput = measure_throughput(engines[i - 1]);
    }
    certificate.sections.push_back(std::move(section));
  }
  progress.erase();
  certificate.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{}", summary(certificate, isatty(STDOUT_FILENO) != 0));
  const nlohmann::json whole = to_json(certificate);
  if (!write_text(options.json_file, whole.dump(1, ' ', false, nlohmann::json::error_handler_t::replace))) return 2;
  if (!options.html_file.empty() && !write_text(options.html_file, builtin_page(whole))) return 2;
  return certificate.holds() ? 0 : 1;
}

int run_replay(const std::string& path, bool again) try {
  std::ifstream file(path);
  if (!file) {
    fmt::print(stderr, "kvcert: cannot read {}\n", path);
    return 2;
  }
  const auto finding = parse_json(std::string{std::istreambuf_iterator<char>(file), {}});
  if (finding.value("finding", 0) == 2) return run_engine_replay(path, finding, again);
  const auto [engine, group, name, index, test] = replay_file_from_json(finding);
  Plan candidates;
  if (engine == "exact mode and judge") {
    candidates = exact_plan(1, 100);
  } else if (engine == "reference") {
    candidates = plan(ReferenceEngine{}, 1, 100);
  } else {
    const auto isa = optimized::isa_from_name(engine);
    if (!isa || !optimized::is_available(*isa)) {
      fmt::print(stderr, "kvcert: {} is about the engine \"{}\", which this machine does not have\n", path, engine);
      return 2;
    }
    candidates = plan(OptimizedEngine{*isa}, 1, 100);
  }
  for (const Check& check : candidates.checks) {
    if (check.group != group || check.name != name) continue;
    if (index >= check.cases && !check.shrinkable) break;
    const Outcome outcome = run_case(check, index, test);
    fmt::print("{} {} on {}: {}\n", check.group, check.name, engine, check.promise);
    fmt::print("  kv_heads {}  head_dim {}  {} query heads on KV head {}\n", test.geometry.num_kv_heads,
               test.geometry.head_dim, test.heads(), test.kv_head);
    fmt::print("  {} positions  first {}  upto {}  scale {}  softcap {}\n", test.positions, test.first, test.upto,
               show(test.scale), show(test.softcap));
    for (auto [tensor, values] : {std::pair{"q", &test.q}, {"k", &test.k}, {"v", &test.v}, {"sinks", &test.sinks}, {"acc", &test.acc}}) {
      if (values->size() > 16) fmt::print("  {:<6}{} numbers\n", tensor, values->size());
      if (values->empty() || values->size() > 16) continue;
      fmt::print("  {:<6}{}\n", tensor, fmt::join(*values, "  "));
    }
    switch (outcome.verdict) {
      case Verdict::holds: fmt::print("holds  on this build the check passes\n"); return 0;
      case Verdict::not_exercised: fmt::print("not judged  the case is too small for this check\n"); return 1;
      case Verdict::violated: break;
    }
    fmt::print("wrong  {}\n", outcome.sentence);
    return 1;
  }
  fmt::print(stderr, "kvcert: {} names a check that this version does not have: {} \"{}\"\n", path, group, name);
  return 2;
} catch (const std::exception& fault) {
  fmt::print(stderr, "kvcert: {} is no file that certify wrote: {}\n", path, fault.what());
  return 2;
}

}  // namespace kvcert::certify
