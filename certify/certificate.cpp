#include "certify/certificate.hpp"

#include <fmt/color.h>
#include <fmt/format.h>

#include <array>
#include <boost/uuid/detail/sha1.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "certify/build_info.hpp"
#include "optimized/dispatch.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

std::string counted(std::uint64_t n, const char* one, const char* many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

fmt::text_style style_of(Judgement verdict) {
  if (verdict == Judgement::wrong) return fmt::fg(fmt::terminal_color::red) | fmt::emphasis::bold;
  if (verdict == Judgement::not_judged) return fmt::fg(fmt::terminal_color::yellow);
  return fmt::fg(fmt::terminal_color::green);
}

/// The text cut to so many columns. Characters outside ASCII count as one, and are never cut in two.
std::string fit(const std::string& text, std::size_t columns) {
  std::size_t width = 0;
  std::size_t room = 0;  // bytes that leave a column for the sign that something is missing
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80) continue;  // inside a character
    if (++width == columns) room = i;
    if (width > columns) return columns == 0 ? "" : text.substr(0, room) + "…";
  }
  return text;
}

std::string painted(const std::string& text, Judgement verdict, bool color) {
  return color ? fmt::format(style_of(verdict), "{}", text) : text;
}

}  // namespace

std::uint64_t Certificate::count(Judgement verdict) const {
  std::uint64_t n = 0;
  for (const Section& section : sections) {
    for (const Finding& finding : section.findings) n += finding.verdict == verdict ? 1 : 0;
  }
  return n;
}

std::uint64_t Certificate::cases() const {
  std::uint64_t n = 0;
  for (const Section& section : sections) {
    for (const Finding& finding : section.findings) n += finding.cases;
  }
  return n;
}

bool Certificate::digests_agree() const {
  const Section* first = nullptr;
  for (const Section& section : sections) {
    if (!section.has_outputs) continue;
    if (first == nullptr) first = &section;
    if (section.digest != first->digest) return false;
  }
  return first != nullptr;
}

bool Certificate::holds() const {
  return count(Judgement::wrong) == 0 && count(Judgement::not_judged) == 0 && digests_agree();
}

std::string subject_hash() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  if (!file) return "unknown";
  boost::uuids::detail::sha1 sha1;
  std::array<char, 65536> block;
  while (file.read(block.data(), block.size()) || file.gcount() > 0) {
    sha1.process_bytes(block.data(), static_cast<std::size_t>(file.gcount()));
  }
  unsigned digest[5];
  sha1.get_digest(digest);
  std::string text;
  for (unsigned word : digest) text += fmt::format("{:08x}", word);
  return text;
}

std::vector<std::string> not_covered() {
  std::vector<std::string> gaps{
      "laws were tried on generated cases, not on all inputs; what is proven is about models: see SOUNDNESS.md",
      "the bound is proven; that nothing overflows is asked by a condition which is sufficient on paper",
      "what int8 rows and rings add to the bound is derived on paper, not machine-checked",
      "sealed O(1) steps are held to canonical bits, not to a bound"};
  for (auto isa : {optimized::Isa::scalar, optimized::Isa::avx2, optimized::Isa::avx512, optimized::Isa::neon}) {
    if (!optimized::is_available(isa)) {
      gaps.push_back(fmt::format("the {} kernels were not run: this machine does not have the instructions", optimized::name(isa)));
    }
  }
  return gaps;
}

