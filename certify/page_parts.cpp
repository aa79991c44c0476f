#include "certify/page_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "certify/page_style.hpp"
#include "certify/throughput.hpp"

namespace kvcert::certify::page_parts {

using nlohmann::json;

std::string text(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string grouped(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

data object(const std::vector<std::pair<const char*, std::string>>& fields) {
  data entry;
  for (const auto& [key, value] : fields) entry.set(key, value);
  return entry;
}

data list_of(const char* key, const std::vector<std::string>& values) {
  data list(data::type::list);
  for (const std::string& value : values) list << object({{key, value}});
  return list;
}

data tile(std::uint64_t number, const std::string& what, const char* tone) {
  return object({{"number", grouped(number)}, {"what", what}, {"tone", number == 0 ? "" : tone}});
}

data summary_tiles(const json& counts, std::uint64_t numbers, double worst_over_bound) {
  const auto count = [&](const char* verdict) { return counts.at(verdict).get<std::uint64_t>(); };
  data list(data::type::list);
  list << tile(count("bit_identical") + count("within_the_bound") + count("holds"), "checks held");
  list << tile(count("wrong"), "wrong", "bad");
  list << tile(count("not_judged"), "not judged", "open");
  list << tile(count("cases"), "cases");
  list << tile(numbers, "numbers within their bound");
  list << object({{"number", fmt::format("{:.3g}", worst_over_bound)}, {"what", "their worst error / bound"}, {"tone", ""}});
  return list;
}

std::string tone_of(const std::string& verdict) { return verdict == "wrong" ? "wrong" : verdict == "not judged" ? "open" : "ok"; }

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
    const double height = bins[i] == 0 ? 0.0 : std::max(1.0, 155.0 * static_cast<double>(bins[i]) / static_cast<double>(most));
    const double x = 10 + static_cast<double>(i) * width;
    const std::string label = i == 0 ? "≤ ½" : i + 1 == bins.size() ? "more" : i <= 8 ? fmt::format("≤ {}", std::uint64_t{1} << (i - 1)) : "≤ 2" + exponent(i - 1);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", x + 3, 185 - height, width - 6, height);
    // Above many narrow bars whole numbers would run into each other.
    const std::string number = bins[i] == 0 ? "" : width > 65 || bins[i] < 10000 ? grouped(bins[i]) : bins[i] < 1000000 ? fmt::format("{:.0f}k", static_cast<double>(bins[i]) / 1e3) : fmt::format("{:.1f}M", static_cast<double>(bins[i]) / 1e6);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", x + width / 2, 180 - height, number);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"205\" text-anchor=\"middle\">{}</text>", x + width / 2, label);
  }
  return svg + "<line x1=\"0\" y1=\"185\" x2=\"1000\" y2=\"185\"/><text x=\"0\" y=\"225\">units in the last place of binary32</text></svg>";
}

data coverage_rows(const json& coverage, const std::vector<std::string>& geometries, const std::vector<std::string>& features) {
  double most = 1;
  for (const auto& [geometry, counts] : coverage.items()) {
    for (const auto& [feature, n] : counts.items()) most = std::max(most, n.get<double>());
  }
  data rows(data::type::list);
  for (const std::string& geometry : geometries) {
    const json counts = coverage.value(geometry, json::object());
    data cells(data::type::list);
    for (const std::string& feature : features) {
      const auto n = counts.value(feature, std::uint64_t{0});
      const double strength = n == 0 ? 0 : 0.1 + 0.75 * std::log1p(static_cast<double>(n)) / std::log1p(most);
      cells << object({{"n", n == 0 ? "none" : grouped(n)}, {"class", n == 0 ? "none" : strength > 0.5 ? "deep" : ""}, {"style", fmt::format("--s: {:.2f}", strength)}});
    }
    data row;
    row.set("geometry", geometry);
    row.set("cells", cells);
    rows << row;
  }
  return rows;
}

void add_speed(data& rows, const json& throughput, const std::string& where) {
  for (const json& t : throughput) {
    Throughput entry{text(t.at("part")), text(t.at("measured")), text(t.at("unit")), t.at("calls"), t.at("count"), t.at("seconds"), {}};
    if (t.contains("visible_rows_each")) entry.visible_rows = t.at("visible_rows_each").get<double>();
    rows << object({{"part", where + entry.part}, {"speed", speed_text(entry)}, {"measured", entry.measured}});
  }
}

constexpr const char* page_end = R"HTML(<h2>Speed</h2>
<p class="soft">{{speed_caption}}</p>
<table>{{#speeds}}<tr><td>{{part}}</td><td>{{speed}}</td><td class="soft">{{measured}}</td></tr>{{/speeds}}</table>
<h2>What this page does not say</h2>
<ul>{{#gaps}}<li>{{gap}}</li>{{/gaps}}</ul>
<h2>How it was made</h2>
<table>{{#facts}}<tr><td class="key">{{key}}</td><td class="mono">{{value}}</td></tr>{{/facts}}</table>
</body></html>
)HTML";

std::string render(const std::string& page, data& root) {
  root.set("css", page_style);
  kainjow::mustache::mustache filled(page + page_end);
  return filled.render(root);
}

}  // namespace kvcert::certify::page_parts
