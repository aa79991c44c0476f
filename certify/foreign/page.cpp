#include "certify/foreign/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <kainjow/mustache.hpp>
#include <nlohmann/json.hpp>

#include "certify/foreign/judge_case.hpp"
#include "certify/foreign/page_template.hpp"

namespace kvcert::certify {
namespace {

using kainjow::mustache::data;
using nlohmann::json;

std::string text(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// 1234567 → "1,234,567".
std::string grouped(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

data tile(std::string number, std::string what) {
  data entry;
  entry.set("number", std::move(number));
  entry.set("what", std::move(what));
  return entry;
}

data tiles(const json& c) {
  data list(data::type::list);
  const auto& counts = c.at("counts");
  const auto held = counts.at("bit_identical").get<std::uint64_t>() + counts.at("within_the_bound").get<std::uint64_t>() +
                    counts.at("holds").get<std::uint64_t>();
  list << tile(fmt::format("{}", held), "checks held");
  list << tile(fmt::format("{}", counts.at("wrong").get<std::uint64_t>()), "wrong");
  list << tile(fmt::format("{}", counts.at("not_judged").get<std::uint64_t>()), "not judged");
  list << tile(grouped(counts.at("cases").get<std::uint64_t>()), "cases");
  list << tile(grouped(c.at("accuracy").at("numbers").get<std::uint64_t>()), "numbers against their bound");
  list << tile(fmt::format("{:.2f}", c.at("accuracy").at("worst_error_over_bound").get<double>()), "worst error / bound");
  return list;
}

data findings(const json& c) {
  data list(data::type::list);
  for (const json& check : c.at("checks")) {
    if (!check.contains("wrong")) continue;
    data entry;
    entry.set("check", text(check.at("name")));
    entry.set("wrong", check.at("counts").at("wrong").dump());
    entry.set("cases", check.at("cases").dump());
    for (const char* field : {"id", "sentence", "law"}) entry.set(field, text(check.at("wrong").at(field)));
    const std::string hint = text(check.at("wrong").at("hint"));
    if (!hint.empty()) entry.set("hint", hint);
    list << entry;
  }
  return list;
}

data checks(const json& c) {
  data list(data::type::list);
  for (const json& check : c.at("checks")) {
    const std::string verdict = text(check.at("verdict"));
    data entry;
    entry.set("check", text(check.at("name")));
    entry.set("verdict", verdict);
    entry.set("tone", verdict == "wrong" ? "wrong" : verdict == "not judged" ? "open" : "ok");
    entry.set("cases", check.at("cases").dump());
    entry.set("open", check.at("counts").at("not_judged").dump());
    entry.set("promise", text(check.at("promise")));
    list << entry;
  }
  return list;
}

data coverage(const json& c) {
  double most = 1;
  for (const auto& [geometry, features] : c.at("coverage").items()) {
    for (const auto& [feature, n] : features.items()) most = std::max(most, n.get<double>());
  }
  // What was asked most comes first.
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [geometry, features] : c.at("coverage").items()) order.emplace_back(features.value("attention", std::uint64_t{0}), geometry);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  data rows(data::type::list);
  for (const auto& [outputs, geometry] : order) {
    const json& features = c.at("coverage").at(geometry);
    data cells(data::type::list);
    for (const std::string& feature : coverage_features()) {
      const auto n = features.value(feature, std::uint64_t{0});
      const double strength = n == 0 ? 0 : 0.15 + 0.85 * std::log1p(static_cast<double>(n)) / std::log1p(most);
      data cell;
      cell.set("n", n == 0 ? "none" : grouped(n));
      cell.set("none", n == 0 ? "none" : "");
      cell.set("style", n == 0 ? "" : fmt::format("background: rgba(9, 105, 218, {:.2f}); color: {}", strength * 0.8, strength > 0.6 ? "#fff" : "#1f2328"));
      cells << cell;
    }
    data row;
    row.set("geometry", geometry);
    row.set("cells", cells);
    rows << row;
  }
  return rows;
}

/// Bars on a linear scale; what is too small for a bar still has its number.
std::string histogram(const std::vector<std::uint64_t>& bins) {
  std::size_t last = 0;
  std::uint64_t most = 1;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (bins[i] > 0) last = i;
    most = std::max(most, bins[i]);
  }
  const std::size_t shown = std::min(bins.size(), std::max<std::size_t>(last + 1, 8));
  const double width = 980.0 / static_cast<double>(shown);
  const auto exponent = [](std::size_t power) {
    constexpr const char* digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    return (power >= 10 ? std::string(digits[power / 10]) : "") + digits[power % 10];
  };
  std::string svg = "<svg viewBox=\"0 0 1000 230\" width=\"100%\" role=\"img\" aria-label=\"errors in ulps\">";
  for (std::size_t i = 0; i < shown; ++i) {
    const double height = 160.0 * static_cast<double>(bins[i]) / static_cast<double>(most);
    const double x = 10 + static_cast<double>(i) * width;
    const std::string label = i == 0 ? "≤ ½" : i + 1 == bins.size() ? "more" : i <= 8 ? fmt::format("≤ {}", std::uint64_t{1} << (i - 1)) : "≤ 2" + exponent(i - 1);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#0969da\"/>", x + 3, 185 - std::max(height, bins[i] > 0 ? 1.0 : 0.0),
                       width - 6, std::max(height, bins[i] > 0 ? 1.0 : 0.0));
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", x + width / 2, 180 - height, bins[i] == 0 ? "" : grouped(bins[i]));
    svg += fmt::format("<text x=\"{:.1f}\" y=\"205\" text-anchor=\"middle\">{}</text>", x + width / 2, label);
  }
  return svg + "<line x1=\"0\" y1=\"185\" x2=\"1000\" y2=\"185\" stroke=\"#59636e\"/><text x=\"0\" y=\"225\">units in the last place of binary32</text></svg>";
}

data facts(const json& c) {
  data list(data::type::list);
  const auto fact = [&](const char* key, const json& value) {
    data entry;
    entry.set("key", key);
    entry.set("value", text(value));
    list << entry;
  };
  for (const auto& [key, value] : c.at("subject").at("declared").items()) fact(("declared " + key).c_str(), value);
  for (const auto& [key, value] : c.at("suite").items()) fact(("suite " + key).c_str(), value);
  for (const auto& [key, value] : c.at("judge").items()) fact(("judge " + key).c_str(), value);
  fact("digest of all answers", c.at("digest"));
  fact("seconds, all and engine", fmt::format("{:.1f}, {:.1f}", c.at("seconds").get<double>(), c.at("engine_seconds").get<double>()));
  return list;
}

data list_of(const char* key, const json& values) {
  data list(data::type::list);
  for (const json& value : values) {
    data entry;
    entry.set(key, text(value));
    list << entry;
  }
  return list;
}

}  // namespace

