#include "reference/evict.hpp"

#include <algorithm>
#include <numeric>

#include "reference/binary32.hpp"

namespace kvcert::reference {

std::vector<std::size_t> kept_recent(std::size_t positions, std::size_t keep) {
  std::vector<std::size_t> kept(std::min(keep, positions));
  std::iota(kept.begin(), kept.end(), positions - kept.size());
  return kept;
}

std::vector<std::size_t> kept_by_mass(std::span<const float> importance, std::size_t keep, std::size_t sink,
                                      std::size_t recent) {
  const std::size_t positions = importance.size();
  keep = std::min(keep, positions);
  const std::size_t earliest = std::min(sink, keep);             // positions 0 … earliest − 1
  const std::size_t latest = std::min(recent, keep - earliest);  // the last `latest`, none of them among the earliest
  std::vector<std::size_t> between(positions - earliest - latest);
  std::iota(between.begin(), between.end(), earliest);

  const auto goes_first = [&](std::size_t a, std::size_t b) {
    const Binary32 mass_a = Binary32::of(importance[a]);
    const Binary32 mass_b = Binary32::of(importance[b]);
    if (mass_a.is_nan() != mass_b.is_nan()) return mass_b.is_nan();
    if (mass_b < mass_a) return true;
    if (mass_a < mass_b) return false;
    return a < b;  // equal, or both NaN
  };
  std::ranges::sort(between, goes_first);
  between.resize(keep - earliest - latest);

  std::vector<std::size_t> kept(earliest);
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  kept.insert(kept.end(), between.begin(), between.end());
  for (std::size_t position = positions - latest; position < positions; ++position) kept.push_back(position);
  std::ranges::sort(kept);
  return kept;
}

}  // namespace kvcert::reference
