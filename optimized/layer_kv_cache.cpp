#include "optimized/layer_kv_cache.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "optimized/attend.hpp"
#include "optimized/default_scale.hpp"
#include "optimized/failure.hpp"
#include "optimized/float_bits.hpp"
#include "optimized/wire.hpp"

namespace kvcert::optimized {
namespace {

// Floats are judged by their bits: a comparison would follow the caller's flush-to-zero mode, and leave flags behind.

bool is_finite(float x) { return (float_bits(x) & 0x7F800000) != 0x7F800000; }
bool is_zero(float x) { return (float_bits(x) & 0x7FFFFFFF) == 0; }
bool is_negative(float x) { return float_bits(x) >> 31 != 0; }

/// Whether two spans share a byte.
bool overlap(std::span<const float> a, std::span<const float> b) {
  if (a.empty() || b.empty()) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.data());
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.data());
  return a_begin < b_begin + b.size_bytes() && b_begin < a_begin + a.size_bytes();
}

std::unexpected<Error> no_such_head(std::size_t kv_head, Geometry geometry) {
  return failure(ErrorCode::head_out_of_range, geometry.num_kv_heads, kv_head,
                 "KV head " + std::to_string(kv_head) + " of " + std::to_string(geometry.num_kv_heads));
}

WireLayer wire_layer_of(const LayerKvCache& layer) {
  return {.identity = layer.wire_identity(),
          .layer = layer.wire_layer(),
          .kind = static_cast<std::uint8_t>(layer.wire_kind()),
          .unversioned_allowed = layer.linear_wire_allowed(),
          .num_kv_heads = layer.geometry().num_kv_heads,
          .head_dim = layer.geometry().head_dim};
}

}  // namespace

// --- Construction and configuration ----------------------------------------------------------------------------------

Result<LayerKvCache> LayerKvCache::create(Geometry geometry) {
  // The geometry first: what it is refused for must not depend on the environment.
  if (auto layer = create(geometry, Isa::scalar); !layer) return layer;
  const auto isa = default_isa();
  if (!isa) return std::unexpected(isa.error());
  return create(geometry, *isa);
}

Result<LayerKvCache> LayerKvCache::create(Geometry geometry, Isa isa) {
  return catching_memory([&]() -> Result<LayerKvCache> {
    if (geometry.num_kv_heads == 0 || geometry.head_dim == 0)
      return failure(ErrorCode::invalid_argument, 1, 0, "num_kv_heads and head_dim are at least 1");
    if (geometry.num_kv_heads > max_count / geometry.head_dim)
      return failure(ErrorCode::invalid_argument, max_count, geometry.num_kv_heads,
                     "num_kv_heads x head_dim exceeds 2^63 - 1");
    const kernels::Table* kernels = kernel_table(isa);
    if (kernels == nullptr)
      return failure(ErrorCode::invalid_argument, 0, static_cast<std::uint64_t>(isa),
                     "this build or machine cannot run " + std::string(optimized::name(isa)) + " kernels");
    return LayerKvCache(geometry, isa, kernels);
  });
}

float LayerKvCache::default_scale(std::size_t head_dim) { return optimized::default_scale(head_dim); }

Result<void> LayerKvCache::set_sinks(std::span<const float> sinks) {
  return catching_memory([&]() -> Result<void> {
    if (sinks.empty() || sinks.size() % geometry_.num_kv_heads != 0)
      return failure(ErrorCode::shape_mismatch, geometry_.num_kv_heads, sinks.size(),
                     "sinks has " + std::to_string(sinks.size()) + " elements, a positive multiple of " +
                         std::to_string(geometry_.num_kv_heads) + " expected");
    sinks_ = Buffer<float>(sinks);  // the copy is complete before the old one goes: sinks may be a view of it
    return {};
  });
}

// --- Appending -------------------------------------------------------------------------------------------------------

Result<void> LayerKvCache::append(std::span<const float> k, std::span<const float> v, Alive alive) {
  return append_chunk(k, v, 1, alive);
}

Result<void> LayerKvCache::append_chunk(std::span<const float> k, std::span<const float> v, std::size_t n,
                                        Alive alive) {
  return catching_memory([&]() -> Result<void> {
    const std::size_t row = geometry_.num_kv_heads * geometry_.head_dim;
    const bool countable = n <= max_count / row;
    if (countable && k.size() != n * row) return wrong_length("k", n * row, k.size());
    if (countable && v.size() != n * row) return wrong_length("v", n * row, v.size());
    if (!alive.empty() && alive.size() != geometry_.num_kv_heads)
      return wrong_length("alive", geometry_.num_kv_heads, alive.size());
    if (!countable)
      return failure(ErrorCode::invalid_argument, max_count / row, n, "n x num_kv_heads x head_dim exceeds 2^63 - 1");
    if (seq_len() != 0) {
      const auto fixed = sequence_.alive();
      for (std::size_t head = 0; head < fixed.size(); ++head) {
        const bool given = alive.empty() || alive[head] != 0;
        if (given != (fixed[head] != 0))
          return failure(ErrorCode::alive_changed, fixed[head], given ? 1 : 0,
                         "KV head " + std::to_string(head) + (given ? " is dead" : " is alive") +
                             " in this sequence, as its first append said");
      }
    }
    if (n > max_count - seq_len())
      return failure(ErrorCode::counter_exhausted, max_count - seq_len(), n, "seq_len would exceed 2^63 - 1");
    if (n != 0) sequence_.append(k.data(), v.data(), n, alive);
    return {};
  });
}

