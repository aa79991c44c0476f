// Construction, configuration, views and the wire. Appending, attending, taking back, and what linear, bounded and sealed
// layers do have files of their own, layer_*.cpp.
#include "reference/layer_kv_cache.hpp"

#include <algorithm>
#include <utility>

#include "reference/checks.hpp"
#include "reference/evaluate.hpp"
#include "reference/wire.hpp"

namespace kvcert::reference {

namespace {

Result<void> check_mode(KvMode mode) {
  if (mode <= KvMode::q8_values) return {};
  return refuse(ErrorCode::invalid_argument, static_cast<std::uint64_t>(KvMode::q8_values),
                static_cast<std::uint64_t>(mode), "the storage mode is none of f32, q8, q8_keys, q8_values");
}

const char* name_of(LayerState state) {
  constexpr const char* names[] = {"plain", "collecting", "sealed", "aborted", "bounded", "linear"};
  return names[static_cast<std::size_t>(state)];
}

const char* name_of(KvMode mode) {
  constexpr const char* names[] = {"f32", "q8", "q8 keys", "q8 values"};
  return names[static_cast<std::size_t>(mode)];
}

}  // namespace

// --- Construction and configuration --------------------------------------------------------------------------------

Result<LayerKvCache> LayerKvCache::create(Geometry geometry, KvMode mode) {
  return or_out_of_memory([&]() -> Result<LayerKvCache> {
    if (geometry.num_kv_heads == 0 || geometry.head_dim == 0) {
      return refuse(ErrorCode::invalid_argument, 1, 0,
                    sentence("num_kv_heads is ", geometry.num_kv_heads, " and head_dim is ", geometry.head_dim,
                             ", but both are at least 1"));
    }
    if (!checked_product({geometry.num_kv_heads, geometry.head_dim})) {
      return refuse(ErrorCode::invalid_argument, max_count, geometry.num_kv_heads,
                    sentence("num_kv_heads ", geometry.num_kv_heads, " times head_dim ", geometry.head_dim,
                             " is over 2^63 - 1"));
    }
    if (auto known = check_mode(mode); !known) return handed_on(known);
    SequenceState state = empty_state(geometry.num_kv_heads);
    state.mode = mode;
    return LayerKvCache(geometry, std::move(state));
  });
}

LayerKvCache& LayerKvCache::operator=(const LayerKvCache& other) {
  LayerKvCache copy(other);  // all that can fail
  geometry_ = copy.geometry_;
  kind_ = copy.kind_;
  sinks_.swap(copy.sinks_);
  wire_layer_ = copy.wire_layer_;
  wire_identity_ = copy.wire_identity_;
  linear_wire_allowed_ = copy.linear_wire_allowed_;
  std::swap(state_, copy.state_);
  return *this;
}

LayerState LayerKvCache::state() const {
  if (kind_ == WireKind::linear) return LayerState::linear;
  if (kind_ == WireKind::bounded) return LayerState::bounded;
  switch (state_.o1.phase) {
    case O1Overlay::Phase::collecting: return LayerState::collecting;
    case O1Overlay::Phase::sealed: return LayerState::sealed;
    case O1Overlay::Phase::aborted: return LayerState::aborted;
    case O1Overlay::Phase::none: break;
  }
  return LayerState::plain;
}

Result<void> LayerKvCache::check_state(const char* call, std::initializer_list<LayerState> allowed) const {
  if (std::ranges::find(allowed, state()) != allowed.end()) return {};
  return refuse(ErrorCode::wrong_state, 0, static_cast<std::uint64_t>(state()),
                sentence("a layer that is ", name_of(state()), " has no ", call));
}

Result<void> LayerKvCache::check_unused(const char* call, bool f32_only) const {
  if (auto allowed = check_state(call, {LayerState::plain}); !allowed) return allowed;
  if (state_.seq_len == 0 && state_.linear_state.empty() && (!f32_only || state_.mode == KvMode::f32)) return {};
  return refuse(ErrorCode::wrong_state, 0, state_.seq_len,
                sentence(call, " needs an empty layer", f32_only ? " of f32 rows" : "", ", but this one has ",
                         state_.seq_len, " positions, a recurrent vector of ", state_.linear_state.size(), " and ",
                         name_of(state_.mode), " rows"));
}

Result<void> LayerKvCache::set_mode(KvMode mode) {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto unused = check_unused("set_mode", false); !unused) return unused;
    if (auto known = check_mode(mode); !known) return known;
    clear();  // nothing but the column fields of an earlier sequence
    state_.mode = mode;
    return {};
  });
}

Result<void> LayerKvCache::set_wire_kind(WireKind kind) {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto allowed = check_state("set_wire_kind", {LayerState::plain, LayerState::linear}); !allowed) return allowed;
    if (state_.seq_len != 0 || state_.mode != KvMode::f32) {
      return refuse(ErrorCode::wrong_state, 0, state_.seq_len,
                    sentence("set_wire_kind needs an empty layer of f32 rows, but this one has ", state_.seq_len,
                             " positions and ", name_of(state_.mode), " rows"));
    }
    if (kind != WireKind::full && kind != WireKind::linear) {
      return refuse(ErrorCode::invalid_argument, 1, static_cast<std::uint64_t>(kind),
                    "the kind to set is neither full nor linear");
    }
    kind_ = kind;
    state_.linear_scratch.reset();
    std::ranges::fill(state_.alive, std::uint8_t{1});
    return {};
  });
}

float LayerKvCache::default_scale(std::size_t head_dim) { return canonical_default_scale(head_dim); }

