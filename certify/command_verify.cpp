// verify: a certificate, by running again what it says was run. vectors: known-answer files, made and checked.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "certify/commands.hpp"
#include "certify/foreign/runner.hpp"
#include "certify/vectors.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

/// Throws std::runtime_error.
json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("cannot read {}", path));
  try {
    return json::parse(file);
  } catch (const json::exception& fault) {
    throw std::runtime_error(fmt::format("{} is no JSON: {}", path, fault.what()));
  }
}

class Comparison {
 public:
  void hold(const std::string& what, const json& stated, const json& found) {
    ++compared_;
    if (stated == found) return;
    ++different_;
    if (different_ <= 20) fmt::print("differs   {}: the certificate says {}, this run says {}\n", what, stated.dump(), found.dump());
  }
  int finish() const {
    fmt::print("verdict   {}: {} statements compared, {} differ\n", different_ == 0 ? "VERIFIED" : "NOT VERIFIED", compared_, different_);
    return different_ == 0 ? 0 : 1;
  }

 private:
  std::size_t compared_ = 0, different_ = 0;
};

/// The checks of two certificates, by name, without what depends on time.
void compare_checks(Comparison& comparison, const std::string& where, const json& stated, const json& found) {
  comparison.hold(where + "number of checks", stated.size(), found.size());
  for (const json& check : stated) {
    const auto same = [&](const json& other) { return other.at("name") == check.at("name") && other.value("group", "") == check.value("group", ""); };
    const auto at = std::find_if(found.begin(), found.end(), same);
    const std::string name = where + check.at("name").get<std::string>();
    if (at == found.end()) comparison.hold(name, "run", "not run");
    else {
      for (const char* field : {"verdict", "cases"}) comparison.hold(fmt::format("{}, {}", name, field), check.at(field), at->at(field));
      if (check.contains("counts")) comparison.hold(name + ", counts", check.at("counts"), at->at("counts"));
    }
  }
}

int verify_engine(const json& stated) {
  const json& subject = stated.at("subject");
  EngineSource source;
  source.library = subject.value("library", "");
  source.program = subject.value("program", "");
  source.option = subject.value("option", "");
  if (source.library.empty() && source.program.empty()) {
    throw std::runtime_error("it was made from answers on standard input; run the engine on the same cases and judge it again");
  }
  SuiteSpec spec;
  const json& suite = stated.at("suite");
  spec.suite = suite.at("name");
  spec.seed = suite.at("seed");
  spec.count = suite.at("count");
  if (suite.contains("shape")) spec.shape = Shape{suite.at("shape").at(0), suite.at("shape").at(1), suite.at("shape").at(2), true};
  EngineRunner runner(source);
  if (const std::string fault = runner.begin(); !fault.empty()) throw std::runtime_error(fault);
  const json found = to_json(run_suite(runner, source, spec, ""));
  Comparison comparison;
  comparison.hold("verdict", stated.at("verdict"), found.at("verdict"));
  comparison.hold("SHA-1 of the library", subject.at("sha1"), found.at("subject").at("sha1"));
  comparison.hold("declaration", subject.at("declared"), found.at("subject").at("declared"));
  comparison.hold("digest of all answers", stated.at("digest"), found.at("digest"));
  comparison.hold("ulp histogram", stated.at("accuracy").at("ulp_histogram"), found.at("accuracy").at("ulp_histogram"));
  comparison.hold("coverage", stated.at("coverage"), found.at("coverage"));
  compare_checks(comparison, "", stated.at("checks"), found.at("checks"));
  return comparison.finish();
}

int verify_builtin(const json& stated) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("kvcert-verify-{}.json", getpid());
  CertifyOptions options;
  options.json_file = path.string();
  options.seed = stated.at("seed");
  options.percent = stated.at("percent");
  options.findings = (std::filesystem::temp_directory_path() / "kvcert-verify-findings").string();
  std::vector<std::string> engines;
  for (const json& section : stated.at("sections")) {
    if (section.contains("output_digest")) engines.push_back(section.at("engine"));
  }
  if (engines.size() == 1) options.isa = engines[0];
  if (run_certify(options) == 2) return 2;
  const json found = read_json(path.string());
  std::filesystem::remove(path);
  Comparison comparison;
  comparison.hold("verdict", stated.at("verdict"), found.at("verdict"));
  comparison.hold("SHA-1 of the program", stated.at("subject").at("program_sha1"), found.at("subject").at("program_sha1"));
  comparison.hold("number of sections", stated.at("sections").size(), found.at("sections").size());
  for (std::size_t i = 0; i < std::min(stated.at("sections").size(), found.at("sections").size()); ++i) {
    const json& a = stated.at("sections").at(i);
    const json& b = found.at("sections").at(i);
    const std::string where = a.at("engine").get<std::string>() + ": ";
    comparison.hold(where + "digest of outputs", a.value("output_digest", ""), b.value("output_digest", ""));
    compare_checks(comparison, where, a.at("checks"), b.at("checks"));
  }
  return comparison.finish();
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
