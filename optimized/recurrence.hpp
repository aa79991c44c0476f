// The recurrent vector of a layer and its tentative copy.
#pragma once

#include <optional>

#include "optimized/buffer.hpp"

namespace kvcert::optimized {

struct Recurrence {
  Buffer<float> state;
  /// Present while a speculative step is unverified; an empty vector is a vector.
  std::optional<Buffer<float>> scratch;
};

}  // namespace kvcert::optimized
