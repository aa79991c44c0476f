#include "optimized/layer_data.hpp"

#include "optimized/overlap.hpp"

namespace kvcert::optimized {

LayerState LayerData::state() const {
  if (kind == WireKind::linear) return LayerState::linear;
  if (kind == WireKind::bounded) return LayerState::bounded;
  switch (o1.phase) {
    case O1Overlay::Phase::none: return LayerState::plain;
    case O1Overlay::Phase::collecting: return LayerState::collecting;
    case O1Overlay::Phase::sealed: return LayerState::sealed;
    case O1Overlay::Phase::aborted: break;
  }
  return LayerState::aborted;
}

std::uint64_t LayerData::length() const {
  switch (state()) {
    case LayerState::plain:
    case LayerState::collecting: return rows.length();
    case LayerState::bounded: return ring->position();
    case LayerState::sealed:
    case LayerState::aborted:
    case LayerState::linear: break;
  }
  return counter;
}

void LayerData::clear() {
  rows.clear();
  recurrence = {};
  o1 = {};
  if (ring) ring->clear();
  counter = 0;
  if (kind == WireKind::full) rowless_alive = {};
}

bool LayerData::overlaps(std::span<const std::byte> memory) const {
  if (rows.overlaps(memory) || bytes_overlap(memory, std::as_bytes(recurrence.state.view()))) return true;
  if (recurrence.scratch && bytes_overlap(memory, std::as_bytes(recurrence.scratch->view()))) return true;
  if (bytes_overlap(memory, std::as_bytes(o1.trace.floats.view()))) return true;
  for (const O1Group& group : o1.groups)
    if (group.overlaps(memory)) return true;
  return ring && (bytes_overlap(memory, std::as_bytes(std::as_const(*ring).keys())) ||
                  bytes_overlap(memory, std::as_bytes(std::as_const(*ring).values())));
}

}  // namespace kvcert::optimized
