// The engines that the laws are run on: the two implementations, the optimized one once per ISA.
#pragma once

#include <string>

#include "kvcert/layer_cache.hpp"
#include "optimized/dispatch.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "reference/layer_kv_cache.hpp"

namespace kvcert::certify {

struct ReferenceEngine {
  using Cache = reference::LayerKvCache;
  Result<Cache> make(Geometry geometry) const { return Cache::create(geometry); }
  std::string name() const { return "reference"; }
};

struct OptimizedEngine {
  using Cache = optimized::LayerKvCache;
  optimized::Isa isa = optimized::Isa::scalar;
  Result<Cache> make(Geometry geometry) const { return Cache::create(geometry, isa); }
  std::string name() const { return std::string(optimized::name(isa)); }
};

}  // namespace kvcert::certify
