// Layers to import into: of every kind, and in every condition a layer can be in when a record arrives.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "kvcert/layer_cache.hpp"
#include "optimized/dispatch.hpp"

namespace kvcert::fuzz {

/// What the layer has lived through. Each leaves something behind that an import has to replace or a refusal has to keep.
enum class Life : std::uint8_t {
  rows,        ///< full: a dead head where there are two, importance; linear: a vector; bounded: a wrapped ring
  none,        ///< as created
  scratch,     ///< linear: a vector with a scratch beside it; else as rows
  q8,          ///< full: int8 rows
  q8_keys,     ///< full: int8 keys, f32 values
  q8_frozen,   ///< full: int8 rows with a frozen column field
  collecting,  ///< full: an O(1) overlay with its query trace
  sealed,      ///< full: an O(1) overlay that has taken over
  aborted,     ///< full: an O(1) overlay whose sealing failed
  early_ring,  ///< bounded: a ring that is not full yet; else as rows
  counted,     ///< linear: a counter near its end; else as rows
};
inline constexpr std::size_t life_count = static_cast<std::size_t>(Life::counted) + 1;

struct LayerShape {
  Geometry geometry{1, 1};
  WireKind kind = WireKind::full;
  std::size_t window = 0;  ///< kind bounded: of the ring
  Life life = Life::rows;
  friend auto operator<=>(const LayerShape& a, const LayerShape& b) {
    const auto key = [](const LayerShape& s) {
      return std::array<std::size_t, 5>{s.geometry.num_kv_heads, s.geometry.head_dim, static_cast<std::size_t>(s.kind), s.window,
                                        static_cast<std::size_t>(s.life)};
    };
    return key(a) <=> key(b);
  }
  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

/// A layer of some size costs time at every run and shows nothing that a small one does not; and all shapes together are few
/// enough to keep one furnished layer of each.
inline constexpr std::size_t most_heads = 3, most_dims = 4, most_window = 4;
inline constexpr std::size_t shapes_at_most = 400;

/// The life that a layer of this kind leads: `rows` for one that its kind does not have.
constexpr Life life_of(WireKind kind, Life life) {
  switch (life) {
    case Life::rows:
    case Life::none: return life;
    case Life::scratch:
    case Life::counted: return kind == WireKind::linear ? life : Life::rows;
    case Life::early_ring: return kind == WireKind::bounded ? life : Life::rows;
    default: return kind == WireKind::full ? life : Life::rows;
  }
}

namespace furnishing {

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error("a layer could not be furnished: " + result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Distinct numbers.
inline std::vector<float> ramp(std::size_t n, float from) {
  std::vector<float> numbers(n);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = from + static_cast<float>(i) / 64.0F;
  return numbers;
}

template <LayerCache Cache>
void append(Cache& layer, std::size_t n, bool push) {
  const auto [heads, dim] = layer.geometry();
  std::vector<std::uint8_t> alive(heads, 1);
  if (heads > 1 && !push) alive.back() = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto from = static_cast<float>(i);
    must(layer.append(ramp(heads * dim, from), ramp(heads * dim, -from), alive));
    if (push) must(layer.o1_push_q(ramp(heads * dim, 0.25F)));
  }
  if (n > 0) must(layer.accumulate_imp(ramp(n, 0.5F)));
}

template <LayerCache Cache>
void step_ring(Cache& layer, std::size_t n) {
  const auto [heads, dim] = layer.geometry();
  if (dim < 2) {  // a rope turns pairs: such a ring can only be filled by a record, and stays empty here
    return;
  }
  const std::array<float, 1> frequency{0.5F};
  const auto rope = must(Cache::Rope::create(layer.bounded_window(), frequency, 1.0F));
  std::vector<float> out(heads * dim);
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = ramp(heads * dim, static_cast<float>(i + 1));
    must(layer.bounded_step(row, row, row, {}, rope, 1.0F, heads, out));
  }
}

template <LayerCache Cache>
void live_full(Cache& layer, Life life) {
  const std::size_t query_heads = layer.geometry().num_kv_heads;
  switch (life) {
    case Life::none: return;
    case Life::q8:
    case Life::q8_frozen: must(layer.set_mode(KvMode::q8)); return append(layer, life == Life::q8 ? 2 : 66, false);
    case Life::q8_keys: must(layer.set_mode(KvMode::q8_keys)); return append(layer, 2, false);
    case Life::collecting:
    case Life::sealed:
    case Life::aborted:
      must(layer.o1_begin({.landmarks = 4, .window = 2, .sink = 1}));
      append(layer, life == Life::collecting ? 2 : 14, true);
      if (life == Life::sealed && !must(layer.o1_seal(query_heads))) throw std::runtime_error("a layer did not seal");
      if (life == Life::aborted && layer.o1_seal(query_heads + 1)) throw std::runtime_error("a layer sealed that must not");
      return;
    default: return append(layer, 2, false);
  }
}

}  // namespace furnishing

/// A layer with the kernels of one of the machine's ISAs, where the implementation has a choice: which, `turn` decides, so that
/// different inputs meet all of them.
template <LayerCache Cache>
Cache created(Geometry geometry, KvMode mode, std::size_t turn) {
  if constexpr (requires { Cache::create(geometry, mode, optimized::Isa{}); }) {
    const auto isas = optimized::available_isas();
    return furnishing::must(Cache::create(geometry, mode, isas[turn % isas.size()]));
  } else {
    return furnishing::must(Cache::create(geometry, mode));
  }
}

template <LayerCache Cache>
Cache furnished(const LayerShape& shape) {
  using namespace furnishing;
  const std::size_t turn = shape.geometry.num_kv_heads + shape.geometry.head_dim + static_cast<std::size_t>(shape.life);
  Cache layer = created<Cache>(shape.geometry, KvMode::f32, turn);
  must(layer.set_sinks(std::vector<float>(shape.geometry.num_kv_heads, 0.5F)));
  switch (shape.kind) {
    case WireKind::full: live_full(layer, shape.life); break;
    case WireKind::linear:
      must(layer.set_wire_kind(WireKind::linear));
      if (shape.life == Life::none) break;
      must(layer.linear_commit(ramp(3, 1.0F), shape.life == Life::counted ? max_count - 1 : 2));
      if (shape.life == Life::scratch) must(layer.linear_set_scratch(ramp(2, 7.0F)));
      break;
    case WireKind::bounded:
      must(layer.install_bounded(shape.window));
      if (shape.life == Life::none) break;
      step_ring(layer, shape.life == Life::early_ring ? shape.window - 1 : 2 * shape.window + 1);
      break;
  }
  return layer;
}

}  // namespace kvcert::fuzz
