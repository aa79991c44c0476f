// The sequence state of one layer: rows, liveness, importance, recurrent vector. It checks nothing; its callers have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvcert/geometry.hpp"
#include "kvcert/layer_cache.hpp"
#include "optimized/buffer.hpp"

namespace kvcert::optimized {

/// T = length(), KVH = num_kv_heads, HD = head_dim. While T = 0 liveness is undecided and there are no rows.
class Sequence {
 public:
  /// Empty. Room for the flags of all heads is taken here, untouched, so that a geometry without room for them is
  /// refused where a layer is made. Throws std::bad_alloc.
  explicit Sequence(Geometry geometry)
      : geometry_(geometry), alive_(geometry.num_kv_heads), slot_(geometry.num_kv_heads) {}
  /// Length T ≥ 1 without values yet, to be filled through keys(), values() and importance(); or T = 0, where alive is
  /// ignored. alive as in append. Throws std::bad_alloc.
  Sequence(Geometry geometry, std::uint64_t length, Alive alive, Buffer<float> linear);
  /// Compact: as much memory as there is state. Throws std::bad_alloc.
  Sequence(const Sequence& other);
  Sequence(Sequence&& other) noexcept : geometry_(other.geometry_) { swap(other); }
  Sequence& operator=(Sequence other) noexcept {
    swap(other);
    return *this;
  }
  ~Sequence() = default;
  void swap(Sequence& other) noexcept;

  std::uint64_t length() const { return length_; }
  std::size_t live_heads() const { return live_; }
  /// T > 0: [KVH], 1 = alive. T = 0: empty.
  std::span<const std::uint8_t> alive() const { return {alive_.data(), length_ == 0 ? 0 : alive_.size()}; }
  /// [T × HD], or empty for a dead head. head < KVH.
  std::span<const float> keys(std::size_t head) const { return rows(keys_, head); }
  std::span<const float> values(std::size_t head) const { return rows(values_, head); }
  std::span<float> keys(std::size_t head);
  std::span<float> values(std::size_t head);
  std::span<const float> importance() const { return {importance_.data(), length_}; }
  std::span<float> importance() { return {importance_.data(), length_}; }
  std::span<const float> linear() const { return linear_.view(); }
  /// All memory of rows, spare capacity included.
  std::span<const float> key_block() const { return keys_.view(); }
  std::span<const float> value_block() const { return values_.view(); }

  /// n ≥ 1 positions, k, v [n][KVH × HD], importance +0. alive: KVH flags, nonzero = alive, or empty = all; read only
  /// where T = 0. k, v and alive may point into this sequence. Throws std::bad_alloc and has then changed nothing.
  void append(const float* k, const float* v, std::size_t n, Alive alive);
  /// m ≤ T positions go.
  void truncate_last(std::uint64_t m) { length_ -= m; }
  /// As new; the memory is kept.
  void clear() {
    length_ = 0;
    linear_ = {};
  }

 private:
  std::span<const float> rows(const Buffer<float>& block, std::size_t head) const;
  /// alive_, slot_ and live_ from flags, for all KVH heads.
  void decide_liveness(Alive alive);

  Geometry geometry_;
  std::uint64_t length_ = 0;
  // The next four mean nothing while T = 0.
  std::size_t live_ = 0;        // live heads
  std::size_t capacity_ = 0;    // rows that each live head has room for
  Buffer<std::uint8_t> alive_;  // [KVH], 1 = alive (no memory yet after being moved from)
  Buffer<std::size_t> slot_;    // [KVH], a live head's place in the blocks
  Buffer<float> keys_;          // [live][capacity][HD] at least
  Buffer<float> values_;        // the same size
  Buffer<float> importance_;    // [≥ T]
  Buffer<float> linear_;
};

}  // namespace kvcert::optimized
