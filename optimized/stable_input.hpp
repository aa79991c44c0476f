// An input as it was when the call began.
#pragma once

#include <span>

#include "optimized/buffer.hpp"

namespace kvcert::optimized {

/// A view of the caller's array, or a copy of it where it lies in memory that the call is going to change.
class StableInput {
 public:
  /// Throws std::bad_alloc.
  StableInput(std::span<const float> given, bool will_change) : view_(given) {
    if (!will_change) return;
    copy_ = Buffer<float>(given);
    view_ = copy_.view();
  }
  StableInput(const StableInput&) = delete;
  StableInput& operator=(const StableInput&) = delete;

  std::span<const float> view() const { return view_; }
  const float* data() const { return view_.data(); }

 private:
  Buffer<float> copy_;
  std::span<const float> view_;
};

}  // namespace kvcert::optimized
