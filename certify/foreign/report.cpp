#include "certify/foreign/report.hpp"

#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/uuid/detail/sha1.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "certify/build_info.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

std::string promise_of(const std::string& name) {
  for (const SuiteCheck& check : suite_checks()) {
    if (check.name == name) return check.promise;
  }
  if (name == "environment") return "the library leaves FTZ, DAZ, rounding and exceptions alone";
  if (name == "variants") return "all variants give the same bits";
  return "";
}

std::string painted(const std::string& text, Judgement verdict, bool color) {
  if (!color) return text;
  const auto style = verdict == Judgement::wrong        ? fmt::fg(fmt::terminal_color::red) | fmt::emphasis::bold
                     : verdict == Judgement::not_judged ? fmt::fg(fmt::terminal_color::yellow)
                                                        : fmt::fg(fmt::terminal_color::green);
  return fmt::format(style, "{}", text);
}

const char* field(Judgement judgement) {
  constexpr const char* names[] = {"bit_identical", "within_the_bound", "holds", "wrong", "not_judged"};
  return names[static_cast<std::size_t>(judgement)];
}

constexpr std::array all_judgements{Judgement::bit_identical, Judgement::within_bound, Judgement::holds, Judgement::wrong, Judgement::not_judged};

json check_json(const CheckResult& check) {
  json entry{{"name", check.name}, {"promise", check.promise}, {"verdict", name(check.verdict())}, {"cases", check.cases}};
  for (Judgement judgement : all_judgements) entry["counts"][field(judgement)] = check.count(judgement);
  if (!check.why_not.empty()) entry["not_judged_because"] = check.why_not;
  if (check.count(Judgement::wrong) > 0) {
    entry["wrong"] = {{"id", check.wrong_id}, {"sentence", check.first_wrong}, {"law", check.law}, {"hint", check.hint()}};
  }
  return entry;
}

/// What this certificate does not speak about: checks without a judged case, and what no such run can say.
std::vector<std::string> gaps(const EngineReport& report) {
  std::vector<std::string> sentences;
  for (const CheckResult& check : report.checks()) {
    if (check.verdict() != Judgement::not_judged) continue;
    std::string why;
    for (const auto& [reason, n] : check.why_not) why += (why.empty() ? "" : "; ") + reason;
    sentences.push_back(fmt::format("{}: {}", check.name, why.empty() ? "no case" : why));
  }
  sentences.emplace_back("generated cases, not all inputs");
  sentences.emplace_back("one sequence in one thread");
  sentences.emplace_back(report.throughput.empty() ? "speed: answers came over standard input, and nobody could time the engine"
                                                   : "speed is what these small cases took on this machine at that time; no verdict rests on it");
  return sentences;
}

}  // namespace

Judgement CheckResult::verdict() const {
  if (count(Judgement::wrong) > 0) return Judgement::wrong;
  for (Judgement judgement : {Judgement::within_bound, Judgement::bit_identical, Judgement::holds}) {
    if (count(judgement) > 0) return judgement;
  }
  return Judgement::not_judged;
}

std::string CheckResult::hint() const {
  std::string most;
  std::uint64_t times = 0;
  for (const auto& [text, n] : hints) {
    if (n == times) most += "; or " + text;
    if (n > times) most = text;
    times = std::max(times, n);
  }
  return 2 * times >= count(Judgement::wrong) ? most : "";  // what fits fewer than half of the cases is no cause
}

CheckResult& EngineReport::check(const std::string& name) {
  const auto [found, added] = by_name_.try_emplace(name, checks_.size());
  if (added) {
    checks_.emplace_back();
    checks_.back().name = name;
    checks_.back().promise = promise_of(name);
  }
  return checks_[found->second];
}

