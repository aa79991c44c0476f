// What the bounds of all kinds of rows share: the proven formula, from the scores on.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "certify/bound.hpp"
#include "certify/bound_formula.hpp"

namespace kvcert::certify {

using Formula = BoundFormula<Interval>;

double upper_end(const Interval& x);
double lower_end(const Interval& x);
double nearest(const Interval& x);
bool certainly_less(const Interval& a, const Interval& b);
bool finite(std::span<const float> numbers);

void take_engine(Formula& formula, const EngineParameters& engine);

/// Formula's z and A become t and D of every row, with softcap (0: none), sink (none, or finite), and everything that does not
/// depend on a dimension. `absolute` [n]: what a dot may be off by beside the formula's terms, before its roundings.
/// `wide` [n] or empty: rows whose products take two roundings more. Empty, or why there is no bound.
std::string settle_scores(Formula& formula, std::span<const Interval> absolute, const std::vector<bool>& wide, float softcap,
                          std::optional<float> sink);

/// One dimension's values and what happens to the sum over them.
struct Dimension {
  std::function<Interval(std::size_t row)> value;  ///< exact
  std::function<Interval(std::size_t row)> added;  ///< how far what is stored may lie from it, or none
  std::optional<float> column{};                   ///< a last factor, rounded once; its rounding is among the formula's h_v
};

/// Bound, unit, exact value and error of one dimension, appended to `result`; formula settled. Empty, or why there is no bound.
std::string bound_dimension(Formula& formula, const Dimension& dimension, double overflow, HeadBound& result,
                            std::optional<float> output);

}  // namespace kvcert::certify
