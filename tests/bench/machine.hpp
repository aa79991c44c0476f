// What the machine can do at most: loads, and multiply-adds, that do nothing else.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "optimized/isa.hpp"

namespace kvcert::bench {

/// Every way tried here to read both buffers, which are equally long: 1, 2 and 4 streams, with hints and without. The
/// best of them is the bandwidth.
std::vector<std::function<void()>> reads(std::span<const float> huge_pages, std::span<const float> ordinary);

/// Multiply-adds of binary32 as fast as the ISA's registers allow (scalar: SSE's multiplications and additions, as the
/// baseline has no fma), and how many of them a call does.
struct MultiplyAdds {
  std::function<void()> call;
  double count;
};
MultiplyAdds multiply_adds(optimized::Isa isa);

}  // namespace kvcert::bench
