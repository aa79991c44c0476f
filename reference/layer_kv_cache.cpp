// Construction, appending, taking back, views. Attending is in layer_attend.cpp.
#include "reference/layer_kv_cache.hpp"

#include <algorithm>
#include <ranges>

#include "reference/checks.hpp"
#include "reference/evaluate.hpp"
#include "reference/wire.hpp"

namespace kvcert::reference {

namespace {

/// Room for `more` elements, in steps that double, so that appending one row at a time stays linear.
void make_room(std::vector<float>& vector, std::size_t more) {
  if (more > vector.max_size() - vector.size()) throw std::bad_alloc();
  const std::size_t needed = vector.size() + more;
  if (needed > vector.capacity()) vector.reserve(std::max(needed, std::min(2 * vector.size(), vector.max_size())));
}

bool is_alive(Alive alive, std::size_t head) { return alive.empty() || alive[head] != 0; }

}  // namespace

// --- Construction and configuration --------------------------------------------------------------------------------

Result<LayerKvCache> LayerKvCache::create(Geometry geometry) {
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
    return LayerKvCache(geometry, empty_state(geometry.num_kv_heads));
  });
}

LayerKvCache& LayerKvCache::operator=(const LayerKvCache& other) {
  LayerKvCache copy(other);  // all that can fail
  geometry_ = copy.geometry_;
  sinks_.swap(copy.sinks_);
  wire_layer_ = copy.wire_layer_;
  wire_identity_ = copy.wire_identity_;
  linear_wire_allowed_ = copy.linear_wire_allowed_;
  std::swap(state_, copy.state_);
  return *this;
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

// --- Appending -----------------------------------------------------------------------------------------------------

Result<void> LayerKvCache::check_append(std::span<const float> k, std::span<const float> v, std::size_t n,
                                        Alive alive) const {
  const auto& [num_kv_heads, head_dim] = geometry_;
  const auto elements = checked_product({n, num_kv_heads, head_dim});
  if (elements) {
    if (auto fits = check_length("k", k.size(), *elements, "n x num_kv_heads x head_dim"); !fits) return fits;
    if (auto fits = check_length("v", v.size(), *elements, "n x num_kv_heads x head_dim"); !fits) return fits;
  }
  if (!alive.empty()) {
    if (auto fits = check_length("alive", alive.size(), num_kv_heads, "num_kv_heads"); !fits) return fits;
  }
  if (!elements) {
    return refuse(ErrorCode::invalid_argument, max_count, n,
                  sentence("n ", n, " times num_kv_heads ", num_kv_heads, " times head_dim ", head_dim,
                           " is over 2^63 - 1"));
  }
  if (state_.seq_len != 0) {
    for (std::size_t h = 0; h < num_kv_heads; ++h) {
      if (is_alive(alive, h) == (state_.alive[h] != 0)) continue;
      return refuse(ErrorCode::alive_changed, state_.alive[h], is_alive(alive, h) ? 1 : 0,
                    sentence("KV head ", h, " is given as ", is_alive(alive, h) ? "alive" : "dead",
                             ", but the first append of the sequence said otherwise"));
    }
  }
  if (n > max_count - state_.seq_len) {
    return refuse(ErrorCode::counter_exhausted, max_count - state_.seq_len, n,
                  sentence(n, " more positions after ", state_.seq_len, " would be over 2^63 - 1"));
  }
  return {};
}

Result<void> LayerKvCache::append(std::span<const float> k, std::span<const float> v, Alive alive) {
  return append_chunk(k, v, 1, alive);
}

Result<void> LayerKvCache::append_chunk(std::span<const float> k, std::span<const float> v, std::size_t n,
                                        Alive alive) {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto accepted = check_append(k, v, n, alive); !accepted) return accepted;
    if (n == 0) return {};
    const auto& [num_kv_heads, head_dim] = geometry_;

    // Copies before anything moves: k, v and alive may be views of this very layer. [n][KVH × HD] becomes, for each
    // live head, [n][HD].
    std::vector<std::uint8_t> flags(num_kv_heads);
    std::vector<HeadRows> added(num_kv_heads);
    for (std::size_t h = 0; h < num_kv_heads; ++h) {
      flags[h] = is_alive(alive, h) ? 1 : 0;
      if (flags[h] == 0) continue;  // a dead head's values are not looked at
      added[h].keys.reserve(n * head_dim);
      added[h].values.reserve(n * head_dim);
      for (std::size_t position = 0; position < n; ++position) {
        const std::size_t row = (position * num_kv_heads + h) * head_dim;
        std::ranges::copy(k.subspan(row, head_dim), std::back_inserter(added[h].keys));
        std::ranges::copy(v.subspan(row, head_dim), std::back_inserter(added[h].values));
      }
    }

    // Room for all of it: the last thing that can fail, and not visible from outside.
    for (std::size_t h = 0; h < num_kv_heads; ++h) {
      make_room(state_.heads[h].keys, added[h].keys.size());
      make_room(state_.heads[h].values, added[h].values.size());
    }
    make_room(state_.importance, n);

    for (std::size_t h = 0; h < num_kv_heads; ++h) {
      std::ranges::copy(added[h].keys, std::back_inserter(state_.heads[h].keys));
      std::ranges::copy(added[h].values, std::back_inserter(state_.heads[h].values));
    }
    state_.importance.resize(state_.importance.size() + n, 0.0F);
    state_.alive.swap(flags);
    state_.seq_len += n;
    return {};
  });
}

