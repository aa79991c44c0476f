#include "tests/bench/report.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace kvcert::bench {
namespace {

using nlohmann::json;

constexpr double least_slowdown = 1.1;

bool read_rows(const std::string& path, json& rows) {
  std::ifstream file(path);
  const json run = json::parse(file, nullptr, false);
  if (run.is_discarded() || !run.is_object() || !run.contains("rows") || !run["rows"].is_array()) {
    std::fprintf(stderr, "kvcert_bench: %s is no run of this program\n", path.c_str());
    return false;
  }
  rows = run["rows"];
  return true;
}

const json* find(const json& rows, const json& like) {
  for (const json& row : rows)
    if (row.at("work") == like.at("work") && row.at("by") == like.at("by")) return &row;
  return nullptr;
}

}  // namespace

double Row::limit() const {
  return std::max(bandwidth > 0 ? bytes / bandwidth : 0, peak > 0 ? multiply_adds / peak : 0);
}

void print(const std::vector<Row>& rows) {
  std::string work;
  for (const Row& row : rows) {
    if (row.work != work) {
      work = row.work;
      std::printf("\n%s", work.c_str());
      if (row.bandwidth > 0)
        std::printf("; reads %.1f GB/s: %.3f ms", row.bandwidth / 1e9, row.bytes / row.bandwidth * 1e3);
      std::printf("\n  %-12s %13s %13s %9s %9s %11s %10s\n", "by", "ns", "quartiles ±%", "GB/s", "GFLOP/s",
                  "peak GF/s", "% of limit");
    }
    const double spread = 50 * (row.seconds.upper - row.seconds.lower) / row.seconds.median;
    std::printf("  %-12s %13.0f %13.1f %9.2f %9.2f", row.by.c_str(), row.seconds.median * 1e9, spread,
                row.bytes / row.seconds.median / 1e9, 2 * row.multiply_adds / row.seconds.median / 1e9);
    if (row.peak > 0)
      std::printf(" %11.1f", 2 * row.peak / 1e9);
    else
      std::printf(" %11s", "");
    if (row.limit() > 0)
      std::printf(" %10.1f\n", 100 * row.limit() / row.seconds.median);
    else
      std::printf(" %10s\n", "");
  }
  std::fflush(stdout);
}

bool write_json(const std::string& path, const std::vector<Row>& rows) {
  json all = json::array();
  for (const Row& row : rows)
    all.push_back({{"work", row.work},
                   {"by", row.by},
                   {"ns", row.seconds.median * 1e9},
                   {"ns_lower_quartile", row.seconds.lower * 1e9},
                   {"ns_upper_quartile", row.seconds.upper * 1e9},
                   {"bytes", row.bytes},
                   {"flop", 2 * row.multiply_adds},
                   {"read_bytes_per_second", row.bandwidth},
                   {"peak_flop_per_second", 2 * row.peak},
                   {"percent_of_limit", 100 * row.limit() / row.seconds.median}});
  std::ofstream file(path);
  file << json{{"program", "kvcert_bench"}, {"rows", all}}.dump(1) << '\n';
  file.flush();
  return file.good();
}

int compare(const std::string& before, const std::string& after) try {
  json old_rows, new_rows;
  if (!read_rows(before, old_rows) || !read_rows(after, new_rows)) return -1;
  int slower = 0, compared = 0;
  for (const json& now : new_rows) {
    const json* then = find(old_rows, now);
    if (then == nullptr) {
      std::printf("only in %s: %s, %s\n", after.c_str(), now.at("work").get<std::string>().c_str(),
                  now.at("by").get<std::string>().c_str());
      continue;
    }
    ++compared;
    const auto of = [](const json& row, const char* what) { return row.at(what).get<double>(); };
    const double ratio = of(now, "ns") / of(*then, "ns");
    const bool beyond_noise = of(now, "ns_lower_quartile") > of(*then, "ns_upper_quartile");
    if (ratio <= least_slowdown || !beyond_noise) continue;
    ++slower;
    std::printf("slower: %s, %s: %.0f ns, was %.0f (%+.0f %%)\n", now.at("work").get<std::string>().c_str(),
                now.at("by").get<std::string>().c_str(), of(now, "ns"), of(*then, "ns"), 100 * (ratio - 1));
  }
  for (const json& then : old_rows)
    if (find(new_rows, then) == nullptr)
      std::printf("only in %s: %s, %s\n", before.c_str(), then.at("work").get<std::string>().c_str(),
                  then.at("by").get<std::string>().c_str());
  std::printf("%d compared, %d slower than noise explains\n", compared, slower);
  if (compared == 0) std::fprintf(stderr, "kvcert_bench: the two runs have nothing in common\n");
  return compared == 0 ? -1 : slower;
} catch (const json::exception& error) {
  std::fprintf(stderr, "kvcert_bench: a row is not as expected: %s\n", error.what());
  return -1;
}

}  // namespace kvcert::bench
