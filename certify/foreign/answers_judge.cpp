#include "certify/foreign/answers_judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "certify/foreign/runner.hpp"
#include "certify/json_text.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

constexpr std::size_t longest_line = std::size_t{1} << 28U;
constexpr std::uint64_t shown_problems = 20;

std::uint64_t hash_of(const std::string& id) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

enum class Read { line, too_long, end };

/// A line, without keeping more than the longest that makes sense.
Read next_line(std::istream& stream, std::string& text) {
  text.clear();
  std::streambuf* buffer = stream.rdbuf();
  bool any = false;
  bool cut = false;
  for (int c = buffer->sbumpc(); c != std::char_traits<char>::eof(); c = buffer->sbumpc()) {
    any = true;
    if (c == '\n') return cut ? Read::too_long : Read::line;
    if (text.size() < longest_line) text.push_back(static_cast<char>(c));
    else cut = true;
  }
  stream.setstate(std::ios::eofbit);
  return !any ? Read::end : cut ? Read::too_long : Read::line;
}

/// The cases' file chooses ids, and must not choose where a finding goes.
std::string file_name(std::string id) {
  for (char& c : id) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!plain) c = '_';
  }
  return id.substr(0, 200) + ".json";
}

bool blank(const std::string& text) { return text.find_first_not_of(" \t\r") == std::string::npos; }

}  // namespace

AnswersJudge::AnswersJudge(std::string cases_file, std::string findings)
    : path_(std::move(cases_file)), findings_(std::move(findings)), file_(path_, std::ios::binary) {}

std::string AnswersJudge::index() {
  if (!file_) return fmt::format("cannot read {}", path_);
  std::string text;
  std::uint64_t number = 0;
  for (std::uint64_t offset = 0;; offset = static_cast<std::uint64_t>(file_.rdbuf()->pubseekoff(0, std::ios::cur, std::ios::in))) {
    const Read got = next_line(file_, text);
    if (got == Read::end) break;
    ++number;
    if (got == Read::line && blank(text)) continue;
    try {
      if (got == Read::too_long) throw std::runtime_error(fmt::format("longer than {} bytes", longest_line));
      entries_.push_back({hash_of(engine_case_from_json(parse_json(text)).id), offset << 1U});
    } catch (const std::exception& fault) {
      ++malformed_cases_;
      if (first_malformed_case_.empty()) first_malformed_case_ = fmt::format("{} line {}: {}", path_, number, fault.what());
    }
  }
  file_.clear();
  if (entries_.empty()) return first_malformed_case_.empty() ? fmt::format("{} holds no case", path_) : first_malformed_case_;
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.hash < b.hash; });
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i].hash != entries_[i - 1].hash) continue;
    return fmt::format("{} has the id \"{}\" twice", path_, read_case(entries_[i].offset_and_answered >> 1U).id);
  }
  return {};
}

EngineCase AnswersJudge::read_case(std::uint64_t offset) {
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(offset));
  std::string text;
  next_line(file_, text);
  return engine_case_from_json(parse_json(text));
}

AnswersJudge::Entry* AnswersJudge::find(const std::string& id, EngineCase& test) {
  const std::uint64_t hash = hash_of(id);
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), hash, [](const Entry& e, std::uint64_t h) { return e.hash < h; });
  if (found == entries_.end() || found->hash != hash) return nullptr;
  test = read_case(found->offset_and_answered >> 1U);
  return test.id == id ? &*found : nullptr;
}

void AnswersJudge::problem(EngineReport& report, const std::string& sentence) {
  if (problems_++ < shown_problems) fmt::print(stderr, "kvcert: {}\n", sentence);
  if (problems_ == shown_problems + 1) fmt::print(stderr, "kvcert: more lines like these are counted, and not shown\n");
  CaseVerdict verdict;
  verdict.verdict = Judgement::wrong;
  verdict.law = "the protocol";
  verdict.sentence = sentence;
  report.add("protocol", "", verdict);
}

void AnswersJudge::line(const std::string& text, std::uint64_t number, EngineReport& report) {
  EngineAnswer answer;
  try {
    const json object = parse_json(text);
    if (object.is_object() && object.contains("engine") && !object.contains("id")) {
      if (answered_any_) throw std::runtime_error("the declaration must come before the first answer");
      report.declared = declared_from_json(object.at("engine"));
      return;
    }
    answer = answer_from_json(object);
  } catch (const std::exception& fault) {
    return problem(report, fmt::format("answers line {}: {}", number, fault.what()));
  }
  answered_any_ = true;
  EngineCase test;
  Entry* entry = find(answer.id, test);
  if (entry == nullptr) return problem(report, fmt::format("answers line {}: no case has the id \"{}\"", number, answer.id.substr(0, 80)));
  if ((entry->offset_and_answered & 1U) != 0) return problem(report, fmt::format("answers line {}: a second answer to \"{}\", not looked at", number, answer.id));
  entry->offset_and_answered |= 1U;
  const CaseVerdict verdict = judge_case(test, answer, report.declared, report.tally);
  if (!report.add(test.check, test.id, verdict) || findings_.empty()) return;
  const std::string file = (std::filesystem::path(findings_) / file_name(test.id)).string();
  if (write_finding(file, test, answer, report.declared, verdict, {}, 0)) report.check(test.check).finding_file = file;
}

void AnswersJudge::missing(EngineReport& report) {
  for (const Entry& entry : entries_) {
    if ((entry.offset_and_answered & 1U) != 0) continue;
    const EngineCase test = read_case(entry.offset_and_answered >> 1U);
    CaseVerdict verdict;
    verdict.verdict = Judgement::wrong;
    verdict.law = "the protocol";
    verdict.sentence = "there is no answer";
    report.add(test.check, test.id, verdict);
  }
}

void AnswersJudge::judge(std::istream& answers, EngineReport& report) {
  if (malformed_cases_ > 0) problem(report, fmt::format("{} lines of the cases are none, the first: {}", malformed_cases_, first_malformed_case_));
  std::string text;
  for (std::uint64_t number = 1;; ++number) {
    const Read got = next_line(answers, text);
    if (got == Read::end) break;
    if (got == Read::too_long) problem(report, fmt::format("answers line {}: longer than {} bytes", number, longest_line));
    else if (!blank(text)) line(text, number, report);
  }
  missing(report);
}

}  // namespace kvcert::certify