// --- Attending -------------------------------------------------------------------------------------------------------

bool LayerKvCache::overlaps_layer(std::span<const float> output) const {
  return overlap(output, sequence_.key_block()) || overlap(output, sequence_.value_block()) ||
         overlap(output, importance()) || overlap(output, linear_state()) || overlap(output, sinks());
}

Result<void> LayerKvCache::check(const Query& query, std::span<const float> out, std::span<const float> acc) const {
  if (query.kv_head >= geometry_.num_kv_heads) return no_such_head(query.kv_head, geometry_);

  const std::size_t head_dim = geometry_.head_dim;
  if (query.q_group.size() % head_dim != 0)
    return failure(ErrorCode::shape_mismatch, head_dim, query.q_group.size(),
                   "q_group has " + std::to_string(query.q_group.size()) + " elements, a multiple of " +
                       std::to_string(head_dim) + " expected");
  const std::size_t heads = query.q_group.size() / head_dim;
  if (out.size() != query.q_group.size()) return wrong_length("out", query.q_group.size(), out.size());
  if (!query.sinks.empty() && query.sinks.size() != heads) return wrong_length("sinks", heads, query.sinks.size());

  if (!is_finite(query.scale)) return failure(ErrorCode::invalid_argument, 0, 0, "scale is not finite");
  if (!is_zero(query.softcap) && (is_negative(query.softcap) || !is_finite(query.softcap)))
    return failure(ErrorCode::invalid_argument, 0, 0, "softcap is neither 0 nor finite and positive");
  for (const std::span<const float> output : {out, acc}) {
    const char* which = output.data() == out.data() ? "out" : "acc";
    if (overlap(output, query.q_group) || overlap(output, query.sinks))
      return failure(ErrorCode::invalid_argument, 0, 0, std::string(which) + " overlaps an input");
    if (overlaps_layer(output))
      return failure(ErrorCode::invalid_argument, 0, 0, std::string(which) + " overlaps the layer");
  }
  if (overlap(out, acc)) return failure(ErrorCode::invalid_argument, 0, 0, "out and acc overlap");
  return {};
}

Result<void> LayerKvCache::attend_group(const Query& query, std::span<float> out, std::span<float> acc) const {
  return attend_group_upto(query, SIZE_MAX, out, acc);
}

Result<void> LayerKvCache::attend_group_upto(const Query& query, std::size_t upto, std::span<float> out,
                                             std::span<float> acc) const {
  return catching_memory([&]() -> Result<void> {
    if (auto valid = check(query, out, acc); !valid) return valid;
    const std::size_t heads = query.q_group.size() / geometry_.head_dim;
    if (heads == 0) return {};
    const auto keys = sequence_.keys(query.kv_head);
    const std::size_t rows = std::min(keys.size() / geometry_.head_dim, upto);
    if (rows == 0) {
      std::ranges::fill(out, 0.0F);
      return {};
    }
    optimized::attend({.kernels = kernels_,
                       .q = query.q_group,
                       .heads = heads,
                       .head_dim = geometry_.head_dim,
                       .keys = keys.data(),
                       .values = sequence_.values(query.kv_head).data(),
                       .first = std::min(query.first, rows - 1),
                       .rows = rows,
                       .scale = query.scale,
                       .capped = !is_zero(query.softcap),
                       .softcap = query.softcap,
                       .sinks = query.sinks.empty() ? nullptr : query.sinks.data(),
                       .out = out.data(),
                       .acc = acc,
                       .probabilities = {}});
    return {};
  });
}

Result<Attended> LayerKvCache::attend(std::span<const float> q, std::size_t kv_head) const {
  return catching_memory([&]() -> Result<Attended> {
    if (kv_head >= geometry_.num_kv_heads) return no_such_head(kv_head, geometry_);
    if (q.size() != geometry_.head_dim) return wrong_length("q", geometry_.head_dim, q.size());
    const auto keys = sequence_.keys(kv_head);
    const std::size_t rows = keys.size() / geometry_.head_dim;
    Attended result{std::vector<float>(geometry_.head_dim), std::vector<float>(rows)};
    if (rows == 0) return result;
    optimized::attend({.kernels = kernels_,
                       .q = q,
                       .heads = 1,
                       .head_dim = geometry_.head_dim,
                       .keys = keys.data(),
                       .values = sequence_.values(kv_head).data(),
                       .first = 0,
                       .rows = rows,
                       .scale = default_scale(geometry_.head_dim),
                       .capped = false,
                       .softcap = 0,
                       .sinks = nullptr,
                       .out = result.output.data(),
                       .acc = {},
                       .probabilities = result.probabilities});
    return result;
  });
}

