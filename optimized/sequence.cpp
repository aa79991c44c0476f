#include "optimized/sequence.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <utility>

#include "optimized/overlap.hpp"

namespace kvcert::optimized {
namespace {

/// Room for `needed`, at least double what there was: amortized O(1) growth.
std::size_t grown(std::size_t capacity, std::size_t needed) {
  constexpr std::size_t half = std::numeric_limits<std::size_t>::max() / 2;
  return std::max({needed, capacity < half ? 2 * capacity : needed, std::size_t{16}});
}

TensorRows tensor_of(std::size_t head_dim, bool int8, std::size_t group) {
  return int8 ? TensorRows::of_int8(head_dim, group) : TensorRows::of_f32(head_dim);
}

}  // namespace

Sequence::Sequence(Geometry geometry, KvMode mode)
    : geometry_(geometry),
      mode_(mode),
      alive_(geometry.num_kv_heads),
      slot_(geometry.num_kv_heads),
      keys_(tensor_of(geometry.head_dim, mode == KvMode::q8 || mode == KvMode::q8_keys, q8_key_group)),
      values_(tensor_of(geometry.head_dim, mode == KvMode::q8 || mode == KvMode::q8_values, geometry.head_dim)) {}

Sequence::Sequence(Geometry geometry, KvMode mode, std::uint64_t length, Alive alive) : Sequence(geometry, mode) {
  if (length == 0) return;
  decide_liveness(alive);
  (void)make_room(static_cast<std::size_t>(length), true);
  length_ = length;
}

Sequence::Sequence(const Sequence& other, std::uint64_t capacity) : Sequence(other.geometry_, other.mode_) {
  frozen_ = other.frozen_;
  with_columns_ = other.with_columns_;
  keys_.columns = other.keys_.columns;
  values_.columns = other.values_.columns;
  if (other.length_ == 0) return;
  decide_liveness(other.alive());
  const std::size_t length = static_cast<std::size_t>(other.length_);
  (void)make_room(static_cast<std::size_t>(capacity), true);
  for (const auto& [to, from] : {std::pair{&keys_, &other.keys_}, std::pair{&values_, &other.values_}}) {
    for (std::size_t slot = 0; slot < live_; ++slot) {
      std::ranges::copy(from->f32.rows(slot, other.capacity_, length), to->f32.row(slot, capacity_, 0));
      std::ranges::copy(from->q8.rows(slot, other.capacity_, length), to->q8.row(slot, capacity_, 0));
      std::ranges::copy(from->scales.rows(slot, other.capacity_, length), to->scales.row(slot, capacity_, 0));
    }
  }
  std::ranges::copy(other.importance(), importance_.data());
  length_ = other.length_;
}

void Sequence::swap(Sequence& other) noexcept {
  std::swap(geometry_, other.geometry_);
  std::swap(mode_, other.mode_);
  std::swap(length_, other.length_);
  std::swap(live_, other.live_);
  std::swap(capacity_, other.capacity_);
  alive_.swap(other.alive_);
  slot_.swap(other.slot_);
  keys_.swap(other.keys_);
  values_.swap(other.values_);
  importance_.swap(other.importance_);
  std::swap(frozen_, other.frozen_);
  with_columns_.swap(other.with_columns_);
}

// --- Views
// ----------------------------------------------------------------------------------------------------------------

std::span<const float> Sequence::f32_rows(const TensorRows& tensor, std::size_t head) const {
  if (!has_rows(head)) return {};
  return tensor.f32.rows(slot_.data()[head], capacity_, static_cast<std::size_t>(length_));
}

const float* Sequence::columns(const TensorRows& tensor, std::size_t head) const {
  if (!tensor.int8 || !frozen_ || with_columns_.data()[head] == 0) return nullptr;
  return tensor.columns.data() + head * geometry_.head_dim;
}

Q8Rows Sequence::q8_rows(const TensorRows& tensor, std::size_t head) const {
  Q8Rows view;
  if (const float* column = columns(tensor, head); column != nullptr) view.columns = {column, geometry_.head_dim};
  if (!has_rows(head)) return view;
  view.values = tensor.q8.rows(slot_.data()[head], capacity_, static_cast<std::size_t>(length_));
  view.scales = tensor.scales.rows(slot_.data()[head], capacity_, static_cast<std::size_t>(length_));
  return view;
}

StoredRows Sequence::stored(const TensorRows& tensor, std::size_t head) const {
  if (!tensor.int8) return {.f32 = f32_rows(tensor, head).data()};
  const Q8Rows rows = q8_rows(tensor, head);
  return {.f32 = nullptr, .q8 = rows.values.data(), .scales = rows.scales.data(), .columns = columns(tensor, head)};
}

std::uint64_t Sequence::memory_bytes() const {
  const std::uint64_t rows = length_ == 0 ? 0 : length_ * live_;
  std::uint64_t column_heads = 0;
  if (frozen_)
    for (const std::uint8_t has : with_columns_.view()) column_heads += has;
  std::uint64_t bytes = 0;
  for (const TensorRows* tensor : {&keys_, &values_}) {
    bytes += rows * (4 * (tensor->f32.width() + tensor->scales.width()) + tensor->q8.width());
    if (tensor->int8) bytes += 4 * column_heads * geometry_.head_dim;
  }
  return bytes;
}

bool Sequence::overlaps(std::span<const std::byte> memory) const {
  for (const TensorRows* tensor : {&keys_, &values_})
    for (const auto& part : {std::as_bytes(tensor->f32.memory()), std::as_bytes(tensor->q8.memory()),
                             std::as_bytes(tensor->scales.memory()), std::as_bytes(tensor->columns.view())})
      if (bytes_overlap(memory, part)) return true;
  return bytes_overlap(memory, std::as_bytes(importance_.view()));
}

// --- Taking away
// ----------------------------------------------------------------------------------------------------------

void Sequence::keep_only(std::span<const std::size_t> kept) {
  for (std::size_t to = 0; to < kept.size(); ++to) {
    for (std::size_t slot = 0; slot < live_; ++slot) {
      keys_.move_row(slot, capacity_, kept[to], to);
      values_.move_row(slot, capacity_, kept[to], to);
    }
    importance_.data()[to] = importance_.data()[kept[to]];
  }
  length_ = kept.size();
}

void Sequence::clear() {
  length_ = 0;
  frozen_ = false;
  with_columns_ = {};
  keys_.columns = {};
  values_.columns = {};
}

void Sequence::release() {
  clear();
  for (TensorRows* tensor : {&keys_, &values_}) {
    TensorRows::Room nothing;
    tensor->move_into(nothing, 0, 0, 0, 0);
  }
  importance_ = {};
  live_ = 0;
  capacity_ = 0;
}

// --- Memory and liveness
// ----------------------------------------------------------------------------------------------------

void Sequence::decide_liveness(Alive alive) {
  if (alive_.size() != geometry_.num_kv_heads) {
    Buffer<std::uint8_t> flags(geometry_.num_kv_heads);
    slot_ = Buffer<std::size_t>(geometry_.num_kv_heads);
    alive_ = std::move(flags);
  }
  live_ = 0;
  for (std::size_t head = 0; head < geometry_.num_kv_heads; ++head) {
    const bool lives = alive.empty() || alive[head] != 0;
    alive_.data()[head] = lives ? 1 : 0;
    slot_.data()[head] = live_;
    live_ += lives ? 1 : 0;
  }
  // The memory of the last sequence serves as it is.
  capacity_ = live_ == 0 ? 0 : std::min(keys_.capacity(live_), values_.capacity(live_));
}

// First everything that can fail, into the result; then the swap, so that the result holds the old memory.
Sequence::Memory Sequence::make_room(std::size_t needed, bool compact) {
  const std::size_t length = static_cast<std::size_t>(length_);
  const bool more_rows = live_ != 0 && capacity_ < needed;
  const std::size_t new_capacity = more_rows ? (compact ? needed : grown(capacity_, needed)) : 0;
  Memory memory;
  if (more_rows) memory.keys = keys_.room(live_, new_capacity);
  if (more_rows) memory.values = values_.room(live_, new_capacity);
  const bool more_importance = importance_.size() < needed;
  if (more_importance) memory.importance = Buffer<float>(compact ? needed : grown(importance_.size(), needed));

  if (more_rows) {
    keys_.move_into(memory.keys, live_, capacity_, length, new_capacity);
    values_.move_into(memory.values, live_, capacity_, length, new_capacity);
    capacity_ = new_capacity;
  }
  if (more_importance) {
    memory.importance.copy_in(0, importance());
    importance_.swap(memory.importance);
  }
  return memory;
}

}  // namespace kvcert::optimized
