// Taking back, letting go, and snapshots.
#include <algorithm>
#include <utility>

#include "reference/checks.hpp"
#include "reference/evict.hpp"
#include "reference/layer_kv_cache.hpp"

namespace kvcert::reference {

namespace {

/// Of `rows` rows in a vector those with these indices, ascending, moved to the front. Never asks for memory.
template <class Element>
void keep_rows(std::vector<Element>& vector, std::size_t rows, const std::vector<std::size_t>& kept) {
  const std::size_t width = vector.size() / rows;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto from = vector.begin() + static_cast<std::ptrdiff_t>(kept[i] * width);
    std::copy_n(from, width, vector.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  vector.resize(kept.size() * width);
}

/// The first `kept` of `rows` rows.
template <class Element>
void keep_first(std::vector<Element>& vector, std::size_t rows, std::size_t kept) {
  vector.resize(vector.size() / rows * kept);
}

}  // namespace

// --- Taking back ---------------------------------------------------------------------------------------------------

Result<void> LayerKvCache::truncate_last(std::size_t n) {
  return or_out_of_memory([&]() -> Result<void> {
    using enum LayerState;
    if (auto allowed = check_state("truncate_last", {plain, collecting, sealed, bounded, linear}); !allowed) return allowed;
    const std::size_t rows = state_.seq_len;
    const std::size_t taken = std::min(n, rows);
    const std::size_t kept = rows - taken;
    if (taken != 0 && (state() == sealed || state() == linear)) {
      return refuse(ErrorCode::irreversible, 0, taken, sentence(taken, " positions of a ",
                    state() == sealed ? "sealed" : "linear", " layer cannot be taken back"));
    }
    if (taken > bounded_undo_rows() && state() == bounded) {
      return refuse(ErrorCode::undo_exhausted, bounded_undo_rows(), taken,
                    sentence(taken, " positions are to be taken back, but the ring remembers ", bounded_undo_rows()));
    }

    state_.linear_scratch.reset();  // the recurrent vector itself has no positions and stays
    if (state() == collecting) {  // a trace that ran ahead of the rows is cut to them, also when no row is taken back
      O1Overlay& o1 = state_.o1;
      if (o1_trace_positions() > kept) keep_first(o1.trace, o1_trace_positions(), kept);
      if (o1.trace.empty()) o1.query_heads = 0;
    }
    if (taken == 0) return {};
    if (state_.ring) state_.ring->take_back(state_.seq_len, taken);
    for (HeadRows& head : state_.heads) {  // a dead head's vectors are empty and stay so
      for (StoredRows* stored : {&head.keys, &head.values}) {
        keep_first(stored->f32, rows, kept);
        keep_first(stored->int8, rows, kept);
        keep_first(stored->scales, rows, kept);
      }
    }
    keep_first(state_.importance, rows, kept);
    state_.seq_len = kept;  // at 0 the flags mean nothing
    return {};
  });
}

// --- Eviction ------------------------------------------------------------------------------------------------------

template <class Choose>
Result<std::size_t> LayerKvCache::evict(const char* call, std::size_t keep, Choose choose) {
  return or_out_of_memory([&]() -> Result<std::size_t> {
    using enum LayerState;
    if (auto allowed = check_state(call, {plain, collecting, sealed, bounded, linear}); !allowed) return handed_on(allowed);
    const std::size_t rows = state_.seq_len;
    if (state() != plain || rows <= keep) return std::size_t{0};
    const std::vector<std::size_t> kept = choose();  // all that can fail
    for (HeadRows& head : state_.heads) {
      for (StoredRows* stored : {&head.keys, &head.values}) {
        keep_rows(stored->f32, rows, kept);
        keep_rows(stored->int8, rows, kept);
        keep_rows(stored->scales, rows, kept);
      }
    }
    keep_rows(state_.importance, rows, kept);
    state_.seq_len = kept.size();
    return rows - kept.size();
  });
}

Result<std::size_t> LayerKvCache::evict_recent(std::size_t keep) {
  return evict("evict_recent", keep, [&] { return kept_recent(state_.seq_len, keep); });
}

Result<std::size_t> LayerKvCache::evict_by_mass(std::size_t keep, std::size_t sink, std::size_t recent) {
  return evict("evict_by_mass", keep, [&] { return kept_by_mass(state_.importance, keep, sink, recent); });
}

// --- Starting anew, and snapshots --------------------------------------------------------------------------------------

void LayerKvCache::clear() {
  // In place, so that it cannot fail: what empty_state() makes, without asking for memory. Mode and ring size stay.
  for (HeadRows& head : state_.heads) {
    for (StoredRows* stored : {&head.keys, &head.values}) {
      stored->f32.clear();
      stored->int8.clear();
      stored->scales.clear();
      stored->columns.clear();
    }
  }
  std::ranges::fill(state_.alive, std::uint8_t{1});
  state_.importance.clear();
  state_.frozen = false;
  state_.linear_state.clear();
  state_.linear_scratch.reset();
  state_.o1 = O1Overlay();
  if (state_.ring) state_.ring->zero();
  state_.seq_len = 0;
}

Result<LayerKvCache::Snapshot> LayerKvCache::snapshot() const {
  return or_out_of_memory([&]() -> Result<Snapshot> {
    Snapshot saved;
    saved.geometry_ = geometry_;
    saved.kind_ = kind_;
    saved.state_ = std::make_shared<const SequenceState>(state_);
    return saved;
  });
}

Result<void> LayerKvCache::restore(const Snapshot& saved) {
  return or_out_of_memory([&]() -> Result<void> {
    const std::size_t saved_window = saved.state_ && saved.state_->ring ? saved.state_->ring->window() : 0;
    if (!saved.state_ || saved.geometry_ != geometry_ || saved.kind_ != kind_ || saved_window != bounded_window()) {
      return refuse(ErrorCode::shape_mismatch, geometry_.num_kv_heads, saved.geometry_.num_kv_heads,
                    sentence("the snapshot is of a layer of ", saved.geometry_.num_kv_heads, " x ",
                             saved.geometry_.head_dim, ", kind ", static_cast<int>(saved.kind_), ", ring ", saved_window,
                             "; this one is ", geometry_.num_kv_heads, " x ", geometry_.head_dim, ", kind ",
                             static_cast<int>(kind_), ", ring ", bounded_window()));
    }
    SequenceState copy = *saved.state_;
    state_ = std::move(copy);
    return {};
  });
}

}  // namespace kvcert::reference
