#include "certify/builtin_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "certify/judge.hpp"
#include "certify/page_parts.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;
using namespace page_parts;

constexpr const char* page_text = R"HTML(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>kvcert: the built-in cache</title>
<style>{{{css}}}</style></head><body>
<h1>{{subject}} {{version}}</h1>
<p class="soft">kernels {{kernels}} · seed {{seed}} · program SHA-1 <span class="mono">{{sha1}}</span></p>
<div class="verdict {{good}}">{{sentence}}</div>
<div class="tiles">{{#tiles}}<div class="tile {{tone}}"><b>{{number}}</b><span class="soft">{{what}}</span></div>{{/tiles}}</div>
{{#has_findings}}<h2>What is wrong</h2>{{/has_findings}}
{{#findings}}<div class="finding"><p><span class="v wrong">{{check}}</span> <span class="soft">on {{engine}}</span></p><p>{{sentence}}</p><p class="soft">Promised: {{promise}}</p></div>{{/findings}}
<h2>How far the outputs are from the real value</h2>
<p class="soft">{{histogram_caption}}</p>
{{{histogram}}}
<h2>What was exercised</h2>
<p class="soft">Outputs of law 14 (one query head of one position) that were held against canonical bits, the bound, or both; all kernels together. Hatched: not exercised, so nothing is said about it.</p>
<div class="scroll"><table class="heat"><tr><th class="g">KV heads × head_dim</th>{{#features}}<th>{{feature}}</th>{{/features}}</tr>
{{#coverage}}<tr><th class="g">{{geometry}}</th>{{#cells}}<td class="{{class}}" style="{{style}}">{{n}}</td>{{/cells}}</tr>
{{/coverage}}</table></div>
<h2>Checks</h2>
<p class="soft">A number is how many cases were asked; in brackets those that were too small for the check to say anything.</p>
{{#tables}}<div class="scroll"><table class="checks"><tr><th></th><th>check, and what it asks</th>{{#engines}}<th>{{engine}}</th>{{/engines}}</tr>
{{#checks}}<tr><td class="soft nw">{{group}}</td><td><b>{{check}}</b> <span class="soft">{{promise}}</span></td>{{#cells}}<td class="v {{tone}}">{{verdict}} <span class="cases">{{cases}}</span></td>{{/cells}}</tr>
{{/checks}}</table></div>
{{/tables}}<h2>The same bits</h2>
<p>{{digests}}</p>
)HTML";

/// What the sections' accuracy comes to together.
struct Sum {
  std::vector<std::uint64_t> ulps = std::vector<std::uint64_t>(ulp_bins);
  std::uint64_t numbers = 0;
  double worst = 0;
  json coverage = json::object();
};

Sum sum_of(const json& sections) {
  Sum sum;
  for (const json& section : sections) {
    if (!section.contains("accuracy")) continue;
    const json& accuracy = section.at("accuracy");
    sum.numbers += accuracy.at("numbers").get<std::uint64_t>();
    sum.worst = std::max(sum.worst, accuracy.at("worst_error_over_bound").get<double>());
    for (std::size_t i = 0; i < ulp_bins; ++i) sum.ulps[i] += accuracy.at("ulp_histogram").at(i).get<std::uint64_t>();
    for (const auto& [geometry, features] : section.at("coverage").items()) {
      for (const auto& [feature, n] : features.items()) {
        json& cell = sum.coverage[geometry][feature];
        cell = n.get<std::uint64_t>() + (cell.is_null() ? 0 : cell.get<std::uint64_t>());
      }
    }
  }
  return sum;
}

/// One row per check, one cell per section; a section that was not asked has an empty cell.
data checks(const json& sections) {
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, std::vector<const json*>> rows;
  for (std::size_t s = 0; s < sections.size(); ++s) {
    for (const json& check : sections.at(s).at("checks")) {
      const std::pair key{text(check.at("group")), text(check.at("name"))};
      if (!rows.contains(key)) order.push_back(key);
      rows.try_emplace(key, sections.size(), nullptr).first->second[s] = &check;
    }
  }
  data list(data::type::list);
  for (const auto& key : order) {
    data cells(data::type::list);
    std::string promise;
    for (const json* check : rows.at(key)) {
      if (check == nullptr) {  // not a question to this one
        cells << object({{"tone", "absent"}, {"verdict", "–"}, {"cases", ""}});
        continue;
      }
      const auto silent = check->at("not_exercised").get<std::uint64_t>();
      const std::string verdict = text(check->at("verdict"));
      const std::string shown = verdict == "bit-identical" ? "same bits" : verdict == "within the bound" ? "in bound" : verdict;
      if (promise.empty()) promise = text(check->at("promise"));
      cells << object({{"tone", tone_of(verdict)}, {"verdict", shown},
                       {"cases", grouped(check->at("cases").get<std::uint64_t>()) + (silent == 0 ? "" : fmt::format(" ({})", grouped(silent)))}});
    }
    data row = object({{"group", key.first}, {"check", key.second}, {"promise", promise}});
    row.set("cells", cells);
    list << row;
  }
  return list;
}

data table(const json& sections) {
  std::vector<std::string> engines;
  for (const json& section : sections) engines.push_back(text(section.at("engine")));
  data one;
  one.set("engines", list_of("engine", engines));
  one.set("checks", checks(sections));
  return one;
}

data findings(const json& sections) {
  data list(data::type::list);
  for (const json& section : sections) {
    for (const json& check : section.at("checks")) {
      if (check.at("verdict") != "wrong") continue;
      list << object({{"check", fmt::format("{}: {}", text(check.at("group")), text(check.at("name")))}, {"engine", text(section.at("engine"))},
                      {"sentence", text(check.value("sentence", json("")))}, {"promise", text(check.at("promise"))}});
    }
  }
  return list;
}

std::string sentence(const json& c) {
  const auto count = [&](const char* verdict) { return c.at("counts").at(verdict).get<std::uint64_t>(); };
  const auto held = count("bit_identical") + count("within_the_bound") + count("holds");
  if (c.at("verdict") == "holds") return fmt::format("HOLDS: {} checks held, none wrong", held);
  return fmt::format("DOES NOT HOLD: {} of {} checks wrong, {} not judged{}", count("wrong"), held + count("wrong") + count("not_judged"), count("not_judged"),
                     c.at("digests_agree").get<bool>() ? "" : "; the kernels' bits differ");
}

std::string digests(const json& c) {
  std::string list;
  std::size_t engines = 0;
  for (const json& section : c.at("sections")) {
    if (!section.contains("output_digest")) continue;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", text(section.at("engine")), text(section.at("output_digest")));
    ++engines;
  }
  return (engines == 1 ? "One set of kernels ran, nothing to compare: " : c.at("digests_agree").get<bool>() ? "All outputs of law 13 have one digest: " : "The digests of law 13's outputs DIFFER: ") + list;
}

data facts(const json& c) {
  data list(data::type::list);
  const auto fact = [&](const std::string& key, const std::string& value) { list << object({{"key", key}, {"value", value}}); };
  for (const auto& [key, value] : c.at("environment").items()) {
    std::string shown;
    if (value.is_array()) {
      for (const json& one : value) shown += (shown.empty() ? "" : " ") + text(one);
    } else {
      shown = text(value);
    }
    fact(key == "isas_available" ? "ISAs of this machine" : key, shown);
  }
  fact("share of the standard cases", fmt::format("{} %", c.at("percent").get<std::uint64_t>()));
  for (const json& section : c.at("sections")) {
    if (section.contains("kernel_calls")) fact("kernel calls, " + text(section.at("engine")), grouped(section.at("kernel_calls").get<std::uint64_t>()));
  }
  fact("seconds", fmt::format("{:.1f}", c.at("seconds").get<double>()));
  return list;
}

}  // namespace

std::string builtin_page(const json& c) {
  const json& sections = c.at("sections");
  const Sum sum = sum_of(sections);
  // The kernels beside each other; the exact mode and the judge, which have none, by themselves.
  json with_kernels = json::array(), without = json::array();
  std::string kernels;
  data speeds(data::type::list);
  for (const json& section : sections) {
    (section.contains("output_digest") ? with_kernels : without).push_back(section);
    if (!section.contains("throughput")) continue;
    const std::string engine = text(section.at("engine"));
    kernels += (kernels.empty() ? "" : " ") + engine;
    add_speed(speeds, section.at("throughput"), engine + ", ");
  }
  data root = object({{"subject", text(c.at("subject").at("name"))}, {"version", text(c.at("subject").at("version"))}, {"sha1", text(c.at("subject").at("program_sha1"))},
                      {"kernels", kernels}, {"seed", c.at("seed").dump()}, {"good", c.at("verdict") == "holds" ? "good" : ""}, {"sentence", sentence(c)},
                      {"digests", digests(c)}, {"histogram", histogram(sum.ulps)}});
  root.set("histogram_caption", fmt::format("{} numbers within their bound, by their distance from the real value in units of the last place of its binary32; all kernels together. Where terms cancel, an error of many ulps can still be no more than rounding.", grouped(sum.numbers)));
  root.set("tiles", summary_tiles(c.at("counts"), sum.numbers, sum.worst));
  root.set("speed_caption", "A query is one query head of one position, a row a key and a value of one KV head. "
                            "No verdict rests on speed; ./kvcert bench measures it with care.");
  const data found = findings(sections);
  if (found.is_non_empty_list()) root.set("has_findings", data(data::type::bool_true));
  root.set("findings", found);
  root.set("features", list_of("feature", builtin_features()));
  root.set("coverage", coverage_rows(sum.coverage, geometry_classes(), builtin_features()));
  data tables(data::type::list);
  for (const json& part : {with_kernels, without}) {
    if (!part.empty()) tables << table(part);
  }
  root.set("tables", tables);
  root.set("speeds", speeds);
  root.set("gaps", list_of("gap", c.at("not_covered").get<std::vector<std::string>>()));
  root.set("facts", facts(c));
  return render(page_text, root);
}

}  // namespace kvcert::certify
