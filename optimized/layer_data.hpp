// The sequence state of a layer: all that clear() discards and a snapshot copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "kvcert/geometry.hpp"
#include "kvcert/storage.hpp"
#include "optimized/buffer.hpp"
#include "optimized/o1_overlay.hpp"
#include "optimized/recurrence.hpp"
#include "optimized/ring.hpp"
#include "optimized/sequence.hpp"

namespace kvcert::optimized {

/// The kind, which is configuration, says which parts are in use: rows, recurrent vector and overlay (full), recurrent
/// vector (linear), ring (bounded). The others are empty.
struct LayerData {
  LayerData(Geometry geometry, KvMode mode) : rows(geometry, mode) {}
  LayerData(const LayerData&) = default;
  /// What is moved from is an empty layer of kind full.
  LayerData(LayerData&& other) noexcept
      : kind(std::exchange(other.kind, WireKind::full)),
        rows(std::move(other.rows)),
        recurrence(std::exchange(other.recurrence, {})),
        o1(std::exchange(other.o1, {})),
        ring(std::exchange(other.ring, std::nullopt)),
        counter(std::exchange(other.counter, 0)),
        rowless_alive(std::exchange(other.rowless_alive, {})) {}
  LayerData& operator=(LayerData other) noexcept {
    std::swap(kind, other.kind);
    rows.swap(other.rows);
    std::swap(recurrence, other.recurrence);
    std::swap(o1, other.o1);
    ring.swap(other.ring);
    std::swap(counter, other.counter);
    rowless_alive.swap(other.rowless_alive);
    return *this;
  }
  ~LayerData() = default;

  WireKind kind = WireKind::full;
  Sequence rows;
  Recurrence recurrence;
  O1Overlay o1;
  std::optional<Ring> ring;   ///< present where kind is bounded
  std::uint64_t counter = 0;  ///< T of a linear, sealed or aborted layer
  /// Liveness where there are no rows, [KVH]: linear and bounded all 1, sealed and aborted that of the rows which are
  /// gone.
  Buffer<std::uint8_t> rowless_alive;

  LayerState state() const;
  /// T.
  std::uint64_t length() const;
  std::size_t window() const { return ring ? ring->window() : 0; }
  /// As new, the kind kept and the ring zeroed in place.
  void clear();
  bool overlaps(std::span<const std::byte> memory) const;
};

}  // namespace kvcert::optimized
