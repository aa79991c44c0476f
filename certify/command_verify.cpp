// verify: a certificate, by running again what it says was run. vectors: known-answer files, made and checked.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "certify/commands.hpp"
#include "certify/foreign/runner.hpp"
#include "certify/json_text.hpp"
#include "certify/stated_run.hpp"
#include "certify/vectors.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

/// Throws std::runtime_error.
json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("cannot read {}", path));
  try {
    return parse_json(std::string{std::istreambuf_iterator<char>(file), {}});
  } catch (const std::exception& fault) {
    throw std::runtime_error(fmt::format("{} is no JSON: {}", path, fault.what()));
  }
}

int finish(const Comparison& comparison) {
  for (const std::string& sentence : comparison.sentences) fmt::print("differs   {}\n", sentence);
  fmt::print("verdict   {}: {} statements compared, {} differ\n", comparison.different == 0 ? "VERIFIED" : "NOT VERIFIED", comparison.compared,
             comparison.different);
  return comparison.different == 0 ? 0 : 1;
}

int verify_engine(const json& stated) {
  const auto [source, spec] = engine_run_from_json(stated);
  EngineRunner runner(source);
  if (const std::string fault = runner.begin(); !fault.empty()) throw std::runtime_error(fault);
  return finish(compare_engine(stated, to_json(run_suite(runner, source, spec, ""))));
}

int verify_builtin(const json& stated) {
  const auto [seed, percent, isa] = builtin_run_from_json(stated);
  const auto path = std::filesystem::temp_directory_path() / fmt::format("kvcert-verify-{}.json", getpid());
  CertifyOptions options;
  options.json_file = path.string();
  options.seed = seed;
  options.percent = percent;
  options.isa = isa;
  options.findings = (std::filesystem::temp_directory_path() / "kvcert-verify-findings").string();
  if (run_certify(options) == 2) return 2;
  const json found = read_json(path.string());
  std::filesystem::remove(path);
  return finish(compare_builtin(stated, found));
}

}  // namespace

int run_verify(const std::string& path) {
  try {
    const json stated = read_json(path);
    const std::string kind = stated.is_object() ? stated.value("certificate", "") : "";
    if (kind == "kvcert") return verify_builtin(stated);
    if (kind == "kvcert engine") return verify_engine(stated);
    throw std::runtime_error("it is no certificate of kvcert");
  } catch (const std::exception& fault) {
    fmt::print(stderr, "kvcert: {} cannot be verified: {}\n", path, fault.what());
    return 2;
  }
}

int run_vectors_make(const std::string& folder) {
  std::filesystem::create_directories(folder);
  for (const auto& [name, content] : make_vectors()) {
    std::ofstream file(std::filesystem::path(folder) / name);
    file << content.dump(1) << "\n";
    if (!file.flush()) {
      fmt::print(stderr, "kvcert: cannot write {}/{}\n", folder, name);
      return 2;
    }
    fmt::print("written   {}/{}: {} cases\n", folder, name, content.at("cases").get<std::size_t>());
  }
  return 0;
}

int run_vectors_check(const std::string& folder) {
  std::error_code fault;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, fault)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  if (fault || paths.empty()) {
    fmt::print(stderr, "kvcert: {} {}\n", folder, fault ? "cannot be read: " + fault.message() : "holds no .json file");
    return 2;
  }
  std::sort(paths.begin(), paths.end());
  std::size_t cases = 0;
  std::size_t faults = 0;
  for (const auto& path : paths) {
    VectorsReport report;
    try {
      report = check_vectors(path.filename().string(), read_json(path.string()));
    } catch (const std::exception& problem) {
      report.faults.push_back(problem.what());
    }
    for (const std::string& sentence : report.faults) fmt::print("wrong  {}\n", sentence);
    fmt::print("{}: {} cases, {}\n", path.filename().string(), report.cases, report.faults.empty() ? "all as stated" : "NOT as stated");
    cases += report.cases;
    faults += report.faults.size();
  }
  fmt::print("verdict   {}: {} cases in {} files\n", faults == 0 ? "HOLDS" : "DOES NOT HOLD", cases, paths.size());
  return faults == 0 ? 0 : 1;
}

}  // namespace kvcert::certify
