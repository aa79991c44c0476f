// Operators of the optimized cache, one thread, against what this machine can do at most and against what a user would
// write instead. Every row's limit is measured in the same rounds as the row: the time in which the machine reads the
// bytes, or does the multiply-adds, that the work cannot do without, whichever is longer.
//
//   kvcert_bench [--json FILE] [--only TEXT]    the table
//   kvcert_bench --compare BEFORE AFTER         exit code 1: something became slower; 2: not comparable
//   kvcert_bench --scaling                      cost against rows
//   kvcert_bench --benchmark_…                  the same works under Google Benchmark, caches warm
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
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
  std::printf("one thread, processor time, medians; limits from the same rounds\n");
  std::vector<Row> all;
  for (const Work& work : works()) {
    if (work.name.find(only) == std::string::npos) continue;
    const std::vector<Row> rows = measure(work);
    print(rows);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  if (all.empty()) {
    std::fprintf(stderr, "kvcert_bench: no work's name has '%s' in it:\n", only.c_str());
    for (const Work& work : works()) std::fprintf(stderr, "  %s\n", work.name.c_str());
    return 2;
  }
  if (!json.empty() && !write_json(json, all)) {
    std::fprintf(stderr, "kvcert_bench: cannot write %s\n", json.c_str());
    return 2;
  }
  return 0;
}

int google_benchmark(int argc, char** argv) {
  for (const Work& work : works())
    for (const Isa isa : kvcert::optimized::available_isas())
      benchmark::RegisterBenchmark((work.name + "/" + std::string(name(isa))).c_str(), [work, isa](benchmark::State& state) {
        const Prepared prepared = work.prepare();
        const auto call = std::ranges::find(prepared.calls, isa, [](const auto& each) { return each.first; });
        if (call == prepared.calls.end()) return state.SkipWithError("runs no kernel: measured on one ISA only");
        for (auto _ : state) call->second();
        state.SetBytesProcessed(static_cast<std::int64_t>(work.bytes) * state.iterations());
      })->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

int usage() {
  std::fprintf(stderr,
               "usage: kvcert_bench [--json FILE] [--only TEXT] | --compare BEFORE AFTER | --scaling | --benchmark_...\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  // Every large block comes from the system and is touched for the first time, whoever asks for it: malloc would otherwise
  // give a yardstick the block that it had the round before.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (std::ranges::any_of(arguments, [](const std::string& each) { return each.starts_with("--benchmark_"); }))
    return google_benchmark(argc, argv);
  std::string json, only;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t left = arguments.size() - i - 1;
    if (arguments[i] == "--compare" && left == 2 && i == 0) {
      const int slower = compare(arguments[1], arguments[2]);
      return slower < 0 ? 2 : slower > 0 ? 1 : 0;
    }
    if (arguments[i] == "--scaling" && arguments.size() == 1) return print_scaling(), 0;
    if (arguments[i] == "--json" && left > 0)
      json = arguments[++i];
    else if (arguments[i] == "--only" && left > 0)
      only = arguments[++i];
    else
      return usage();
  }
  return table(json, only);
}
