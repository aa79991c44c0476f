#include "certify/stated_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "certify/json_count.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();

/// The checks of two certificates, by name, without what depends on time.
void compare_checks(Comparison& comparison, const std::string& where, const json& stated, const json& found) {
  comparison.hold(where + "number of checks", stated.size(), found.size());
  for (const json& check : stated) {
    const auto same = [&](const json& other) { return other.at("name") == check.at("name") && other.value("group", "") == check.value("group", ""); };
    const auto at = std::find_if(found.begin(), found.end(), same);
    const std::string name = where + check.at("name").get<std::string>();
    // One that is there twice could stand where another is missing.
    if (std::count_if(stated.begin(), stated.end(), same) != 1) throw std::runtime_error(fmt::format("it has the check \"{}\" twice", name));
    if (at == found.end()) comparison.hold(name, "run", "not run");
    else {
      for (const char* field : {"verdict", "cases"}) comparison.hold(fmt::format("{}, {}", name, field), check.at(field), at->at(field));
      if (check.contains("counts")) comparison.hold(name + ", counts", check.at("counts"), at->at("counts"));
    }
  }
}

Precision type_of(const json& suite) {
  const std::string type = suite.value("type", "f32");
  if (type == "f16") return Precision::f16;
  if (type == "bf16") return Precision::bf16;
  if (type != "f32") throw std::runtime_error(fmt::format("\"type\" is \"{}\", expected f32, f16 or bf16", type));
  return Precision::f32;
}

}  // namespace

BuiltinRun builtin_run_from_json(const json& certificate) {
  BuiltinRun run;
  run.seed = count_from(certificate, "seed", 0, any);
  run.percent = static_cast<unsigned>(count_from(certificate, "percent", 1, 10000));
  std::vector<std::string> engines;
  for (const json& section : certificate.at("sections")) {
    if (section.contains("output_digest")) engines.push_back(section.at("engine"));
  }
  if (engines.size() == 1) run.isa = engines[0];
  return run;
}

EngineRun engine_run_from_json(const json& certificate) {
  EngineRun run;
  const json& subject = certificate.at("subject");
  run.source.library = subject.value("library", "");
  run.source.program = subject.value("program", "");
  run.source.option = subject.value("option", "");
  if (run.source.library.empty() && run.source.program.empty()) {
    throw std::runtime_error("it was made from answers on standard input; run the engine on the same cases and judge it again");
  }
  const json& suite = certificate.at("suite");
  run.spec.suite = suite.at("name");
  run.spec.seed = count_from(suite, "seed", 0, any);
  run.spec.count = count_from(suite, "count", 0, any);
  run.spec.type = type_of(suite);
  if (suite.contains("shape")) {
    const json& shape = suite.at("shape");
    run.spec.shape = Shape{count_of(shape.at(0), "shape", 1, 256), count_of(shape.at(1), "shape", 1, 4096), count_of(shape.at(2), "shape", 1, 64), true};
  }
  return run;
}

void Comparison::hold(const std::string& what, const json& stated, const json& found) {
  ++compared;
  if (stated == found) return;
  ++different;
  if (different <= 20) sentences.push_back(fmt::format("{}: the certificate says {}, this run says {}", what, stated.dump(), found.dump()));
}

Comparison compare_builtin(const json& stated, const json& found) {
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
  return comparison;
}

Comparison compare_engine(const json& stated, const json& found) {
  Comparison comparison;
  comparison.hold("verdict", stated.at("verdict"), found.at("verdict"));
  comparison.hold("SHA-1 of the library", stated.at("subject").at("sha1"), found.at("subject").at("sha1"));
  comparison.hold("declaration", stated.at("subject").at("declared"), found.at("subject").at("declared"));
  comparison.hold("digest of all answers", stated.at("digest"), found.at("digest"));
  comparison.hold("ulp histogram", stated.at("accuracy").at("ulp_histogram"), found.at("accuracy").at("ulp_histogram"));
  comparison.hold("coverage", stated.at("coverage"), found.at("coverage"));
  compare_checks(comparison, "", stated.at("checks"), found.at("checks"));
  return comparison;
}

}  // namespace kvcert::certify