std::string page(const json& c) {
  const json& subject = c.at("subject");
  data root;
  root.set("subject", text(subject.at("what")));
  root.set("name", text(subject.at("declared").at("name")));
  root.set("version", text(subject.at("declared").at("version")));
  if (!text(subject.at("option")).empty()) root.set("option", text(subject.at("option")));
  if (!text(subject.at("sha1")).empty()) root.set("sha1", text(subject.at("sha1")));
  root.set("good", c.at("verdict") == "holds" ? "good" : "");
  root.set("sentence", text(c.at("sentence")));
  root.set("tiles", tiles(c));
  const data found = findings(c);
  if (found.is_non_empty_list()) root.set("has_findings", data(data::type::bool_true));
  root.set("findings", found);
  const auto bins = c.at("accuracy").at("ulp_histogram").get<std::vector<std::uint64_t>>();
  root.set("histogram", histogram(bins));
  root.set("histogram_caption", fmt::format("{} numbers, in units of the last place of the real value's binary32 (what an engine's declared arithmetic may differ by is judged by its bound, not by this).",
                                            grouped(c.at("accuracy").at("numbers").get<std::uint64_t>())));
  root.set("features", list_of("feature", coverage_features()));
  root.set("coverage", coverage(c));
  root.set("checks", checks(c));
  root.set("gaps", list_of("gap", c.at("not_covered")));
  root.set("facts", facts(c));
  kainjow::mustache::mustache page(page_template);
  return page.render(root);
}

}  // namespace kvcert::certify
