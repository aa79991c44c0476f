// Which positions an eviction keeps. Pure functions of importance; moving rows is the layer's part.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kvcert::reference {

/// The last min(keep, positions) indices, ascending.
std::vector<std::size_t> kept_recent(std::size_t positions, std::size_t keep);

/// Of `importance` [T], T > keep, the indices to keep, ascending, chosen in this order until there are `keep`: the
/// min(sink, keep) earliest; the latest of what is left, up to `recent`; the heaviest of what is left, where NaN weighs least
/// of all, −0 = +0, and of equals the earlier goes first.
/// Source: Zhang et al. 2023 (H2O, heavy hitters and recent ones); Xiao et al. 2023 (the earliest).
std::vector<std::size_t> kept_by_mass(std::span<const float> importance, std::size_t keep, std::size_t sink,
                                      std::size_t recent);

}  // namespace kvcert::reference