bool EngineReport::add(const std::string& name, const std::string& id, const CaseVerdict& verdict) {
  CheckResult& result = check(name);
  ++result.cases;
  ++result.counts[verdict.verdict];
  std::uint64_t mixed = verdict.digest;
  for (char c : id) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  digest += mixed;
  if (verdict.verdict == Judgement::not_judged) ++result.why_not[verdict.sentence];
  for (std::size_t at = 0; !verdict.hint.empty() && at != std::string::npos;) {  // "it answers as if A, or as if B": each counts
    const auto end = verdict.hint.find(", or as if ", at);
    const std::string one = verdict.hint.substr(at, end == std::string::npos ? end : end - at);
    ++result.hints[at == 0 ? one : "it answers " + one];
    at = end == std::string::npos ? end : end + 5;
  }
  if (verdict.verdict != Judgement::wrong || result.count(Judgement::wrong) > 1) return false;
  result.first_wrong = verdict.sentence;
  result.law = verdict.law;
  result.wrong_id = id;
  return true;
}

std::uint64_t EngineReport::count(Judgement judgement) const {
  return static_cast<std::uint64_t>(std::count_if(checks_.begin(), checks_.end(), [&](const auto& c) { return c.verdict() == judgement; }));
}

std::uint64_t EngineReport::cases() const {
  std::uint64_t n = 0;
  for (const CheckResult& check : checks_) n += check.cases;
  return n;
}

std::string EngineReport::verdict_sentence() const {
  const auto wrong = count(Judgement::wrong);
  const auto unjudged = count(Judgement::not_judged);
  const auto held = checks_.size() - wrong - unjudged;
  if (wrong > 0) return fmt::format("DOES NOT HOLD: {} of {} checks wrong, {} held, {} not judged", wrong, checks_.size(), held, unjudged);
  if (tally.heads.judged() == 0) return "DOES NOT HOLD: no output could be held against canonical bits or a bound";
  return fmt::format("HOLDS: {} {} held, none wrong{}", held, held == 1 ? "check" : "checks", unjudged == 0 ? "" : fmt::format(", {} not judged", unjudged));
}

EngineReport::Likely EngineReport::likely() const {
  std::map<std::string, Likely> causes;
  std::vector<std::string> order;
  for (const CheckResult& check : checks_) {
    const std::string all = check.hint();
    for (std::size_t at = 0; !all.empty() && at != std::string::npos;) {
      const auto end = all.find("; or ", at);
      const std::string one = all.substr(at, end == std::string::npos ? end : end - at);
      Likely& cause = causes[one];
      if (cause.checks++ == 0) {
        order.push_back(one);
        cause.hint = one;
        cause.finding_file = check.finding_file;
      }
      at = end == std::string::npos ? end : end + 5;
    }
  }
  Likely most;
  for (const std::string& one : order) {
    if (causes[one].checks > most.checks) most = causes[one];
  }
  return 2 * most.checks >= count(Judgement::wrong) ? most : Likely{};
}

json to_json(const EngineReport& report) {
  json checks = json::array();
  for (const CheckResult& check : report.checks()) checks.push_back(check_json(check));
  json suite{{"name", report.suite.suite}, {"seed", report.suite.seed}, {"count", report.suite.count}, {"type", name(report.suite.type)}};
  if (report.suite.shape) {
    suite["geometry"] = fmt::format("{}x{}", report.suite.shape->kv_heads, report.suite.shape->head_dim);
    suite["fanout"] = report.suite.shape->fan_out;
    suite["shape"] = {report.suite.shape->kv_heads, report.suite.shape->head_dim, report.suite.shape->fan_out};
  }
  json counts{{"cases", report.cases()}, {"checks", report.checks().size()}};
  for (Judgement judgement : all_judgements) counts[field(judgement)] = report.count(judgement);
  json heads;
  for (Judgement judgement : all_judgements) {
    const auto found = report.tally.heads.heads.find(judgement);
    heads[field(judgement)] = found == report.tally.heads.heads.end() ? 0 : found->second;
  }
  return {{"certificate", "kvcert engine"},
          {"format", 1},
          {"verdict", report.holds() ? "holds" : "does not hold"},
          {"sentence", report.verdict_sentence()},
          {"subject", {{"what", report.subject}, {"sha1", report.subject_sha1}, {"option", report.option}, {"library", report.library}, {"program", report.program}, {"declared", to_json(report.declared)}}},
          {"judge", {{"version", build::version}, {"compiler", build::compiler()}, {"flags", build::flags}, {"machine", build::machine()}}},
          {"suite", std::move(suite)},
          {"seconds", report.seconds},
          {"engine_seconds", report.engine_seconds},
          {"throughput", to_json(report.throughput)},
          {"counts", std::move(counts)},
          {"outputs", std::move(heads)},
          {"accuracy",
           {{"numbers", report.tally.heads.numbers},
            {"worst_error_over_bound", report.tally.heads.worst_over_bound},
            {"worst_error_in_units_of_u_sum_w_v", report.tally.heads.worst_units},
            {"outputs_outside_the_hypotheses", report.tally.heads.not_judged},
            {"ulp_histogram", report.tally.heads.ulps}}},
          {"coverage", report.tally.heads.coverage},
          {"not_offered", report.tally.not_offered},
          {"likely", {{"hint", report.likely().hint}, {"checks", report.likely().checks}}},
          {"digest", fmt::format("{:016x}", report.digest)},
          {"checks", std::move(checks)},
          {"not_covered", gaps(report)}};
}

