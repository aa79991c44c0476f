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
  if (!file.is_open()) {
    std::fprintf(stderr, "kvcert bench: cannot read %s\n", path.c_str());
    return false;
  }
  const json run = json::parse(file, nullptr, false);
  if (run.is_discarded() || !run.is_object() || !run.contains("rows") || !run["rows"].is_array()) {
    std::fprintf(stderr, "kvcert bench: %s is no run of this program\n", path.c_str());
    return false;
  }
  rows = run["rows"];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    const auto has = [&](const char* name, bool number) {
      return row.is_object() && row.contains(name) && (number ? row[name].is_number() : row[name].is_string());
    };
    if (has("work", false) && has("by", false) && has("ns", true) && has("ns_lower_quartile", true) && has("ns_upper_quartile", true)) continue;
    std::fprintf(stderr, "kvcert bench: %s: row %zu lacks one of work, by, ns, ns_lower_quartile, ns_upper_quartile\n", path.c_str(), i);
    return false;
  }
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

void print(const std::vector<Row>& rows, bool cold) {
  std::string work;
  for (const Row& row : rows) {
    if (row.work != work) {
      work = row.work;
      std::printf("\n%s%s", work.c_str(), cold ? ", cold" : "");
      if (row.bandwidth > 0)
        std::printf("; reading its bytes takes %.3f ms, at %.1f GB/s", row.bytes / row.bandwidth * 1e3, row.bandwidth / 1e9);
      std::printf("\n  %-12s %13s %13s %9s %9s %11s %10s\n", "by", "ns", "quartiles ±%", "GB/s", "GFLOP/s",
                  "peak GF/s", "% of limit");
    }
    const double spread = 50 * (row.seconds.upper - row.seconds.lower) / row.seconds.median;
    std::printf("  %-12s %13.0f %13.1f", row.by.c_str(), row.seconds.median * 1e9, spread);
    const auto column = [](int width, int digits, double number) {  // blank where there is nothing to measure
      if (number > 0)
        std::printf(" %*.*f", width, digits, number);
      else
        std::printf(" %*s", width, "");
    };
    column(9, 2, row.bytes / row.seconds.median / 1e9);
    column(9, 2, 2 * row.multiply_adds / row.seconds.median / 1e9);
    column(11, 1, 2 * row.peak / 1e9);
    column(10, 1, 100 * row.limit() / row.seconds.median);
    std::printf("\n");
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

int compare(const std::string& before, const std::string& after) {
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
  std::printf("%d compared, %d slower beyond the quartiles of both\n", compared, slower);
  if (compared == 0) std::fprintf(stderr, "kvcert bench: %s and %s have nothing in common\n", before.c_str(), after.c_str());
  return compared == 0 ? -1 : slower;
}

}  // namespace kvcert::bench
