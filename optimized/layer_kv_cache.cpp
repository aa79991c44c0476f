// Construction, configuration and views. The other operations are in layer_*.cpp, by topic.
#include "optimized/layer_kv_cache.hpp"

#include <algorithm>
#include <string>

#include "optimized/default_scale.hpp"
#include "optimized/failure.hpp"
#include "optimized/layer_checks.hpp"
#include "optimized/overlap.hpp"

namespace kvcert::optimized {
namespace {

std::string_view name(KvMode mode) {
  switch (mode) {
    case KvMode::f32: return "f32";
    case KvMode::q8: return "q8";
    case KvMode::q8_keys: return "q8_keys";
    case KvMode::q8_values: break;
  }
  return "q8_values";
}

Result<void> check_mode(KvMode mode) {
  if (mode <= KvMode::q8_values) return {};
  return failure(ErrorCode::invalid_argument, static_cast<std::uint64_t>(KvMode::q8_values),
                 static_cast<std::uint64_t>(mode), "a storage mode that does not exist");
}

}  // namespace

// --- Construction and configuration
// ---------------------------------------------------------------------------------------

Result<LayerKvCache> LayerKvCache::create(Geometry geometry, KvMode mode) {
  // The arguments first: what they are refused for must not depend on the environment.
  if (auto layer = create(geometry, mode, Isa::scalar); !layer) return layer;
  const auto isa = default_isa();
  if (!isa) return std::unexpected(isa.error());
  return create(geometry, mode, *isa);
}

Result<LayerKvCache> LayerKvCache::create(Geometry geometry, KvMode mode, Isa isa) {
  return catching_memory([&]() -> Result<LayerKvCache> {
    if (geometry.num_kv_heads == 0 || geometry.head_dim == 0)
      return failure(ErrorCode::invalid_argument, 1, 0, "num_kv_heads and head_dim are at least 1");
    if (geometry.num_kv_heads > max_count / geometry.head_dim)
      return failure(ErrorCode::invalid_argument, max_count, geometry.num_kv_heads,
                     "num_kv_heads x head_dim exceeds 2^63 - 1");
    if (auto known = check_mode(mode); !known) return std::unexpected(known.error());
    const kernels::Table* kernels = kernel_table(isa);
    if (kernels == nullptr)
      return failure(ErrorCode::invalid_argument, 0, static_cast<std::uint64_t>(isa),
                     "this build or machine cannot run " + std::string(optimized::name(isa)) + " kernels");
    return LayerKvCache(geometry, mode, isa, kernels);
  });
}

float LayerKvCache::default_scale(std::size_t head_dim) { return optimized::default_scale(head_dim); }

Result<void> LayerKvCache::check_pristine(std::string_view operation, bool needs_f32) const {
  if (state() == LayerState::plain && seq_len() == 0 && linear_state().empty() && (!needs_f32 || mode() == KvMode::f32))
    return {};
  return wrong_state(operation, state());
}

Result<void> LayerKvCache::set_mode(KvMode mode) {
  return catching_memory([&]() -> Result<void> {
    if (auto pristine = check_pristine("set_mode", false); !pristine) return pristine;
    if (auto known = check_mode(mode); !known) return known;
    data_.rows = Sequence(geometry_, mode);
    return {};
  });
}

Result<void> LayerKvCache::set_wire_kind(WireKind kind) {
  return catching_memory([&]() -> Result<void> {
    const bool has_kind = state() == LayerState::plain || state() == LayerState::linear;
    if (!has_kind || seq_len() != 0 || mode() != KvMode::f32) return wrong_state("set_wire_kind", state());
    if (kind != WireKind::full && kind != WireKind::linear)
      return failure(ErrorCode::invalid_argument, static_cast<std::uint64_t>(WireKind::linear),
                     static_cast<std::uint64_t>(kind),
                     "set_wire_kind takes full or linear; install_bounded sets bounded");
    Buffer<std::uint8_t> all;
    if (kind == WireKind::linear) all = Buffer<std::uint8_t>(geometry_.num_kv_heads);
    std::ranges::fill(all.view(), std::uint8_t{1});
    data_.kind = kind;
    data_.rowless_alive.swap(all);
    data_.recurrence.scratch.reset();
    return {};
  });
}

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

// --- Views
// ----------------------------------------------------------------------------------------------------------------

bool LayerKvCache::overlaps_layer(std::span<const float> memory) const {
  return overlap(memory, sinks()) || data_.overlaps(std::as_bytes(memory));
}

std::optional<std::span<const std::uint8_t>> LayerKvCache::alive() const {
  if (seq_len() == 0) return std::nullopt;
  if (data_.rows.length() != 0) return data_.rows.alive();
  return data_.rowless_alive.view();
}

std::vector<std::span<const float>> LayerKvCache::k_heads() const {
  std::vector<std::span<const float>> heads(geometry_.num_kv_heads);
  for (std::size_t head = 0; head < heads.size(); ++head) heads[head] = data_.rows.keys(head);
  return heads;
}

std::vector<std::span<const float>> LayerKvCache::v_heads() const {
  std::vector<std::span<const float>> heads(geometry_.num_kv_heads);
  for (std::size_t head = 0; head < heads.size(); ++head) heads[head] = data_.rows.values(head);
  return heads;
}

Result<void> LayerKvCache::check_head(std::size_t kv_head) const {
  if (kv_head < geometry_.num_kv_heads) return {};
  return catching_memory([&]() -> Result<void> {  // the sentence may need memory that is not there
    return failure(ErrorCode::head_out_of_range, geometry_.num_kv_heads, kv_head,
                   "KV head " + std::to_string(kv_head) + " of " + std::to_string(geometry_.num_kv_heads));
  });
}

Result<std::span<const float>> LayerKvCache::head_keys(std::size_t kv_head) const {
  if (auto known = check_head(kv_head); !known) return std::unexpected(known.error());
  return data_.rows.keys(kv_head);
}

Result<std::span<const float>> LayerKvCache::head_values(std::size_t kv_head) const {
  if (auto known = check_head(kv_head); !known) return std::unexpected(known.error());
  return data_.rows.values(kv_head);
}

Result<Q8Rows> LayerKvCache::head_q8_keys(std::size_t kv_head) const {
  if (auto known = check_head(kv_head); !known) return std::unexpected(known.error());
  return data_.rows.q8_keys(kv_head);
}

Result<Q8Rows> LayerKvCache::head_q8_values(std::size_t kv_head) const {
  if (auto known = check_head(kv_head); !known) return std::unexpected(known.error());
  return data_.rows.q8_values(kv_head);
}

Result<std::size_t> LayerKvCache::head_len(std::size_t kv_head) const {
  if (auto known = check_head(kv_head); !known) return std::unexpected(known.error());
  return data_.rows.head_len(kv_head);
}

std::uint64_t LayerKvCache::memory_bytes() const {
  return data_.rows.memory_bytes() + 4 * linear_state().size() + o1_memory_bytes() + bounded_state_bytes();
}

std::ostream& operator<<(std::ostream& stream, const LayerKvCache& layer) {
  std::string text = "optimized::LayerKvCache (" + std::string(optimized::name(layer.isa())) + ", " +
                     std::string(state_name(layer.state())) + ", " + std::string(name(layer.mode())) +
                     (layer.frozen() ? ", frozen" : "") + "): " + std::to_string(layer.geometry().num_kv_heads) +
                     " KV heads x " + std::to_string(layer.geometry().head_dim) + ", seq_len " +
                     std::to_string(layer.seq_len());
  const auto count = [&](std::string_view what, std::uint64_t n) {
    if (n != 0) text.append(", ").append(what).append(" ").append(std::to_string(n));
  };
  if (layer.data_.rows.length() != 0) text += ", live heads " + std::to_string(layer.data_.rows.live_heads());
  count("recurrent floats", layer.linear_state().size());
  if (layer.linear_scratch()) text += ", scratch floats " + std::to_string(layer.linear_scratch()->size());
  count("window", layer.bounded_window());
  count("rollback rows", layer.bounded_undo_rows());
  count("trace positions", layer.o1_trace_positions());
  if (layer.o1_sealed()) count("absorbed rows", layer.data_.o1.groups.front().far_count());
  count("sinks", layer.sinks().size());
  return stream << text + ", " + std::to_string(layer.memory_bytes()) + " bytes";
}

}  // namespace kvcert::optimized
