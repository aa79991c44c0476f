// Appending: check, prepare every head's rows beside the layer, make room, then write.
#include <algorithm>
#include <iterator>
#include <utility>

#include "reference/checks.hpp"
#include "reference/layer_kv_cache.hpp"
#include "reference/q8_store.hpp"

namespace kvcert::reference {

namespace {

/// Room for `more` elements, in steps that double, so that appending one row at a time stays linear.
template <class Element>
void make_room(std::vector<Element>& vector, std::size_t more) {
  if (more > vector.max_size() - vector.size()) throw std::bad_alloc();
  const std::size_t needed = vector.size() + more;
  if (needed > vector.capacity()) vector.reserve(std::max(needed, std::min(2 * vector.size(), vector.max_size())));
}

bool is_alive(Alive alive, std::size_t head) { return alive.empty() || alive[head] != 0; }

/// What an append does to one head's keys or values.
struct Prepared {
  StoredRows rows;
  bool instead = false;  ///< a freeze rewrote the old rows: these replace them all; else they come after
};

void make_room(StoredRows& stored, const Prepared& prepared) {
  if (prepared.instead) return;
  make_room(stored.f32, prepared.rows.f32.size());
  make_room(stored.int8, prepared.rows.int8.size());
  make_room(stored.scales, prepared.rows.scales.size());
}

/// Needs room.
void write(StoredRows& stored, Prepared& prepared) {
  if (prepared.instead) {
    std::swap(stored, prepared.rows);
    return;
  }
  std::ranges::copy(prepared.rows.f32, std::back_inserter(stored.f32));
  std::ranges::copy(prepared.rows.int8, std::back_inserter(stored.int8));
  std::ranges::copy(prepared.rows.scales, std::back_inserter(stored.scales));
}

/// One live head's part of a tensor [n][KVH × HD].
struct HeadPart {
  std::span<const float> tensor;
  std::size_t n;
  std::size_t head;
  Geometry geometry;

  std::span<const float> row(std::size_t position) const {
    return tensor.subspan((position * geometry.num_kv_heads + head) * geometry.head_dim, geometry.head_dim);
  }
};

/// f32 rows are copied, any bits.
Prepared copied(const HeadPart& part) {
  Prepared prepared;
  prepared.rows.f32.reserve(part.n * part.geometry.head_dim);
  for (std::size_t i = 0; i < part.n; ++i) std::ranges::copy(part.row(i), std::back_inserter(prepared.rows.f32));
  return prepared;
}

/// int8 rows, each against the columns of its time: those at the start, and from append `freeze_at` on those that are fixed
/// there, from all rows before it. nullopt if something is not finite.
std::optional<Prepared> quantized(const StoredRows& stored, const HeadPart& part, std::size_t group,
                                  std::optional<std::size_t> freeze_at) {
  Prepared prepared;
  if (freeze_at) {
    prepared = {stored, true};
  } else {
    prepared.rows.columns = stored.columns;
  }
  for (std::size_t i = 0; i < part.n; ++i) {
    if (freeze_at == i) {
      auto frozen = freeze(prepared.rows, part.geometry.head_dim, group);
      if (!frozen) return std::nullopt;
      prepared.rows = std::move(*frozen);
    }
    if (!quantize(prepared.rows, part.row(i), group)) return std::nullopt;
  }
  return prepared;
}

Result<Prepared> prepare(const StoredRows& stored, const HeadPart& part, bool int8, std::size_t group,
                         std::optional<std::size_t> freeze_at) {
  if (!int8) return copied(part);
  auto prepared = quantized(stored, part, group, freeze_at);
  if (prepared) return std::move(*prepared);
  return refuse(ErrorCode::non_finite, 0, part.head,
                sentence("a value, quotient, scale or column of KV head ", part.head, " would not be finite as int8"));
}

}  // namespace

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
    if (auto allowed = check_state("append", {LayerState::plain, LayerState::collecting}); !allowed) return allowed;
    if (auto accepted = check_append(k, v, n, alive); !accepted) return accepted;
    if (n == 0) return {};
    const auto& [num_kv_heads, head_dim] = geometry_;

    // The append that finds T ≥ 64 and nothing frozen fixes the columns: the one of this call's n at index freeze_at.
    std::optional<std::size_t> freeze_at;
    if (state_.mode != KvMode::f32 && !state_.frozen) {
      const std::size_t missing = q8_freeze_at - std::min<std::uint64_t>(state_.seq_len, q8_freeze_at);
      if (missing < n) freeze_at = missing;
    }

    // Everything beside the layer before anything moves: k, v and alive may be views of this very layer.
    std::vector<std::uint8_t> flags(num_kv_heads);
    std::vector<Prepared> keys(num_kv_heads);
    std::vector<Prepared> values(num_kv_heads);
    for (std::size_t h = 0; h < num_kv_heads; ++h) {
      flags[h] = is_alive(alive, h) ? 1 : 0;
      if (flags[h] == 0) continue;  // a dead head's values are not looked at
      const HeadRows& stored = state_.heads[h];
      auto k_rows = prepare(stored.keys, {k, n, h, geometry_}, int8_keys(state_.mode), q8_key_group, freeze_at);
      if (!k_rows) return handed_on(k_rows);
      auto v_rows = prepare(stored.values, {v, n, h, geometry_}, int8_values(state_.mode), head_dim, freeze_at);
      if (!v_rows) return handed_on(v_rows);
      keys[h] = std::move(*k_rows);
      values[h] = std::move(*v_rows);
    }

    // Room for all of it: the last thing that can fail, and not visible from outside.
    for (std::size_t h = 0; h < num_kv_heads; ++h) {
      make_room(state_.heads[h].keys, keys[h]);
      make_room(state_.heads[h].values, values[h]);
    }
    make_room(state_.importance, n);

    for (std::size_t h = 0; h < num_kv_heads; ++h) {
      write(state_.heads[h].keys, keys[h]);
      write(state_.heads[h].values, values[h]);
    }
    state_.importance.resize(state_.importance.size() + n, 0.0F);
    state_.alive.swap(flags);
    state_.frozen = state_.frozen || freeze_at.has_value();
    state_.seq_len += n;
    return {};
  });
}

}  // namespace kvcert::reference