Result<void> LayerKvCache::set_sinks(std::span<const float> sinks) {
  return or_out_of_memory([&]() -> Result<void> {
    if (sinks.empty() || sinks.size() % geometry_.num_kv_heads != 0) {
      return refuse(ErrorCode::shape_mismatch, geometry_.num_kv_heads, sinks.size(),
                    sentence("sinks has ", sinks.size(), " logits, which is no positive multiple of num_kv_heads ",
                             geometry_.num_kv_heads));
    }
    sinks_ = std::vector<float>(sinks.begin(), sinks.end());  // a copy first: sinks may be a view of sinks_
    return {};
  });
}

// --- Views ---------------------------------------------------------------------------------------------------------

std::optional<std::span<const std::uint8_t>> LayerKvCache::alive() const {
  if (state_.seq_len == 0) return std::nullopt;
  return state_.alive;
}

std::vector<std::span<const float>> LayerKvCache::k_heads() const {
  std::vector<std::span<const float>> heads;
  for (const HeadRows& head : state_.heads) heads.emplace_back(head.keys.f32);
  return heads;
}

std::vector<std::span<const float>> LayerKvCache::v_heads() const {
  std::vector<std::span<const float>> heads;
  for (const HeadRows& head : state_.heads) heads.emplace_back(head.values.f32);
  return heads;
}

Result<std::span<const float>> LayerKvCache::head_keys(std::size_t kv_head) const {
  return of_head<std::span<const float>>(kv_head, [](const HeadRows& head) { return std::span(head.keys.f32); });
}

Result<std::span<const float>> LayerKvCache::head_values(std::size_t kv_head) const {
  return of_head<std::span<const float>>(kv_head, [](const HeadRows& head) { return std::span(head.values.f32); });
}

Result<Q8Rows> LayerKvCache::head_q8_keys(std::size_t kv_head) const {
  return of_head<Q8Rows>(kv_head, [](const HeadRows& head) { return head.keys.view(); });
}

Result<Q8Rows> LayerKvCache::head_q8_values(std::size_t kv_head) const {
  return of_head<Q8Rows>(kv_head, [](const HeadRows& head) { return head.values.view(); });
}

Result<std::size_t> LayerKvCache::head_len(std::size_t kv_head) const {
  const std::size_t head_dim = geometry_.head_dim;
  return of_head<std::size_t>(kv_head, [=](const HeadRows& head) { return head.keys.elements() / head_dim; });
}

std::uint64_t LayerKvCache::memory_bytes() const {
  std::uint64_t floats = state_.linear_state.size();
  std::uint64_t int8 = 0;
  for (const HeadRows& head : state_.heads) {
    for (const StoredRows* rows : {&head.keys, &head.values}) {
      floats += rows->f32.size() + rows->scales.size() + rows->columns.size();
      int8 += rows->int8.size();
    }
  }
  return 4 * floats + int8 + o1_memory_bytes() + bounded_state_bytes();
}

bool LayerKvCache::overlaps_layer(std::span<const float> output) const {
  const auto meets = [&](const auto& storage) { return overlap(output, std::span(storage)); };
  const auto meets_rows = [&](const StoredRows& rows) {
    return meets(rows.f32) || meets(rows.int8) || meets(rows.scales) || meets(rows.columns);
  };
  return meets(sinks_) || meets(state_.alive) || meets(state_.importance) || meets(state_.linear_state) ||
         (state_.linear_scratch && meets(*state_.linear_scratch)) || meets(state_.o1.trace) ||
         overlap(output, bounded_keys()) || overlap(output, bounded_values()) ||
         std::ranges::any_of(state_.o1.groups, [&](const O1Group& group) { return group.overlaps(output); }) ||
         std::ranges::any_of(state_.heads,
                             [&](const HeadRows& head) { return meets_rows(head.keys) || meets_rows(head.values); });
}

std::ostream& operator<<(std::ostream& stream, const LayerKvCache& layer) {
  const SequenceState& state = layer.state_;
  const auto live = std::ranges::count(state.alive, std::uint8_t{1});
  return stream << sentence("reference layer ", layer.wire_layer_, ": ", layer.geometry_.num_kv_heads, " KV heads x ",
                            layer.geometry_.head_dim, ", ", name_of(layer.state()), ", ", name_of(state.mode),
                            state.frozen ? " frozen" : "", ", ", state.seq_len, " positions, ",
                            state.seq_len == 0 ? std::string("liveness undecided") : sentence(live, " heads alive"),
                            ", recurrent vector of ", state.linear_state.size(),
                            state.linear_scratch ? " and a scratch, " : ", ",
                            "ring of ", layer.bounded_window(), ", trace of ", layer.o1_trace_positions(), ", ",
                            layer.sinks_.size(), " sinks, ",
                            layer.memory_bytes(), " bytes");
}

// --- The wire ------------------------------------------------------------------------------------------------------

WireLayer LayerKvCache::wire() const {
  return {geometry_, wire_identity_, wire_layer_, linear_wire_allowed_, kind_, bounded_window()};
}

Result<std::vector<std::uint8_t>> LayerKvCache::export_wire(WireFormat format) const {
  return or_out_of_memory([&] { return encode(state_, wire(), format); });
}

Result<void> LayerKvCache::import_wire(std::span<const std::uint8_t> bytes) {
  return or_out_of_memory([&]() -> Result<void> {
    auto decoded = decode(bytes, wire());
    if (!decoded) return handed_on(decoded);
    state_ = std::move(*decoded);
    return {};
  });
}

Result<std::uint64_t> LayerKvCache::wire_bytes(Geometry geometry, std::uint64_t seq_len, std::size_t live_heads,
                                               std::uint64_t linear_len, WireFormat format) {
  return or_out_of_memory([&] { return record_bytes(geometry, seq_len, live_heads, linear_len, format); });
}

}  // namespace kvcert::reference
