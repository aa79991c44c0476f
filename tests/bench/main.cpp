// Operators of the optimized cache, one thread, against what this machine can do at most and against what a user would
// write instead. Every row's limit is measured in the same rounds as the row: the time in which the machine reads the
// bytes, or does the multiply-adds, that the work cannot do without, whichever is longer.
//
//   kvcert_bench [--json FILE] [--only TEXT]    the table
//   kvcert_bench --compare BEFORE AFTER         exit code 1: something became slower; 2: not comparable
//   kvcert_bench --scaling                      cost against rows
//   kvcert_bench --benchmark_…                  the same works under Google Benchmark, caches warm
#include <CLI/CLI.hpp>
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "optimized/buffer.hpp"
#include "optimized/dispatch.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/measure.hpp"
#include "tests/bench/report.hpp"
#include "tests/bench/scaling.hpp"
#include "tests/bench/works.hpp"

namespace {

using namespace kvcert::bench;
using kvcert::optimized::Isa;

/// The work, the machine's reads and its multiply-adds in the same rounds.
std::vector<Row> measure(const Work& work) {
  const Prepared prepared = work.prepare();
  std::vector<Probe> probes;
  for (const auto& [isa, call] : prepared.calls)
    probes.push_back({.call = call, .cold = work.cold, .most_rounds = isa == Isa::scalar ? 3 : work.rounds});
  for (const Yardstick& yardstick : prepared.yardsticks) probes.push_back({.call = yardstick.call, .cold = work.cold});

  const std::size_t first_peak = probes.size();
  const bool computes = work.multiply_adds > 0;
  for (const auto& [isa, call] : prepared.calls)
    if (computes) probes.push_back({.call = multiply_adds(isa).call, .cold = false});
  const std::size_t first_read = probes.size();
  // once what the cache asks for (huge pages where the system has them) and once the ordinary kind
  const std::vector<float> ordinary(static_cast<std::size_t>(work.bytes / 4), 1.0F);
  const kvcert::optimized::Buffer<float> huge_pages{std::span<const float>(ordinary)};
  if (work.bytes > 0)
    for (const auto& read : reads(huge_pages.view(), ordinary)) probes.push_back({.call = read});
  run_rounds(probes, work.rounds);

  double bandwidth = 0;
  for (std::size_t i = first_read; i < probes.size(); ++i)
    bandwidth = std::max(bandwidth, static_cast<double>(ordinary.size() * 4) / quartiles(probes[i]).median);
  const auto row = [&](std::string by, std::size_t probe, double peak) {
    Quartiles q = quartiles(probes[probe]);
    q = {q.lower / work.units, q.median / work.units, q.upper / work.units};
    return Row{work.name, std::move(by), q, work.bytes / work.units, work.multiply_adds / work.units, bandwidth, peak};
  };
  std::vector<Row> rows;
  const std::size_t isas = prepared.calls.size();
  std::vector<double> peaks(isas, 0);
  for (std::size_t i = 0; i < isas; ++i) {
    const Isa isa = prepared.calls[i].first;
    if (computes) peaks[i] = multiply_adds(isa).count / quartiles(probes[first_peak + i]).median;
    rows.push_back(row(std::string(name(isa)), i, peaks[i]));
  }
  // a yardstick may use everything this machine has
  for (std::size_t i = 0; i < prepared.yardsticks.size(); ++i)
    rows.push_back(row(prepared.yardsticks[i].name, isas + i, peaks.back()));
  return rows;
}

int table(const std::string& json, const std::string& only) {
  std::vector<Work> wanted = works();
  std::erase_if(wanted, [&](const Work& work) { return work.name.find(only) == std::string::npos; });
  if (wanted.empty()) {
    std::fprintf(stderr, "kvcert bench: no work's name has '%s' in it:\n", only.c_str());
    for (const Work& work : works()) std::fprintf(stderr, "  %s\n", work.name.c_str());
    return 2;
  }
  const auto cannot_write = [&] {
    std::fprintf(stderr, "kvcert bench: cannot write %s\n", json.c_str());
    return 2;
  };
  // before minutes of measuring
  if (!json.empty() && !std::ofstream(json, std::ios::app).is_open()) return cannot_write();
  std::printf("one thread, processor time, medians; limits from the same rounds\n");
  std::vector<Row> all;
  for (const Work& work : wanted) {
    const std::vector<Row> rows = measure(work);
    print(rows, work.cold);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return json.empty() || write_json(json, all) ? 0 : cannot_write();
}

int google_benchmark(int argc, char** argv) {
  for (const Work& work : works()) {
    std::vector<Isa> isas = kvcert::optimized::available_isas();
    if (work.multiply_adds == 0) isas = {isas.back()};  // runs no kernel worth telling apart
    for (const Isa isa : isas)
      benchmark::RegisterBenchmark((work.name + "/" + std::string(name(isa))).c_str(), [work, isa](benchmark::State& state) {
        const Prepared prepared = work.prepare();
        const auto call = std::ranges::find(prepared.calls, isa, [](const auto& each) { return each.first; });
        if (call == prepared.calls.end()) return state.SkipWithError("not measured on this ISA");
        for (auto _ : state) call->second();
        state.SetItemsProcessed(static_cast<std::int64_t>(work.units) * state.iterations());
        if (work.bytes > 0) state.SetBytesProcessed(static_cast<std::int64_t>(work.bytes) * state.iterations());
      })->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (benchmark::RunSpecifiedBenchmarks() > 0) return 0;
  // Listing runs nothing and is no fault.
  const bool lists = std::any_of(argv, argv + argc, [](const char* each) { return std::strstr(each, "list_tests") != nullptr; });
  return lists ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  // Every large block comes from the system and is touched for the first time, whoever asks for it: malloc would otherwise
  // give a yardstick the block that it had the round before.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (std::ranges::any_of(arguments, [](const std::string& each) { return each.starts_with("--benchmark_"); }))
    return google_benchmark(argc, argv);
  CLI::App app("The built-in cache against the machine's limits.", "kvcert bench");
  std::string json, only;
  std::vector<std::string> runs;
  bool scaling = false;
  const auto not_empty = CLI::Validator([](std::string& text) { return std::string(text.empty() ? "it is empty" : ""); }, "");
  auto* json_option = app.add_option("--json", json, "file that keeps the table")->check(not_empty);
  auto* only_option = app.add_option("--only", only, "only works whose name has this text in it")->check(not_empty);
  auto* compare_option = app.add_option("--compare", runs, "two files of --json; exit code 1: something is slower")->expected(2)->check(CLI::ExistingFile);
  auto* scaling_option = app.add_flag("--scaling", scaling, "what rows cost as there are more of them");
  compare_option->excludes(json_option, only_option, scaling_option);
  scaling_option->excludes(json_option, only_option);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!runs.empty()) {
    const int slower = compare(runs[0], runs[1]);
    return slower < 0 ? 2 : slower > 0 ? 1 : 0;
  }
  if (scaling) return print_scaling(), 0;
  return table(json, only);
}
