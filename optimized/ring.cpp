#include "optimized/ring.hpp"

#include <algorithm>

#include "optimized/head_block.hpp"

namespace kvcert::optimized {

Ring::Ring(Geometry geometry, std::size_t window)
    : geometry_(geometry),
      window_(window),
      keys_(checked_product(geometry.num_kv_heads * geometry.head_dim, window)),
      values_(keys_.size()),
      undo_keys_(checked_product(geometry.num_kv_heads * geometry.head_dim, undo_depth)),
      undo_values_(undo_keys_.size()) {
  clear();
}

void Ring::save(std::size_t slot, std::size_t undo) {
  const std::size_t head_dim = geometry_.head_dim;
  for (std::size_t head = 0; head < geometry_.num_kv_heads; ++head) {
    const std::size_t to = (undo * geometry_.num_kv_heads + head) * head_dim;
    undo_keys_.copy_in(to, {key(head, slot), head_dim});
    undo_values_.copy_in(to, {value(head, slot), head_dim});
  }
}

void Ring::bring_back(std::size_t slot, std::size_t undo) {
  const std::size_t head_dim = geometry_.head_dim;
  for (std::size_t head = 0; head < geometry_.num_kv_heads; ++head) {
    const std::size_t from = (undo * geometry_.num_kv_heads + head) * head_dim;
    keys_.copy_in(at(head, slot), {undo_keys_.data() + from, head_dim});
    values_.copy_in(at(head, slot), {undo_values_.data() + from, head_dim});
  }
}

void Ring::insert(const float* k, const float* v) {
  const auto slot = static_cast<std::size_t>(position_ % window_);
  save(slot, undo_next_);
  undo_next_ = (undo_next_ + 1) % undo_depth;
  undo_count_ = std::min(undo_count_ + 1, undo_depth);
  for (std::size_t head = 0; head < geometry_.num_kv_heads; ++head) {
    keys_.copy_in(at(head, slot), {k + head * geometry_.head_dim, geometry_.head_dim});
    values_.copy_in(at(head, slot), {v + head * geometry_.head_dim, geometry_.head_dim});
  }
  ++position_;
}

void Ring::take_back(std::size_t m) {
  for (; m != 0; --m) {
    --position_;
    --undo_count_;
    undo_next_ = (undo_next_ + undo_depth - 1) % undo_depth;
    bring_back(static_cast<std::size_t>(position_ % window_), undo_next_);
  }
}

void Ring::clear() {
  std::ranges::fill(keys_.view(), 0.0F);
  std::ranges::fill(values_.view(), 0.0F);
  reset(0);
}

void Ring::reset(std::uint64_t position) {
  position_ = position;
  undo_next_ = 0;
  undo_count_ = 0;
}

void Ring::restore(const RingSnapshot& saved) {
  keys_.copy_in(0, saved.keys_.view());
  values_.copy_in(0, saved.values_.view());
  reset(saved.position_);
}

}  // namespace kvcert::optimized
