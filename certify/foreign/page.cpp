#include "certify/foreign/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "certify/foreign/judge_case.hpp"
#include "certify/foreign/page_template.hpp"
#include "certify/page_parts.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;
using namespace page_parts;

data findings(const json& c) {
  data list(data::type::list);
  for (const json& check : c.at("checks")) {
    if (!check.contains("wrong")) continue;
    const json& wrong = check.at("wrong");
    data entry = object({{"check", text(check.at("name"))}, {"wrong", check.at("counts").at("wrong").dump()}, {"cases", check.at("cases").dump()},
                         {"sentence", text(wrong.at("sentence"))}, {"law", text(wrong.at("law"))}});
    for (const char* field : {"id", "hint"}) {
      if (!text(wrong.at(field)).empty()) entry.set(field, text(wrong.at(field)));
    }
    list << entry;
  }
  return list;
}

data checks(const json& c) {
  data list(data::type::list);
  for (const json& check : c.at("checks")) {
    const std::string verdict = text(check.at("verdict"));
    list << object({{"check", text(check.at("name"))}, {"verdict", verdict}, {"tone", tone_of(verdict)}, {"cases", check.at("cases").dump()},
                    {"open", check.at("counts").at("not_judged").dump()}, {"promise", text(check.at("promise"))}});
  }
  return list;
}

/// What was asked most comes first.
std::vector<std::string> geometries(const json& coverage) {
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [geometry, features] : coverage.items()) order.emplace_back(features.value("attention", std::uint64_t{0}), geometry);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::vector<std::string> names;
  for (auto& [outputs, geometry] : order) names.push_back(std::move(geometry));
  return names;
}

std::string histogram_caption(const json& c) {
  std::string caption = fmt::format("{} numbers within their bound, by their distance from the real value in units of the last place of its binary32. "
                                    "Verdicts come from the bound of what the engine declares, not from this: where terms cancel, an error of many ulps can still be no more than rounding.",
                                    grouped(c.at("accuracy").at("numbers").get<std::uint64_t>()));
  if (c.at("counts").at("wrong").get<std::uint64_t>() > 0) caption += " Numbers outside their bound are not in it: they are under \"What is wrong\".";
  return caption;
}

data facts(const json& c) {
  data list(data::type::list);
  const auto fact = [&](const std::string& key, const json& value) {
    if (text(value) != "") list << object({{"key", key}, {"value", text(value)}});
  };
  for (const auto& [key, value] : c.at("subject").at("declared").items()) fact("declared " + key, value);
  for (const char* key : {"library", "program", "option"}) fact(key, c.at("subject").at(key));
  for (const auto& [key, value] : c.at("suite").items()) fact("suite " + key, value);
  for (const auto& [key, value] : c.at("judge").items()) fact("judge " + key, value);
  fact("digest of all answers", c.at("digest"));
  fact("seconds, all", fmt::format("{:.1f}", c.at("seconds").get<double>()));
  if (c.at("engine_seconds").get<double>() > 0) fact("seconds, engine", fmt::format("{:.1f}, with pipe, JSON, and cases made smaller", c.at("engine_seconds").get<double>()));
  return list;
}

}  // namespace

std::string page(const json& c) {
  const json& subject = c.at("subject");
  data root;
  root.set("subject", text(subject.at("what")));
  root.set("name", text(subject.at("declared").at("name")));
  root.set("version", text(subject.at("declared").at("version")));
  root.set("judge", text(c.at("judge").at("version")));
  if (!text(subject.at("option")).empty()) root.set("option", text(subject.at("option")));
  if (!text(subject.at("sha1")).empty()) root.set("sha1", text(subject.at("sha1")));
  root.set("good", c.at("verdict") == "holds" ? "good" : "");
  root.set("sentence", text(c.at("sentence")));
  const json& accuracy = c.at("accuracy");
  root.set("tiles", summary_tiles(c.at("counts"), accuracy.at("numbers").get<std::uint64_t>(), accuracy.at("worst_error_over_bound").get<double>()));
  const data found = findings(c);
  if (found.is_non_empty_list()) root.set("has_findings", data(data::type::bool_true));
  root.set("findings", found);
  const json& likely = c.at("likely");
  if (likely.at("checks").get<std::uint64_t>() > 0) {
    root.set("likely", fmt::format("Most likely {}: that fits {} of the {} wrong checks.", text(likely.at("hint")), likely.at("checks").get<std::uint64_t>(), c.at("counts").at("wrong").get<std::uint64_t>()));
  }
  root.set("histogram", histogram(c.at("accuracy").at("ulp_histogram").get<std::vector<std::uint64_t>>()));
  root.set("histogram_caption", histogram_caption(c));
  root.set("features", list_of("feature", coverage_features()));
  root.set("coverage", coverage_rows(c.at("coverage").is_null() ? json::object() : c.at("coverage"), geometries(c.at("coverage")), coverage_features()));
  root.set("checks", checks(c));
  data speeds(data::type::list);
  add_speed(speeds, c.at("throughput"), "");
  root.set("speed_caption", c.at("throughput").empty() ? "Not measured: the answers came over standard input."
                                                       : "A query is one query head of one position, a row a key and a value of one KV head. No verdict rests on speed.");
  root.set("speeds", speeds);
  root.set("gaps", list_of("gap", c.at("not_covered").get<std::vector<std::string>>()));
  root.set("facts", facts(c));
  return render(page_template, root);
}

}  // namespace kvcert::certify
