// Rows of one array for all live heads: [live][capacity][width] in one block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <utility>

#include "optimized/buffer.hpp"

namespace kvcert::optimized {

/// a · b elements, or bad_alloc where no memory could hold them.
inline std::size_t checked_product(std::size_t a, std::size_t b) {
  if (b != 0 && a > std::numeric_limits<std::size_t>::max() / b) throw std::bad_alloc();
  return a * b;
}

/// Width 0: an array that the storage mode does not have. Then every operation is a no-op and there is always room.
template <class T>
class HeadBlock {
 public:
  HeadBlock() = default;
  explicit HeadBlock(std::size_t width) : width_(width) {}

  std::size_t width() const { return width_; }
  /// All memory, spare capacity included.
  std::span<const T> memory() const { return memory_.view(); }
  /// Rows that each of `live` heads has room for.
  std::size_t capacity(std::size_t live) const {
    return width_ == 0 || live == 0 ? std::numeric_limits<std::size_t>::max() : memory_.size() / (live * width_);
  }

  std::span<const T> rows(std::size_t slot, std::size_t capacity, std::size_t length) const {
    if (width_ == 0) return {};
    return {memory_.data() + slot * capacity * width_, length * width_};
  }
  T* row(std::size_t slot, std::size_t capacity, std::size_t index) {
    return memory_.data() + (slot * capacity + index) * width_;
  }

  /// Memory for `live` heads of new_capacity rows each. Throws std::bad_alloc.
  Buffer<T> room(std::size_t live, std::size_t new_capacity) const {
    return Buffer<T>(checked_product(checked_product(live, new_capacity), width_));
  }
  /// Moves the first `length` rows of each head into `memory`, which came from room(); takes it and gives the old back
  /// in it.
  void move_into(Buffer<T>& memory, std::size_t live, std::size_t capacity, std::size_t length,
                 std::size_t new_capacity) {
    for (std::size_t slot = 0; slot < live; ++slot)
      memory.copy_in(slot * new_capacity * width_, rows(slot, capacity, length));
    memory_.swap(memory);
  }
  /// Row `from` becomes row `to`, from ≥ to.
  void move_row(std::size_t slot, std::size_t capacity, std::size_t from, std::size_t to) {
    if (width_ != 0 && from != to) std::memcpy(row(slot, capacity, to), row(slot, capacity, from), width_ * sizeof(T));
  }
  void swap(HeadBlock& other) noexcept {
    std::swap(width_, other.width_);
    memory_.swap(other.memory_);
  }

 private:
  std::size_t width_ = 0;
  Buffer<T> memory_;
};

}  // namespace kvcert::optimized
