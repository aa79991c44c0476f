// Many layers as one cache, over either implementation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kvcert/layer_cache.hpp"

namespace kvcert {

/// What evict(keep) keeps.
enum class EvictionPolicy : std::uint8_t {
  recent,   ///< the last `keep` positions
  by_mass,  ///< by importance, with 4 sink positions and max(keep / 2, 1) recent ones
};

/// num_layers layers of one geometry, wire_layer set to their index. A copyable value.
template <LayerCache Layer>
class KvCache {
 public:
  /// Layers made by Layer::create. max_seq_len is a budget that needs_eviction() reports, not a limit.
  /// Errors: invalid_argument (more than 2^32 layers, or a bad geometry), out_of_memory.
  static Result<KvCache> create(std::size_t num_layers, std::size_t kv_heads, std::size_t head_dim, std::uint64_t max_seq_len) {
    if (num_layers > std::size_t{wire::max_length} + 1) {
      return refuse(ErrorCode::invalid_argument, wire::max_length + 1, num_layers,
                    "num_layers is " + std::to_string(num_layers) + "; a layer's index has 32 bits");
    }
    auto layer = Layer::create(Geometry{kv_heads, head_dim});
    if (!layer) return std::unexpected(layer.error());
    KvCache cache(max_seq_len);
    try {
      cache.layers_.assign(num_layers, *layer);
    } catch (const std::bad_alloc&) {
      return refuse(ErrorCode::out_of_memory, 0, num_layers, "no memory for the layers");
    } catch (const std::length_error&) {
      return refuse(ErrorCode::out_of_memory, 0, num_layers, "no memory for the layers");
    }
    for (std::size_t index = 0; index < num_layers; ++index) {
      cache.layers_[index].set_wire_layer(static_cast<std::uint32_t>(index));
    }
    return cache;
  }

  std::size_t num_layers() const { return layers_.size(); }
  /// nullptr past the last layer.
  Layer* layer(std::size_t index) { return index < layers_.size() ? &layers_[index] : nullptr; }
  const Layer* layer(std::size_t index) const { return index < layers_.size() ? &layers_[index] : nullptr; }

  std::uint64_t max_seq_len() const { return max_seq_len_; }
  /// The largest of the layers' counters; 0 without layers.
  std::uint64_t seq_len() const {
    std::uint64_t longest = 0;
    for (const Layer& layer : layers_) longest = std::max(longest, layer.seq_len());
    return longest;
  }

  std::uint64_t total_memory_bytes() const {
    return sum([](const Layer& layer) { return layer.memory_bytes(); });
  }
  /// Recurrent vectors and their scratch, 4 bytes a float.
  std::uint64_t recurrent_state_bytes() const {
    return sum([](const Layer& layer) {
      const auto scratch = layer.linear_scratch();
      return std::uint64_t{4} * (layer.linear_state().size() + (scratch ? scratch->size() : 0));
    });
  }
  /// What attention reads: everything in memory_bytes but the recurrent vectors.
  std::uint64_t attention_state_bytes() const {
    return sum([](const Layer& layer) { return layer.memory_bytes() - std::uint64_t{4} * layer.linear_state().size(); });
  }

  /// Whether some layer that stores every position holds max_seq_len of them or more.
  bool needs_eviction() const {
    return std::any_of(layers_.begin(), layers_.end(), [this](const Layer& layer) {
      const bool per_position = layer.state() == LayerState::plain || layer.state() == LayerState::collecting;
      return per_position && layer.seq_len() >= max_seq_len_;
    });
  }

  /// In all layers, or, on an error in one, in none. How many positions went, the largest over the layers.
  /// Errors: those of the first layer that refuses; out_of_memory.
  Result<std::size_t> evict(std::size_t keep, EvictionPolicy policy) {
    try {
      std::vector<Layer> evicted = layers_;
      std::size_t most = 0;
      for (Layer& layer : evicted) {
        const auto gone = policy == EvictionPolicy::recent
                              ? layer.evict_recent(keep)
                              : layer.evict_by_mass(keep, 4, std::max<std::size_t>(keep / 2, 1));
        if (!gone) return std::unexpected(gone.error());
        most = std::max(most, *gone);
      }
      layers_ = std::move(evicted);
      return most;
    } catch (const std::bad_alloc&) {
      return refuse(ErrorCode::out_of_memory, 0, layers_.size(), "no memory to evict in all layers or in none");
    }
  }

  void clear() {
    for (Layer& layer : layers_) layer.clear();
  }

 private:
  explicit KvCache(std::uint64_t max_seq_len) : max_seq_len_(max_seq_len) {}

  static std::unexpected<Error> refuse(ErrorCode code, std::uint64_t expected, std::uint64_t found, std::string message) {
    return std::unexpected(Error{.code = code, .expected = expected, .found = found, .message = std::move(message)});
  }

  template <class Function>
  std::uint64_t sum(const Function& bytes) const {
    std::uint64_t total = 0;
    for (const Layer& layer : layers_) total += bytes(layer);
    return total;
  }

  std::vector<Layer> layers_;
  std::uint64_t max_seq_len_;
};

}  // namespace kvcert
