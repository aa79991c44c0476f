// Truncation, eviction, clear, snapshots.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "optimized/failure.hpp"
#include "optimized/float_bits.hpp"
#include "optimized/layer_checks.hpp"
#include "optimized/layer_kv_cache.hpp"

namespace kvcert::optimized {
namespace {

/// Orders masses as integers, whatever the floating-point environment: a NaN is least, −0 = +0.
std::uint32_t weight(float mass) {
  const std::uint32_t bits = float_bits(mass);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  constexpr std::uint32_t sign = 0x80000000;
  if (magnitude > 0x7F800000) return 0;
  return magnitude != 0 && (bits & sign) != 0 ? ~bits : magnitude | sign;
}

/// Eviction keeps rows of a plain layer only; the other states have nothing that it could take, and aborted refuses.
Result<bool> has_rows_to_evict(LayerState state, std::string_view operation) {
  if (state == LayerState::aborted) return wrong_state(operation, state);
  return state == LayerState::plain;
}

}  // namespace

Result<void> LayerKvCache::truncate_last(std::size_t n) {
  return catching_memory([&]() -> Result<void> {
    const std::uint64_t m = std::min<std::uint64_t>(n, seq_len());
    switch (state()) {
      case LayerState::aborted: return wrong_state("truncate_last", state());
      case LayerState::plain:
      case LayerState::collecting:
        data_.rows.truncate_last(m);
        if (state() == LayerState::collecting) data_.o1.trace.keep(seq_len());
        break;
      case LayerState::bounded:
        if (m > data_.ring->undo_rows())
          return failure(ErrorCode::undo_exhausted, data_.ring->undo_rows(), m,
                         "the ring can take back " + std::to_string(data_.ring->undo_rows()) + " positions, not " +
                             std::to_string(m));
        data_.ring->take_back(static_cast<std::size_t>(m));
        break;
      case LayerState::sealed:
      case LayerState::linear:
        if (m != 0)
          return failure(ErrorCode::irreversible, 0, m,
                         "a " + std::string(state_name(state())) + " layer cannot take positions back");
        break;
    }
    data_.recurrence.scratch.reset();
    return {};
  });
}

Result<std::size_t> LayerKvCache::evict_recent(std::size_t keep) {
  return evict_by_mass(keep, 0, keep);  // nothing is left to go by mass
}

Result<std::size_t> LayerKvCache::evict_by_mass(std::size_t keep, std::size_t sink, std::size_t recent) {
  return catching_memory([&]() -> Result<std::size_t> {
    const auto evicts = has_rows_to_evict(state(), "evict");
    if (!evicts) return std::unexpected(evicts.error());
    if (!*evicts || seq_len() <= keep) return 0;
    const std::size_t length = static_cast<std::size_t>(seq_len());
    const std::size_t earliest = std::min(sink, keep);
    const std::size_t latest = std::min(recent, keep - earliest);

    // All but the earliest and the latest, heaviest first as far as they are kept.
    std::vector<std::size_t> kept(length);
    std::iota(kept.begin(), kept.end(), std::size_t{0});
    const auto middle = kept.begin() + static_cast<std::ptrdiff_t>(earliest);
    const auto middle_end = kept.end() - static_cast<std::ptrdiff_t>(latest);
    const auto heaviest_end = middle + static_cast<std::ptrdiff_t>(keep - earliest - latest);
    const auto mass = data_.rows.importance();
    std::nth_element(middle, heaviest_end, middle_end, [mass](std::size_t a, std::size_t b) {
      const std::uint32_t weight_a = weight(mass[a]), weight_b = weight(mass[b]);
      return weight_a != weight_b ? weight_a > weight_b : a < b;
    });
    kept.erase(heaviest_end, middle_end);
    std::ranges::sort(kept);
    data_.rows.keep_only(kept);
    return length - keep;
  });
}

void LayerKvCache::clear() { data_.clear(); }

Result<LayerKvCache::Snapshot> LayerKvCache::snapshot() const {
  return catching_memory([&]() -> Result<Snapshot> { return Snapshot(geometry_, data_); });
}

Result<void> LayerKvCache::restore(const Snapshot& saved) {
  return catching_memory([&]() -> Result<void> {
    if (saved.geometry_ != geometry_ || saved.data_.kind != data_.kind || saved.data_.window() != data_.window())
      return failure(ErrorCode::shape_mismatch, 0, 0, "the snapshot is of another geometry, kind or ring size");
    data_ = LayerData(saved.data_);  // the copy is complete before the old state goes
    for (O1Group& group : data_.o1.groups) group.run_on(kernels_);
    return {};
  });
}

}  // namespace kvcert::optimized