json to_json(const Certificate& certificate) {
  json sections = json::array();
  for (const Section& section : certificate.sections) {
    json checks = json::array();
    for (std::size_t i = 0; i < section.findings.size(); ++i) {
      const Check& check = section.checks[i];
      const Finding& finding = section.findings[i];
      json entry{{"group", check.group},         {"name", check.name},
                 {"promise", check.promise},     {"verdict", name(finding.verdict)},
                 {"cases", finding.cases},       {"not_exercised", finding.not_exercised},
                 {"seconds", finding.seconds}};
      if (!finding.sentence.empty()) entry["sentence"] = finding.sentence;
      if (finding.smallest) entry["smallest_case"] = to_json(*finding.smallest);
      checks.push_back(std::move(entry));
    }
    json entry{{"engine", section.engine}, {"checks", std::move(checks)}};
    if (section.has_outputs) {
      entry["output_digest"] = fmt::format("{:016x}", section.digest);
      entry["kernel_calls"] = section.kernel_calls;
      entry["throughput"] = to_json(section.throughput);
      entry["accuracy"] = {{"numbers", section.tally.numbers},
                           {"worst_error_over_bound", section.tally.worst_over_bound},
                           {"worst_error_in_units_of_u_sum_w_v", section.tally.worst_units},
                           {"heads_outside_the_hypotheses", section.tally.not_judged},
                           {"ulp_histogram", section.tally.ulps}};
      entry["coverage"] = section.tally.coverage;
    }
    sections.push_back(std::move(entry));
  }
  std::vector<std::string> isas;
  for (auto isa : optimized::available_isas()) isas.emplace_back(optimized::name(isa));
  return {{"certificate", "kvcert"},
          {"format", 1},
          {"verdict", certificate.holds() ? "holds" : "does not hold"},
          {"subject",
           {{"name", "kvcert built-in cache"}, {"version", build::version}, {"program_sha1", subject_hash()}}},
          {"environment",
           {{"compiler", build::compiler()}, {"flags", build::flags}, {"isas_available", isas}, {"machine", build::machine()}}},
          {"seed", certificate.seed},
          {"percent", certificate.percent},
          {"seconds", certificate.seconds},
          {"counts",
           {{"cases", certificate.cases()},
            {"bit_identical", certificate.count(Judgement::bit_identical)},
            {"within_the_bound", certificate.count(Judgement::within_bound)},
            {"holds", certificate.count(Judgement::holds)},
            {"wrong", certificate.count(Judgement::wrong)},
            {"not_judged", certificate.count(Judgement::not_judged)}}},
          {"digests_agree", certificate.digests_agree()},
          {"sections", std::move(sections)},
          {"not_covered", not_covered()}};
}

std::string table_head(std::size_t columns) {
  return fmt::format("  {:<12}{:<19}{:<17}{:>6}{}  {}", "", "check", "verdict", "cases", columns < 100 ? "" : "    time", "what was asked");
}

std::string table_line(const Check& check, const Finding& finding, bool color, std::size_t columns) {
  const std::string left = fmt::format("  {:<12}{:<19}", check.group, check.name);
  const std::string verdict = fmt::format("{:<17}", name(finding.verdict));
  std::string right = fmt::format("{:>6}", finding.cases);
  if (columns >= 100) right += fmt::format("{:>6.1f} s", finding.seconds);
  right += "  ";
  const std::size_t taken = left.size() + verdict.size() + right.size();
  return left + painted(verdict, finding.verdict, color) + right + fit(check.promise, columns > taken ? columns - taken : 0);
}

std::string summary(const Certificate& certificate, bool color) {
  std::string text = "\n";
  Tally accuracy;
  std::string digests;
  std::uint64_t engines = 0;
  std::uint64_t silent = 0;
  for (const Section& section : certificate.sections) {
    accuracy.add(section.tally);
    for (const Finding& finding : section.findings) silent += finding.not_exercised;
    if (!section.has_outputs) continue;
    digests += fmt::format("{}{} {:016x}", digests.empty() ? "" : ", ", section.engine, section.digest);
    ++engines;
  }
  text += fmt::format("accuracy  {} numbers within their bound; the worst error is {:.2f} of it\n", accuracy.numbers, accuracy.worst_over_bound);
  for (const auto& [why, heads] : accuracy.not_judged) {
    text += fmt::format("          {} outside the bound's hypotheses ({}): judged by canonical bits only\n",
                        counted(heads, "head", "heads"), why);
  }
  text += fmt::format("outputs   {}: {}\n", engines == 1 ? "one engine, nothing to compare"
                                            : certificate.digests_agree() ? "the same bits" : "THE BITS DIFFER", digests);
  for (const Section& section : certificate.sections) {
    for (const Throughput& t : section.throughput) text += fmt::format("speed     {}, {}: {}\n", section.engine, t.part, speed_text(t));
  }
  text += fmt::format("cases     {}, seed {}; {} said nothing, having no row that the law is about\n", certificate.cases(), certificate.seed, silent);
  if (certificate.percent != 100) text += fmt::format("          {} % of the standard number\n", certificate.percent);
  for (const std::string& gap : not_covered()) text += fmt::format("not said  {}\n", gap);
  const auto wrong = certificate.count(Judgement::wrong);
  const auto unjudged = certificate.count(Judgement::not_judged);
  std::uint64_t checks = 0;
  for (const Section& section : certificate.sections) checks += section.findings.size();
  std::string verdict = certificate.holds()
                            ? fmt::format("HOLDS: {} in {:.0f} s, none wrong", counted(checks, "check", "checks"), certificate.seconds)
                            : fmt::format("DOES NOT HOLD: {} of {} wrong, {} not judged", wrong, counted(checks, "check", "checks"), unjudged);
  if (wrong > 0) verdict += "; the smallest cases are above, each with the command that runs it again";
  const Judgement tone = certificate.holds() ? Judgement::bit_identical : Judgement::wrong;
  return text + painted("verdict   " + verdict, tone, color) + "\n";
}

}  // namespace kvcert::certify
