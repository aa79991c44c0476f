// The rows of one layer: keys, values, liveness, importance. It checks no shapes; its callers have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvcert/error.hpp"
#include "kvcert/geometry.hpp"
#include "kvcert/layer_cache.hpp"
#include "optimized/buffer.hpp"
#include "optimized/tensor_rows.hpp"

namespace kvcert::optimized {

namespace kernels {
struct Int8Kernels;
}

/// T = length(), KVH = num_kv_heads, HD = head_dim. While T = 0 liveness is undecided and there are no rows.
class Sequence {
 public:
  /// Empty. Room for the flags of all heads is taken here, untouched, so that a geometry without room for them is
  /// refused where a layer is made. Throws std::bad_alloc.
  explicit Sequence(Geometry geometry, KvMode mode = KvMode::f32);
  /// Length T ≥ 1 without values yet, to be filled through keys(), values() and importance(); or T = 0, where alive is
  /// ignored. alive as in append. Throws std::bad_alloc.
  Sequence(Geometry geometry, KvMode mode, std::uint64_t length, Alive alive);
  /// Compact: as much memory as there is state. Throws std::bad_alloc.
  Sequence(const Sequence& other) : Sequence(other, other.length_) {}
  /// What is moved from is empty, of mode f32.
  Sequence(Sequence&& other) noexcept
      : geometry_(other.geometry_),
        keys_(TensorRows::of_f32(geometry_.head_dim)),
        values_(TensorRows::of_f32(geometry_.head_dim)) {
    swap(other);
  }
  Sequence& operator=(Sequence other) noexcept {
    swap(other);
    return *this;
  }
  ~Sequence() = default;
  void swap(Sequence& other) noexcept;

  std::uint64_t length() const { return length_; }
  KvMode mode() const { return mode_; }
  bool frozen() const { return frozen_; }
  std::size_t live_heads() const { return length_ == 0 ? 0 : live_; }
  /// T > 0: [KVH], 1 = alive. T = 0: empty.
  std::span<const std::uint8_t> alive() const { return {alive_.data(), length_ == 0 ? 0 : alive_.size()}; }
  /// T, or 0 for a dead head. head < KVH.
  std::size_t head_len(std::size_t head) const { return has_rows(head) ? static_cast<std::size_t>(length_) : 0; }
  /// f32 rows, [T × HD]; empty for a dead head and for a tensor of int8.
  std::span<const float> keys(std::size_t head) const { return f32_rows(keys_, head); }
  std::span<const float> values(std::size_t head) const { return f32_rows(values_, head); }
  std::span<float> keys(std::size_t head) { return writable(f32_rows(keys_, head)); }
  std::span<float> values(std::size_t head) { return writable(f32_rows(values_, head)); }
  Q8Rows q8_keys(std::size_t head) const { return q8_rows(keys_, head); }
  Q8Rows q8_values(std::size_t head) const { return q8_rows(values_, head); }
  /// What attention reads; the head has rows.
  StoredRows stored_keys(std::size_t head) const { return stored(keys_, head); }
  StoredRows stored_values(std::size_t head) const { return stored(values_, head); }
  std::span<const float> importance() const { return {importance_.data(), length_}; }
  std::span<float> importance() { return {importance_.data(), length_}; }
  /// 4 · (K + V + scales + column floats) + int8 bytes, spare capacity not counted.
  std::uint64_t memory_bytes() const;
  /// Including spare capacity.
  bool overlaps(std::span<const std::byte> memory) const;

  /// n ≥ 1 positions, k, v [n][KVH × HD], importance +0. alive: KVH flags, nonzero = alive, or empty = all; read only
  /// where T = 0. k, v and alive may point into this sequence. The column field freezes where it is due. Errors:
  /// non_finite (int8). Throws std::bad_alloc. After either nothing has changed.
  Result<void> append(const float* k, const float* v, std::size_t n, Alive alive, const kernels::Int8Kernels& kernels);
  /// m ≤ T positions go.
  void truncate_last(std::uint64_t m) { length_ -= m; }
  /// kept: ascending positions below T; the others go. Nothing can fail.
  void keep_only(std::span<const std::size_t> kept);
  /// As new, of the same mode; the memory is kept.
  void clear();
  /// As new, all memory given back.
  void release();

 private:
  /// A copy with room for `capacity` ≥ T rows.
  Sequence(const Sequence& other, std::uint64_t capacity);
  static std::span<float> writable(std::span<const float> view) {
    return {const_cast<float*>(view.data()), view.size()};
  }
  bool has_rows(std::size_t head) const { return length_ != 0 && alive_.data()[head] != 0; }
  std::span<const float> f32_rows(const TensorRows& tensor, std::size_t head) const;
  Q8Rows q8_rows(const TensorRows& tensor, std::size_t head) const;
  StoredRows stored(const TensorRows& tensor, std::size_t head) const;
  /// The head's columns, nullptr where it has none.
  const float* columns(const TensorRows& tensor, std::size_t head) const;
  /// alive_, slot_ and live_ from flags, for all KVH heads.
  void decide_liveness(Alive alive);
  struct Memory {
    TensorRows::Room keys, values;
    Buffer<float> importance;
  };
  /// Room for `needed` positions, or exactly that where compact; liveness is decided. Returns the memory that was
  /// replaced: inputs may still point into it. Throws std::bad_alloc, having changed nothing observable.
  [[nodiscard]] Memory make_room(std::size_t needed, bool compact);
  /// append() within one state of the column field, its rows quantizable. Throws likewise.
  void append_rows(const float* k, const float* v, std::size_t n, Alive alive, const kernels::Int8Kernels& kernels);
  /// append() that freezes before its position `before` ≤ n.
  Result<void> append_across_freeze(const float* k, const float* v, std::size_t n, Alive alive, std::size_t before,
                                    const kernels::Int8Kernels& kernels);
  /// non_finite unless every live row of an int8 tensor is and stays finite.
  Result<void> check_quantizable(const float* k, const float* v, std::size_t n, Alive alive,
                                 const kernels::Int8Kernels& kernels) const;
  /// Columns from the stored rows, and the rows again against them. False where a column is not finite; then *this is
  /// of no further use.
  bool freeze(const kernels::Int8Kernels& kernels);
  bool freeze(TensorRows& tensor, const kernels::Int8Kernels& kernels);

  Geometry geometry_;
  KvMode mode_ = KvMode::f32;
  std::uint64_t length_ = 0;
  // The next four mean nothing while T = 0.
  std::size_t live_ = 0;        // live heads
  std::size_t capacity_ = 0;    // rows that each live head has room for
  Buffer<std::uint8_t> alive_;  // [KVH], 1 = alive (no memory yet after being moved from)
  Buffer<std::size_t> slot_;    // [KVH], a live head's place in the blocks
  TensorRows keys_, values_;
  Buffer<float> importance_;    // [≥ T]
  // The column field outlives the rows that it was made from: truncation to T = 0 keeps it.
  bool frozen_ = false;
  Buffer<std::uint8_t> with_columns_;  // [KVH] once frozen
};

}  // namespace kvcert::optimized
