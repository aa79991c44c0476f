// How cost grows with rows.
#pragma once

namespace kvcert::bench {

/// Prints cost against rows, and the slope of a straight line through their logarithms: 1 is linear, 0 flat.
void print_scaling();

}  // namespace kvcert::bench
