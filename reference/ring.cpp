#include "reference/ring.hpp"

#include <algorithm>
#include <iterator>

namespace kvcert::reference {

Ring::Ring(Geometry geometry, std::size_t window)
    : geometry_(geometry),
      window_(window),
      keys_(geometry.num_kv_heads * window * geometry.head_dim),
      values_(geometry.num_kv_heads * window * geometry.head_dim) {}

std::size_t Ring::at(std::size_t kv_head, std::uint64_t position) const {
  return (kv_head * window_ + position % window_) * geometry_.head_dim;
}

std::span<const float> Ring::key(std::size_t kv_head, std::uint64_t position) const {
  return keys().subspan(at(kv_head, position), geometry_.head_dim);
}

std::span<const float> Ring::value(std::size_t kv_head, std::uint64_t position) const {
  return values().subspan(at(kv_head, position), geometry_.head_dim);
}

Ring::Row Ring::row(std::uint64_t position) const {
  Row row;
  for (std::size_t h = 0; h < geometry_.num_kv_heads; ++h) {
    std::ranges::copy(key(h, position), std::back_inserter(row.keys));
    std::ranges::copy(value(h, position), std::back_inserter(row.values));
  }
  return row;
}

void Ring::write(std::uint64_t position, std::span<const float> k, std::span<const float> v) {
  const std::size_t head_dim = geometry_.head_dim;
  for (std::size_t h = 0; h < geometry_.num_kv_heads; ++h) {
    const auto slot = static_cast<std::ptrdiff_t>(at(h, position));
    std::ranges::copy(k.subspan(h * head_dim, head_dim), keys_.begin() + slot);
    std::ranges::copy(v.subspan(h * head_dim, head_dim), values_.begin() + slot);
  }
}

void Ring::insert(std::uint64_t position, std::span<const float> k, std::span<const float> v) {
  overwritten_.push_back(row(position));  // all that can fail
  if (overwritten_.size() > undo_depth) overwritten_.erase(overwritten_.begin());
  write(position, k, v);
}

void Ring::take_back(std::uint64_t position, std::size_t count) {
  for (std::size_t i = 1; i <= count; ++i) {
    write(position - i, overwritten_.back().keys, overwritten_.back().values);
    overwritten_.pop_back();
  }
}

void Ring::zero() {
  std::ranges::fill(keys_, 0.0F);
  std::ranges::fill(values_, 0.0F);
  overwritten_.clear();
}

}  // namespace kvcert::reference