std::string report_text(const EngineReport& report, bool color) {
  std::string text = fmt::format("  {:<21}{:<18}{:>6}{:>8}  {}\n", "check", "verdict", "cases", "judged", "what was asked");
  for (const CheckResult& check : report.checks()) {
    const Judgement verdict = check.verdict();
    text += fmt::format("  {:<21}{}{:>6}{:>8}  {}\n", check.name, painted(fmt::format("{:<18}", name(verdict)), verdict, color), check.cases,
                        check.cases - check.count(Judgement::not_judged), check.promise);
  }
  for (const CheckResult& check : report.checks()) {
    if (check.count(Judgement::wrong) == 0) continue;
    text += fmt::format("\n{}  {}: {}, in {} of {} cases\n       {}\n       broken: {}\n", painted("wrong", Judgement::wrong, color), check.name,
                        check.wrong_id, check.count(Judgement::wrong), check.cases, check.first_wrong, check.law);
    if (!check.hint().empty()) text += fmt::format("       hint:   {}\n", check.hint());
    if (!check.finding_file.empty()) text += fmt::format("       replay: ./kvcert replay {}\n", check.finding_file);
  }
  const Tally& heads = report.tally.heads;
  text += fmt::format("\naccuracy  {} numbers within their bound; the worst error is {:.3g} of it\n", heads.numbers, heads.worst_over_bound);
  for (const auto& [why, n] : heads.not_judged) text += fmt::format("          {} outputs outside the bound's hypotheses: {}\n", n, why);
  for (const Throughput& t : report.throughput) text += fmt::format("speed     {}: {}, {}\n", t.part, speed_text(t), t.measured);
  text += fmt::format("cases     {}, seed {}; the judge's digest of all answers is {:016x}\n", report.cases(), report.suite.seed, report.digest);
  for (const CheckResult& check : report.checks()) {
    for (const auto& [why, n] : check.why_not) text += fmt::format("not said  {}: {} of {} cases not judged: {}\n", check.name, n, check.cases, why);
  }
  if (const auto likely = report.likely(); likely.checks > 0) {
    text += fmt::format("likely    {}: that fits {} of the {} wrong checks{}\n", likely.hint, likely.checks, report.count(Judgement::wrong),
                        likely.finding_file.empty() ? "" : fmt::format("; begin with ./kvcert replay {}", likely.finding_file));
  } else {
    const auto first = std::ranges::find_if(report.checks(), [](const CheckResult& check) { return !check.finding_file.empty(); });
    if (first != report.checks().end()) text += fmt::format("likely    no misreading that is known here fits; begin with ./kvcert replay {}\n", first->finding_file);
  }
  const Judgement tone = report.holds() ? Judgement::within_bound : Judgement::wrong;
  return text + painted("verdict   " + report.verdict_sentence(), tone, color) + "\n";
}

std::string file_sha1(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "unknown";
  boost::uuids::detail::sha1 sha1;
  std::array<char, 65536> block;
  while (file.read(block.data(), block.size()) || file.gcount() > 0) sha1.process_bytes(block.data(), static_cast<std::size_t>(file.gcount()));
  unsigned digest[5];
  sha1.get_digest(digest);
  std::string text;
  for (unsigned word : digest) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace kvcert::certify
