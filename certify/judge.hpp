// The verdict about one answer, or about a check: bit-identical, within the bound, holds, wrong, or not judged.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "certify/bound.hpp"
#include "certify/laws/law.hpp"
#include "certify/test_case.hpp"

namespace kvcert::certify {

/// holds: the check is about neither bits nor a real value, and what it promises was so.
enum class Judgement : std::uint8_t { bit_identical, within_bound, holds, wrong, not_judged };

constexpr const char* name(Judgement judgement) {
  constexpr const char* names[] = {"bit-identical", "within the bound", "holds", "wrong", "not judged"};
  return names[static_cast<std::size_t>(judgement)];
}

/// Errors in units of the last place of the exact value's binary32: at most ½, 1, 2, 4, … 2^21, and more.
inline constexpr std::size_t ulp_bins = 24;
double ulps_of(double error, double exact);

/// Counts and worst figures over many outputs; one head of one query is one output.
struct Tally {
  std::map<Judgement, std::uint64_t> heads;
  std::map<std::string, std::uint64_t> not_judged;  ///< by the hypothesis that failed
  double worst_over_bound = 0;                      ///< error / bound
  double worst_units = 0;                           ///< error in units of u · Σ w|v|, where that unit is above 2^-120
  std::uint64_t numbers = 0;                        ///< outputs × head_dim that were held against the bound

  std::array<std::uint64_t, ulp_bins> ulps{};       ///< of those numbers
  /// Geometry → feature → judged heads.
  std::map<std::string, std::map<std::string, std::uint64_t>> coverage;

  std::uint64_t judged() const;
  /// Number d of a head that lies within its bound.
  void count(const HeadBound& bound, std::size_t d);
  /// A judged head of the built-in cache; geometries are counted by class, there are too many.
  void cover(Geometry geometry, const std::vector<std::string>& features);
  void add(const Tally& other);
};

/// The features of the built-in cache that coverage is counted by, and the classes of geometries, in the order they are shown.
const std::vector<std::string>& builtin_features();
const std::vector<std::string>& geometry_classes();

/// The visible rows of the queried head and one query head's vector.
struct HeadCase {
  std::vector<float> keys, values;  ///< [visible × HD]
  HeadInput input(const TestCase& test, std::size_t head) const;
  explicit HeadCase(const TestCase& test);
};

/// Holds every head's output of `out` [heads × HD] against the bound of `engine` parameters (canonical ones by default
/// sizes) and adds to the tally. The outcome is violated at the first number whose error exceeds its bound.
/// `canonical`, where given, are bits that the engine claims: equal bits count as bit_identical, other bits are wrong.
Outcome judge(const TestCase& test, std::span<const float> out, std::span<const float> canonical, Tally& tally);

}  // namespace kvcert::certify