// --- Taking back ---------------------------------------------------------------------------------------------------

Result<void> LayerKvCache::truncate_last(std::size_t n) {
  const std::size_t kept = state_.seq_len - std::min<std::uint64_t>(n, state_.seq_len);
  for (HeadRows& head : state_.heads) {
    if (head.keys.empty()) continue;  // dead
    head.keys.resize(kept * geometry_.head_dim);
    head.values.resize(kept * geometry_.head_dim);
  }
  state_.importance.resize(kept);
  state_.seq_len = kept;  // at 0 the flags mean nothing; the recurrent vector has no positions and stays
  return {};
}

void LayerKvCache::clear() {
  // In place, so that it cannot fail: what empty_state() makes, without asking for memory.
  for (HeadRows& head : state_.heads) {
    head.keys.clear();
    head.values.clear();
  }
  std::ranges::fill(state_.alive, std::uint8_t{1});
  state_.importance.clear();
  state_.linear_state.clear();
  state_.seq_len = 0;
}

Result<LayerKvCache::Snapshot> LayerKvCache::snapshot() const {
  return or_out_of_memory([&]() -> Result<Snapshot> {
    Snapshot saved;
    saved.geometry_ = geometry_;
    saved.state_ = std::make_shared<const SequenceState>(state_);
    return saved;
  });
}

Result<void> LayerKvCache::restore(const Snapshot& saved) {
  return or_out_of_memory([&]() -> Result<void> {
    if (saved.state_ == nullptr || saved.geometry_ != geometry_) {
      const bool heads_differ = saved.geometry_.num_kv_heads != geometry_.num_kv_heads;
      return refuse(ErrorCode::shape_mismatch, heads_differ ? geometry_.num_kv_heads : geometry_.head_dim,
                    heads_differ ? saved.geometry_.num_kv_heads : saved.geometry_.head_dim,
                    sentence("the snapshot is of a layer of ", saved.geometry_.num_kv_heads, " x ",
                             saved.geometry_.head_dim, ", this one is ", geometry_.num_kv_heads, " x ",
                             geometry_.head_dim));
    }
    SequenceState copy = *saved.state_;
    state_ = std::move(copy);
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
  for (const HeadRows& head : state_.heads) heads.emplace_back(head.keys);
  return heads;
}

std::vector<std::span<const float>> LayerKvCache::v_heads() const {
  std::vector<std::span<const float>> heads;
  for (const HeadRows& head : state_.heads) heads.emplace_back(head.values);
  return heads;
}

Result<std::span<const float>> LayerKvCache::head_keys(std::size_t kv_head) const {
  return or_out_of_memory([&]() -> Result<std::span<const float>> {
    if (auto exists = check_head(kv_head, geometry_); !exists) return handed_on(exists);
    return state_.heads[kv_head].keys;
  });
}

Result<std::span<const float>> LayerKvCache::head_values(std::size_t kv_head) const {
  return or_out_of_memory([&]() -> Result<std::span<const float>> {
    if (auto exists = check_head(kv_head, geometry_); !exists) return handed_on(exists);
    return state_.heads[kv_head].values;
  });
}

Result<std::size_t> LayerKvCache::head_len(std::size_t kv_head) const {
  return or_out_of_memory([&]() -> Result<std::size_t> {
    if (auto exists = check_head(kv_head, geometry_); !exists) return handed_on(exists);
    return state_.heads[kv_head].keys.size() / geometry_.head_dim;
  });
}

std::uint64_t LayerKvCache::memory_bytes() const {
  std::uint64_t floats = state_.linear_state.size();
  for (const HeadRows& head : state_.heads) floats += head.keys.size() + head.values.size();
  return 4 * floats;
}

std::ostream& operator<<(std::ostream& stream, const LayerKvCache& layer) {
  const SequenceState& state = layer.state_;
  const auto live = std::ranges::count(state.alive, std::uint8_t{1});
  return stream << sentence("reference layer ", layer.wire_layer_, ": ", layer.geometry_.num_kv_heads, " KV heads x ",
                            layer.geometry_.head_dim, ", full, f32, ", state.seq_len, " positions, ",
                            state.seq_len == 0 ? std::string("liveness undecided") : sentence(live, " heads alive"),
                            ", recurrent vector of ", state.linear_state.size(), ", ", layer.sinks_.size(), " sinks, ",
                            layer.memory_bytes(), " bytes");
}

// --- The wire ------------------------------------------------------------------------------------------------------

Result<std::vector<std::uint8_t>> LayerKvCache::export_wire(WireFormat format) const {
  return or_out_of_memory(
      [&] { return encode(state_, {geometry_, wire_identity_, wire_layer_, linear_wire_allowed_}, format); });
}

Result<void> LayerKvCache::import_wire(std::span<const std::uint8_t> bytes) {
  return or_out_of_memory([&]() -> Result<void> {
    auto decoded = decode(bytes, {geometry_, wire_identity_, wire_layer_, linear_wire_allowed_});
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
