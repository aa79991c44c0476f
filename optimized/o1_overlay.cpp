#include "optimized/o1_overlay.hpp"

#include <algorithm>

namespace kvcert::optimized {

void O1Trace::push(std::span<const float> q) {
  const std::size_t used_floats = used();
  if (floats.size() - used_floats < q.size()) {
    Buffer<float> larger(std::max({2 * floats.size(), used_floats + q.size(), 16 * q.size()}));
    larger.copy_in(0, floats.view().first(used_floats));
    larger.copy_in(used_floats, q);
    floats.swap(larger);  // what q may point to dies with `larger`, afterwards
  } else {
    floats.copy_in(used_floats, q);
  }
  row = q.size();
  ++positions;
}

void O1Trace::keep(std::uint64_t n) {
  positions = static_cast<std::size_t>(std::min<std::uint64_t>(positions, n));
  if (positions == 0) row = 0;
}

}  // namespace kvcert::optimized
