#include "optimized/sequence.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace kvcert::optimized {
namespace {

/// a · b elements, or bad_alloc where no memory could hold them.
std::size_t checked_product(std::size_t a, std::size_t b) {
  if (b != 0 && a > std::numeric_limits<std::size_t>::max() / b) throw std::bad_alloc();
  return a * b;
}

/// Room for `needed`, at least double what there was: amortized O(1) growth.
std::size_t grown(std::size_t capacity, std::size_t needed) {
  constexpr std::size_t half = std::numeric_limits<std::size_t>::max() / 2;
  return std::max({needed, capacity < half ? 2 * capacity : needed, std::size_t{16}});
}

}  // namespace

Sequence::Sequence(Geometry geometry, std::uint64_t length, Alive alive, Buffer<float> linear)
    : Sequence(geometry) {
  linear_ = std::move(linear);
  if (length == 0) return;
  decide_liveness(alive);
  const std::size_t floats = checked_product(checked_product(live_, length), geometry_.head_dim);
  keys_ = Buffer<float>(floats);
  values_ = Buffer<float>(floats);
  importance_ = Buffer<float>(length);
  capacity_ = length;
  length_ = length;
}

Sequence::Sequence(const Sequence& other)
    : Sequence(other.geometry_, other.length_, other.alive(), other.linear_) {
  if (length_ == 0) return;
  for (std::size_t head = 0; head < geometry_.num_kv_heads; ++head) {
    if (alive_.data()[head] == 0) continue;
    std::ranges::copy(other.keys(head), keys(head).begin());
    std::ranges::copy(other.values(head), values(head).begin());
  }
  std::ranges::copy(other.importance(), importance().begin());
}

void Sequence::swap(Sequence& other) noexcept {
  std::swap(geometry_, other.geometry_);
  std::swap(length_, other.length_);
  std::swap(live_, other.live_);
  std::swap(capacity_, other.capacity_);
  alive_.swap(other.alive_);
  slot_.swap(other.slot_);
  keys_.swap(other.keys_);
  values_.swap(other.values_);
  importance_.swap(other.importance_);
  linear_.swap(other.linear_);
}

void Sequence::decide_liveness(Alive alive) {
  live_ = 0;
  for (std::size_t head = 0; head < geometry_.num_kv_heads; ++head) {
    const bool lives = alive.empty() || alive[head] != 0;
    alive_.data()[head] = lives ? 1 : 0;
    slot_.data()[head] = live_;
    live_ += lives ? 1 : 0;
  }
}

std::span<const float> Sequence::rows(const Buffer<float>& block, std::size_t head) const {
  if (length_ == 0 || alive_.data()[head] == 0) return {};
  const std::size_t begin = slot_.data()[head] * capacity_ * geometry_.head_dim;
  return {block.data() + begin, static_cast<std::size_t>(length_) * geometry_.head_dim};
}

std::span<float> Sequence::keys(std::size_t head) {
  const auto view = rows(keys_, head);
  return {const_cast<float*>(view.data()), view.size()};
}

std::span<float> Sequence::values(std::size_t head) {
  const auto view = rows(values_, head);
  return {const_cast<float*>(view.data()), view.size()};
}

// First everything that can fail, into locals; then the new rows, while old blocks still back whatever k, v and alive
// point to; then the swap, and only then do the old blocks die with the locals.
void Sequence::append(const float* k, const float* v, std::size_t n, Alive alive) {
  const std::size_t heads = geometry_.num_kv_heads;
  const std::size_t head_dim = geometry_.head_dim;
  const std::size_t length = static_cast<std::size_t>(length_);
  const std::size_t needed = length + n;

  if (alive_.size() != heads) {
    Buffer<std::uint8_t> flags(heads);
    slot_ = Buffer<std::size_t>(heads);
    alive_ = std::move(flags);
  }
  if (length == 0) {  // undecided until the end of this call: length_ says so
    decide_liveness(alive);
    const std::size_t row = live_ * head_dim;
    capacity_ = row == 0 ? 0 : keys_.size() / row;
  }

  const bool move_rows = live_ != 0 && capacity_ < needed;
  const std::size_t new_capacity = move_rows ? grown(capacity_, needed) : capacity_;
  const std::size_t floats = move_rows ? checked_product(checked_product(live_, new_capacity), head_dim) : 0;
  Buffer<float> new_keys(floats), new_values(floats);
  const bool move_importance = importance_.size() < needed;
  Buffer<float> new_importance(move_importance ? grown(importance_.size(), needed) : 0);

  // Nothing fails from here on.
  if (move_rows) {
    for (std::size_t slot = 0; slot < live_ && length != 0; ++slot) {
      const std::size_t from = slot * capacity_ * head_dim;
      const std::size_t to = slot * new_capacity * head_dim;
      new_keys.copy_in(to, keys_.view().subspan(from, length * head_dim));
      new_values.copy_in(to, values_.view().subspan(from, length * head_dim));
    }
    keys_.swap(new_keys);
    values_.swap(new_values);
    capacity_ = new_capacity;
  }
  if (move_importance) {
    new_importance.copy_in(0, importance_.view().first(length));
    importance_.swap(new_importance);
  }
  for (std::size_t head = 0; head < heads; ++head) {
    if (alive_.data()[head] == 0) continue;
    const std::size_t begin = (slot_.data()[head] * capacity_ + length) * head_dim;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t from = (i * heads + head) * head_dim;
      keys_.copy_in(begin + i * head_dim, {k + from, head_dim});
      values_.copy_in(begin + i * head_dim, {v + from, head_dim});
    }
  }
  std::fill_n(importance_.data() + length, n, 0.0F);
  length_ = needed;
}

}  // namespace kvcert::optimized
