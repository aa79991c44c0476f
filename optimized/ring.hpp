// The ring of a bounded layer: W rows of keys and values per KV head, and the rows that a rollback brings back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvcert/geometry.hpp"
#include "kvcert/storage.hpp"
#include "optimized/buffer.hpp"

namespace kvcert::optimized {

/// The ring's contents and its counter, without rollback rows.
class RingSnapshot {
 public:
  Geometry geometry() const { return geometry_; }
  std::size_t window() const { return window_; }
  std::uint64_t position() const { return position_; }

 private:
  friend class Ring;
  RingSnapshot(Geometry geometry, std::size_t window, std::uint64_t position, const Buffer<float>& keys,
               const Buffer<float>& values)
      : geometry_(geometry), window_(window), position_(position), keys_(keys), values_(values) {}
  Geometry geometry_;
  std::size_t window_;
  std::uint64_t position_;
  Buffer<float> keys_, values_;
};

/// It checks nothing; its callers have. Position j lies in slot j mod W; slots never written are +0.
class Ring {
 public:
  /// KVH · W · HD at most 2^63 − 1. Throws std::bad_alloc.
  Ring(Geometry geometry, std::size_t window);

  std::size_t window() const { return window_; }
  std::uint64_t position() const { return position_; }  ///< positions inserted and not taken back
  std::size_t undo_rows() const { return undo_count_; }
  std::span<const float> keys() const { return keys_.view(); }  ///< [KVH][W][HD]
  std::span<const float> values() const { return values_.view(); }
  /// The row in `slot` of a KV head.
  const float* key(std::size_t head, std::size_t slot) const { return keys_.data() + at(head, slot); }
  const float* value(std::size_t head, std::size_t slot) const { return values_.data() + at(head, slot); }

  /// One position, k, v [KVH × HD] outside the ring; what its slot held becomes a rollback row.
  void insert(const float* k, const float* v);
  /// m ≤ undo_rows() positions go.
  void take_back(std::size_t m);
  /// All +0, no positions, no rollback rows.
  void clear();

  /// Throws std::bad_alloc.
  RingSnapshot snapshot() const { return {geometry_, window_, position_, keys_, values_}; }
  /// Of the same geometry and window.
  void restore(const RingSnapshot& saved);
  /// Another state, to be filled through these spans; rollback rows go.
  void reset(std::uint64_t position);
  std::span<float> keys() { return keys_.view(); }
  std::span<float> values() { return values_.view(); }

 private:
  std::size_t at(std::size_t head, std::size_t slot) const { return (head * window_ + slot) * geometry_.head_dim; }
  /// Exchanges nothing, copies: the slot's rows of all heads to or from rollback row `undo`.
  void save(std::size_t slot, std::size_t undo);
  void bring_back(std::size_t slot, std::size_t undo);

  Geometry geometry_;
  std::size_t window_;
  std::uint64_t position_ = 0;
  Buffer<float> keys_, values_;           // [KVH][W][HD]
  Buffer<float> undo_keys_, undo_values_; // [undo_depth][KVH][HD], itself a ring
  std::size_t undo_next_ = 0;             // the rollback row written next
  std::size_t undo_count_ = 0;
};

}  // namespace kvcert::optimized
