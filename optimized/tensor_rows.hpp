// One tensor, keys or values, of all live heads: f32 rows, or int8 rows with their scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "optimized/head_block.hpp"

namespace kvcert::optimized {

/// Rows of one head as attention reads them: either f32, or the other three.
struct StoredRows {
  const float* f32 = nullptr;        ///< [rows × HD]
  const std::int8_t* q8 = nullptr;   ///< [rows × HD]
  const float* scales = nullptr;     ///< [rows × groups]
  const float* columns = nullptr;    ///< [HD], nullptr: all 1
};

struct TensorRows {
  bool int8 = false;
  std::size_t group = 0;  ///< int8: channels that share a scale
  HeadBlock<float> f32;
  HeadBlock<std::int8_t> q8;
  HeadBlock<float> scales;
  Buffer<float> columns;  ///< [KVH × HD] by KV head, once frozen; of heads that were alive then

  static TensorRows of_f32(std::size_t head_dim) {
    TensorRows tensor;
    tensor.f32 = HeadBlock<float>(head_dim);
    return tensor;
  }
  static TensorRows of_int8(std::size_t head_dim, std::size_t group) {
    TensorRows tensor;
    tensor.int8 = true;
    tensor.group = group;
    tensor.q8 = HeadBlock<std::int8_t>(head_dim);
    tensor.scales = HeadBlock<float>((head_dim - 1) / group + 1);
    return tensor;
  }

  std::size_t capacity(std::size_t live) const {
    return std::min({f32.capacity(live), q8.capacity(live), scales.capacity(live)});
  }

  /// Memory for all three blocks.
  struct Room {
    Buffer<float> f32;
    Buffer<std::int8_t> q8;
    Buffer<float> scales;
  };
  Room room(std::size_t live, std::size_t new_capacity) const {
    return {f32.room(live, new_capacity), q8.room(live, new_capacity), scales.room(live, new_capacity)};
  }
  void move_into(Room& room, std::size_t live, std::size_t capacity, std::size_t length, std::size_t new_capacity) {
    f32.move_into(room.f32, live, capacity, length, new_capacity);
    q8.move_into(room.q8, live, capacity, length, new_capacity);
    scales.move_into(room.scales, live, capacity, length, new_capacity);
  }
  void move_row(std::size_t slot, std::size_t capacity, std::size_t from, std::size_t to) {
    f32.move_row(slot, capacity, from, to);
    q8.move_row(slot, capacity, from, to);
    scales.move_row(slot, capacity, from, to);
  }
  void swap(TensorRows& other) noexcept {
    std::swap(int8, other.int8);
    std::swap(group, other.group);
    f32.swap(other.f32);
    q8.swap(other.q8);
    scales.swap(other.scales);
    columns.swap(other.columns);
  }
};

}  // namespace kvcert::optimized
