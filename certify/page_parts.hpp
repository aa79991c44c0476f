// What the pages of both certificates are made of: tiles, the histogram of errors, the table of coverage.
#pragma once

#include <cstdint>
#include <kainjow/mustache.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kvcert::certify::page_parts {

using kainjow::mustache::data;

/// A string as it is, anything else as JSON.
std::string text(const nlohmann::json& value);
/// 1234567 → "1,234,567".
std::string grouped(std::uint64_t n);
/// An object of strings, for Mustache.
data object(const std::vector<std::pair<const char*, std::string>>& fields);
/// One object per string, under this key.
data list_of(const char* key, const std::vector<std::string>& values);

/// tiles: a number and what it is; `tone` "", "bad" or "open" where the number is not 0.
data tile(std::uint64_t number, const std::string& what, const char* tone = "");
/// The tiles at the head of a page, from a certificate's `counts` and what its accuracy comes to.
data summary_tiles(const nlohmann::json& counts, std::uint64_t numbers, double worst_over_bound);
/// Verdict as a CSS class: ok, wrong, open.
std::string tone_of(const std::string& verdict);

/// Bars on a linear scale; what is too small for a bar still has its number. An SVG.
std::string histogram(const std::vector<std::uint64_t>& bins);
/// geometry, and cells with n, class, and style; in the order of `geometries`.
data coverage_rows(const nlohmann::json& coverage, const std::vector<std::string>& geometries, const std::vector<std::string>& features);
/// part, speed, measured; `where` goes before the part ("avx2, ").
void add_speed(data& rows, const nlohmann::json& throughput, const std::string& where);

/// The template with the style put in and the end that all pages have (speed_caption, speeds, gaps, facts), filled.
std::string render(const std::string& page, data& root);

}  // namespace kvcert::certify::page_parts
