#include "fuzz/text_readers.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "certify/foreign/answers_judge.hpp"
#include "certify/json_text.hpp"
#include "certify/record_fields.hpp"
#include "certify/replay_file.hpp"
#include "certify/stated_run.hpp"
#include "certify/vectors.hpp"
#include "fuzz/case_shapes.hpp"
#include "fuzz/fail.hpp"
#include "fuzz/scratch_file.hpp"

namespace kvcert::fuzz {
namespace {

using namespace certify;
using nlohmann::json;

// --- Cases and findings of the built-in cache ------------------------------------------------------------------------

void read_test_case(std::string_view text) {
  const json asked = parse_json(text);
  const TestCase test = test_case_from_json(asked);
  if (!well_formed(test)) fail("a case was taken whose tensors do not fit it");
  const json written = to_json(test);
  if (!(test_case_from_json(written) == test)) fail("a case is not the one that was written");
  for (const auto& [member, value] : written.items()) {
    if (asked.at(member) != value) fail(fmt::format("a case's \"{}\" was {}, and is written as {}", member, asked.at(member).dump(), value.dump()));
  }
}

void read_replay_file(std::string_view text) {
  const ReplayFile read = replay_file_from_json(parse_json(text));
  const json written{{"engine", read.engine}, {"group", read.group}, {"check", read.check}, {"index", read.index}, {"case", to_json(read.test)}};
  if (!(replay_file_from_json(written).test == read.test)) fail("a replay file is not the one that was written");
}

// --- Records ---------------------------------------------------------------------------------------------------------

/// What `wire show` prints must tile the bytes, from the first to where it says that it stopped.
void show_record(std::string_view text) {
  std::vector<std::uint8_t> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  const RecordFields record = read_fields(bytes);
  std::size_t at = 0;
  for (const RecordField& field : record.fields) {
    if (field.offset != at || field.bytes > bytes.size() - at) fail(fmt::format("wire show: {} at {} of {} bytes, after {}", field.name, field.offset, bytes.size(), at));
    at += field.bytes;
  }
  if (record.stopped.empty() && at + record.trailing != bytes.size()) fail("wire show: it says nothing about some of the bytes");
}

// --- Engines of other makes ------------------------------------------------------------------------------------------

/// What was taken, written, taken and written again: twice the same text.
template <class Read>
auto taken_twice(const json& object, Read read, const char* what) {
  auto taken = read(object);
  const std::string written = to_json(taken).dump();
  const std::string again = to_json(read(json::parse(written))).dump();
  if (again != written) fail(fmt::format("{}: {} was written, and comes back as {}", what, written, again));
  return taken;
}

void read_engine_case(std::string_view text) {
  const EngineCase test = taken_twice(parse_json(text), engine_case_from_json, "a case for engines");
  if (const auto fault = shape_fault(test); !fault.empty()) fail("a case for engines was taken, and " + fault);
}

void read_answer(std::string_view text) { taken_twice(parse_json(text), answer_from_json, "an answer"); }

void read_declaration(std::string_view text) {
  const json asked = parse_json(text);
  const json written = to_json(taken_twice(asked, declared_from_json, "a declaration"));
  for (const auto& [member, value] : asked.items()) {
    if (member == "claims" || member == "variants") continue;  // in another order; none is one without a name
    if (written.at(member) != value) fail(fmt::format("a declaration's \"{}\" was {}, and is written as {}", member, value.dump(), written.at(member).dump()));
  }
}

/// A finding of `certify --engine` or `judge`, which `replay` judges again with all explanations.
void read_engine_finding(std::string_view text) {
  const json finding = parse_json(text);
  const EngineCase test = engine_case_from_json(finding.at("case"));
  const EngineAnswer answer = answer_from_json(finding.at("answer"));
  EngineTally tally;
  const CaseVerdict verdict = judge_case(test, answer, declared_from_json(finding.at("declared")), tally, {.explain = true, .hint = true});
  if (verdict.verdict == Judgement::wrong && (verdict.sentence.empty() || verdict.law.empty())) fail("an answer is called wrong, and nothing is said of why");
}

/// Lines up to a blank one are the cases, those behind it the answers; where no line is blank, all are both.
void judge_answers(std::string_view text) {
  const std::size_t blank = text.find("\n\n");
  const std::string_view cases = text.substr(0, blank);
  const std::string_view answers = blank == std::string_view::npos ? text : text.substr(blank + 2);
  const ScratchFile file(cases);
  EngineReport report({}, "answers");
  {
    const QuietStderr quiet;  // it says of each line what is wrong with it
    AnswersJudge judge(file.path(), "");
    if (const std::string fault = judge.index(); !fault.empty()) throw std::runtime_error(fault);
    std::istringstream stream{std::string(answers)};
    judge.judge(stream, report);
  }
  if (report.cases() == 0) fail("there were cases, and no verdict about any of them");
  if (report_text(report, false).empty() || to_json(report).dump(-1, ' ', false, json::error_handler_t::replace).empty()) fail("a report without a word");
}

// --- Certificates and vectors ----------------------------------------------------------------------------------------

/// What `verify` would run, without running it; and the certificate held against itself, and against one of a run of nothing.
void read_certificate(std::string_view text) {
  const json stated = parse_json(text);
  const std::string kind = stated.is_object() ? stated.value("certificate", "") : "";
  Comparison same;
  if (kind == "kvcert") {
    if (const auto run = builtin_run_from_json(stated); run.percent < 1 || run.percent > 10000) fail("a share of cases out of its range was taken");
    static const json of_nothing = json::parse(R"({"verdict": "holds", "subject": {"program_sha1": ""}, "sections": []})");
    same = compare_builtin(stated, stated);
    compare_builtin(stated, of_nothing);
  } else if (kind == "kvcert engine") {
    const auto [source, spec] = engine_run_from_json(stated);
    if (spec.shape && (spec.shape->kv_heads < 1 || spec.shape->head_dim < 1 || spec.shape->fan_out < 1)) fail("a geometry without an element was taken");
    static const json of_nothing = to_json(EngineReport({}, "nothing"));
    same = compare_engine(stated, stated);
    compare_engine(stated, of_nothing);
  } else {
    throw std::runtime_error("it is no certificate of kvcert");
  }
  if (same.compared == 0 || same.different > 0) fail(fmt::format("a certificate differs from itself in {} of {} statements", same.different, same.compared));
}

void read_vectors(std::string_view text) {
  const VectorsReport report = check_vectors("vectors", parse_json(text));
  for (const std::string& sentence : report.faults) {
    if (sentence.empty()) fail("vectors: a fault without a sentence");
  }
  if (report.cases == 0 && report.faults.empty()) fail("vectors: a file without a case holds");
}

constexpr std::array readers{
    Reader{"test case", read_test_case},
    Reader{"replay file", read_replay_file},
    Reader{"wire show", show_record},
    Reader{"case for engines", read_engine_case},
    Reader{"answer", read_answer},
    Reader{"declaration", read_declaration},
    Reader{"finding of an engine", read_engine_finding, false},
    Reader{"cases and answers", judge_answers, false},
    Reader{"certificate", read_certificate, false},
    Reader{"vectors", read_vectors, false},
};

}  // namespace

std::span<const Reader> all_readers() { return readers; }

}  // namespace kvcert::fuzz
