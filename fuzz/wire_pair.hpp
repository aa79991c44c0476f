// One buffer, two decoders: both must come to the same verdict, a refusal must change nothing, and what is accepted
// must be written again to the same bytes. The fuzz target and the corpus tests share this.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "certify/observe.hpp"
#include "kvcert/layer_cache.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "reference/layer_kv_cache.hpp"

namespace kvcert::fuzz {

using Bytes = std::vector<std::uint8_t>;

/// What a decoder knows about its layer before it looks at a buffer.
struct WireLayer {
  Geometry geometry;
  std::uint32_t layer = 0;
  std::uint64_t identity = 0;
  bool linear_wire_allowed = true;
};

inline void put(Bytes& out, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

inline std::uint64_t get(std::span<const std::uint8_t> bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{bytes[at + i]} << (8 * i);
  return value;
}

inline bool is_versioned(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 4 && std::equal(wire::magic.begin(), wire::magic.end(), bytes.begin());
}

inline Bytes header(const WireLayer& layer, std::uint64_t f16, std::uint64_t position) {
  Bytes out(wire::magic.begin(), wire::magic.end());
  put(out, wire::version, 4);
  put(out, layer.identity, 8);
  put(out, layer.layer, 4);
  put(out, 0, 1);
  put(out, f16, 1);
  put(out, 0, 2);
  put(out, position, 8);
  return out;
}

/// The record that a layer owes after it accepted `bytes`: the same, or a header around an unversioned body.
inline Bytes record_owed(const WireLayer& layer, std::span<const std::uint8_t> bytes) {
  if (is_versioned(bytes)) return {bytes.begin(), bytes.end()};
  Bytes owed = header(layer, get(bytes, 0, 4), get(bytes, 4, 4));
  owed.insert(owed.end(), bytes.begin(), bytes.end());
  return owed;
}

/// A record with something in every place that an import replaces: a vector, importance, rows with NaN payloads, and a
/// dead head where there are two. A layer too wide for rows gets the vector only.
inline Bytes furniture(const WireLayer& layer) {
  const auto [heads, dim] = layer.geometry;
  const std::size_t positions = heads <= 64 && dim <= 4096 ? 2 : 0;
  std::uint64_t pattern = 0x7F800001;  // a signalling NaN; the patterns that follow are NaNs too, all distinct
  Bytes out = header(layer, 0, positions);
  for (std::uint64_t field : {std::size_t{0}, positions, heads, dim, std::size_t{3}, positions}) put(out, field, 4);
  for (std::size_t i = 0; i < 3 + positions; ++i) put(out, pattern++, 4);
  for (std::size_t head = 0; head < heads; ++head) {
    const std::size_t length = heads > 1 && head + 1 == heads ? 0 : positions * dim;
    for (int tensor = 0; tensor < 2; ++tensor) {
      put(out, length, 4);
      for (std::size_t i = 0; i < length; ++i) put(out, pattern++, 4);
    }
  }
  return out;
}

/// One implementation's layer, furnished anew whenever a buffer has changed it.
template <LayerCache Cache>
class Subject {
 public:
  explicit Subject(const WireLayer& layer) : config_(layer), pristine_(furnished(layer)), layer_(pristine_),
                                             before_(certify::observe(pristine_)) {}

  /// The refusal, or nothing. `problem` is set when the layer broke a duty of docs/wire.md.
  std::optional<Error> import(std::span<const std::uint8_t> bytes, std::optional<std::string>& problem) {
    const auto imported = layer_.import_wire(bytes);
    if (!imported) {
      if (auto changed = certify::difference(before_, certify::observe(layer_))) {
        problem = fmt::format("a refused import ({}) changed the layer: {}", name(imported.error().code), *changed);
        layer_ = pristine_;
      }
      return imported.error();
    }
    if (auto broken = certify::incoherence(layer_)) problem = fmt::format("after an accepted import: {}", *broken);
    const Bytes owed = record_owed(config_, bytes);
    const auto again = layer_.export_wire(owed[wire::offset_f16] == 1 ? WireFormat::f16 : WireFormat::f32);
    if (!again) {
      problem = fmt::format("accepted, but export_wire refuses: {}", again.error().message);
    } else if (!std::ranges::equal(*again, owed)) {
      const auto at = std::ranges::mismatch(*again, owed).in1 - again->begin();
      problem = fmt::format("accepted, but written again differently at byte {} ({} bytes, owed {})", at, again->size(),
                            owed.size());
    }
    layer_ = pristine_;
    return std::nullopt;
  }

 private:
  static Cache furnished(const WireLayer& config) {
    auto layer = Cache::create(config.geometry);
    if (!layer) throw std::runtime_error(layer.error().message);
    layer->set_wire_layer(config.layer);
    layer->set_wire_identity(config.identity);
    layer->set_linear_wire_allowed(config.linear_wire_allowed);
    const std::vector<float> sinks(config.geometry.num_kv_heads, 0.5F);
    if (!layer->set_sinks(sinks)) throw std::runtime_error("set_sinks");
    if (auto filled = layer->import_wire(furniture(config)); !filled) throw std::runtime_error(filled.error().message);
    return *layer;
  }

  WireLayer config_;
  Cache pristine_, layer_;
  certify::Observed before_;
};

inline std::string describe(const std::optional<Error>& verdict) {
  if (!verdict) return "accepts";
  return fmt::format("says {} at {} (expected {}, found {})", name(verdict->code), verdict->offset, verdict->expected,
                     verdict->found);
}

class BothDecoders {
 public:
  explicit BothDecoders(const WireLayer& layer) : reference_(layer), optimized_(layer) {}

  struct Answer {
    std::optional<Error> refusal;        ///< the reference's
    std::optional<std::string> problem;  ///< a broken duty, or two verdicts
  };

  Answer judge(std::span<const std::uint8_t> bytes) {
    std::optional<std::string> of_reference, of_optimized;
    const auto expected = reference_.import(bytes, of_reference);
    const auto found = optimized_.import(bytes, of_optimized);
    Answer answer{expected, std::nullopt};
    if (expected.has_value() != found.has_value() || (expected && !same_verdict(*expected, *found))) {
      answer.problem = fmt::format("the reference {}, the optimized decoder {}", describe(expected), describe(found));
    } else if (of_reference) {
      answer.problem = "reference: " + *of_reference;
    } else if (of_optimized) {
      answer.problem = "optimized: " + *of_optimized;
    }
    return answer;
  }

 private:
  Subject<reference::LayerKvCache> reference_;
  Subject<optimized::LayerKvCache> optimized_;
};

}  // namespace kvcert::fuzz