Result<void> LayerKvCache::accumulate_imp(std::span<const float> probabilities) {
  return catching_memory([&]() -> Result<void> {
    if (probabilities.size() > seq_len())
      return wrong_length("probabilities, at most seq_len of them,", seq_len(), probabilities.size());
    if (!probabilities.empty()) add_row(*kernels_, sequence_.importance(), probabilities);
    return {};
  });
}

// --- Taking back -----------------------------------------------------------------------------------------------------

Result<void> LayerKvCache::truncate_last(std::size_t n) {
  sequence_.truncate_last(std::min<std::uint64_t>(n, seq_len()));
  return {};
}

Result<LayerKvCache::Snapshot> LayerKvCache::snapshot() const {
  return catching_memory([&]() -> Result<Snapshot> { return Snapshot(geometry_, wire_kind(), sequence_); });
}

Result<void> LayerKvCache::restore(const Snapshot& saved) {
  return catching_memory([&]() -> Result<void> {
    if (saved.geometry_ != geometry_ || saved.kind_ != wire_kind())
      return failure(ErrorCode::shape_mismatch, 0, 0, "the snapshot is of another geometry or kind");
    sequence_ = Sequence(saved.sequence_);
    return {};
  });
}

// --- Views -----------------------------------------------------------------------------------------------------------

std::optional<std::span<const std::uint8_t>> LayerKvCache::alive() const {
  if (seq_len() == 0) return std::nullopt;
  return sequence_.alive();
}

std::vector<std::span<const float>> LayerKvCache::k_heads() const {
  std::vector<std::span<const float>> heads(geometry_.num_kv_heads);
  for (std::size_t head = 0; head < heads.size(); ++head) heads[head] = sequence_.keys(head);
  return heads;
}

std::vector<std::span<const float>> LayerKvCache::v_heads() const {
  std::vector<std::span<const float>> heads(geometry_.num_kv_heads);
  for (std::size_t head = 0; head < heads.size(); ++head) heads[head] = sequence_.values(head);
  return heads;
}

Result<std::span<const float>> LayerKvCache::head_keys(std::size_t kv_head) const {
  return catching_memory([&]() -> Result<std::span<const float>> {
    if (kv_head >= geometry_.num_kv_heads) return no_such_head(kv_head, geometry_);
    return sequence_.keys(kv_head);
  });
}

Result<std::span<const float>> LayerKvCache::head_values(std::size_t kv_head) const {
  return catching_memory([&]() -> Result<std::span<const float>> {
    if (kv_head >= geometry_.num_kv_heads) return no_such_head(kv_head, geometry_);
    return sequence_.values(kv_head);
  });
}

Result<std::size_t> LayerKvCache::head_len(std::size_t kv_head) const {
  return catching_memory([&]() -> Result<std::size_t> {
    if (kv_head >= geometry_.num_kv_heads) return no_such_head(kv_head, geometry_);
    return sequence_.keys(kv_head).size() / geometry_.head_dim;
  });
}

std::uint64_t LayerKvCache::memory_bytes() const {
  const std::uint64_t row_floats = seq_len() == 0 ? 0 : seq_len() * sequence_.live_heads() * geometry_.head_dim;
  return 4 * (2 * row_floats + linear_state().size());
}

std::ostream& operator<<(std::ostream& stream, const LayerKvCache& layer) {
  std::string live = "undecided";
  if (layer.seq_len() != 0) live = std::to_string(layer.sequence_.live_heads());
  return stream << "optimized::LayerKvCache (" + std::string(name(layer.isa())) + ", full, f32): " +
                       std::to_string(layer.geometry().num_kv_heads) + " KV heads x " +
                       std::to_string(layer.geometry().head_dim) + ", seq_len " + std::to_string(layer.seq_len()) +
                       ", live heads " + live + ", recurrent floats " + std::to_string(layer.linear_state().size()) +
                       ", sinks " + std::to_string(layer.sinks().size()) + ", " + std::to_string(layer.memory_bytes()) +
                       " bytes";
}

// --- The wire --------------------------------------------------------------------------------------------------------

Result<std::vector<std::uint8_t>> LayerKvCache::export_wire(WireFormat format) const {
  return catching_memory([&] { return encode(sequence_, wire_layer_of(*this), format); });
}

Result<void> LayerKvCache::import_wire(std::span<const std::uint8_t> bytes) {
  return catching_memory([&]() -> Result<void> {
    auto decoded = decode(bytes, wire_layer_of(*this));
    if (!decoded) return std::unexpected(std::move(decoded.error()));
    sequence_.swap(*decoded);
    return {};
  });
}

Result<std::uint64_t> LayerKvCache::wire_bytes(Geometry geometry, std::uint64_t seq_len, std::size_t live_heads,
                                               std::uint64_t recurrent_floats, WireFormat format) {
  return catching_memory([&] { return record_bytes(geometry, seq_len, live_heads, recurrent_floats, format); });
}

}  // namespace kvcert::optimized
