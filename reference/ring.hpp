// The bounded anchor's ring: the last W rows of every KV head, and what the latest inserts have overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kvcert/geometry.hpp"
#include "kvcert/storage.hpp"

namespace kvcert::reference {

/// Position t lies in slot t mod W; slots that were never written hold +0.
class Ring {
 public:
  /// Throws std::bad_alloc or std::length_error. KVH × W × HD is at most 2^63 − 1, W at least 1.
  Ring(Geometry geometry, std::size_t window);
  /// With contents, [KVH][W][HD] each, and nothing to take back.
  Ring(Geometry geometry, std::size_t window, std::vector<float> keys, std::vector<float> values)
      : geometry_(geometry), window_(window), keys_(std::move(keys)), values_(std::move(values)) {}

  Geometry geometry() const { return geometry_; }
  std::size_t window() const { return window_; }
  std::span<const float> keys() const { return keys_; }      ///< [KVH][W][HD]
  std::span<const float> values() const { return values_; }  ///< [KVH][W][HD]
  std::size_t undo_rows() const { return overwritten_.size(); }

  /// The row [HD] of a KV head in the slot of a position.
  std::span<const float> key(std::size_t kv_head, std::uint64_t position) const;
  std::span<const float> value(std::size_t kv_head, std::uint64_t position) const;

  /// Writes k, v [KVH × HD], no views of this ring, into the position's slot, and remembers what was there, up to
  /// undo_depth rows back. Throws std::bad_alloc, and then nothing has changed.
  void insert(std::uint64_t position, std::span<const float> k, std::span<const float> v);
  /// Takes the last `count` ≤ undo_rows() inserts back, the latest of which was the one at `position` − 1.
  void take_back(std::uint64_t position, std::size_t count);
  void forget_overwritten() { overwritten_.clear(); }
  void zero();

 private:
  struct Row {
    std::vector<float> keys;    ///< [KVH × HD]
    std::vector<float> values;  ///< [KVH × HD]
  };
  std::size_t at(std::size_t kv_head, std::uint64_t position) const;
  Row row(std::uint64_t position) const;
  void write(std::uint64_t position, std::span<const float> k, std::span<const float> v);

  Geometry geometry_;
  std::size_t window_;
  std::vector<float> keys_;
  std::vector<float> values_;
  std::vector<Row> overwritten_;  ///< the latest last
};

}  // namespace kvcert::reference
