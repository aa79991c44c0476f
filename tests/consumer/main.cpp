// A project that uses the installed cache, found by pkg-config.
#include "kvcert/engine.h"
#include "optimized/layer_kv_cache.hpp"

#include <vector>

int main() {
  auto layer = kvcert::optimized::LayerKvCache::create({.num_kv_heads = 2, .head_dim = 4});
  if (!layer) return 1;
  const std::vector<float> row(8, 0.5F);
  if (!layer->append(row, row, {})) return 2;
  const auto answer = layer->attend(std::vector<float>(4, 1.0F), 1);
  return answer && answer->output == std::vector<float>(4, 0.5F) && KVCERT_ENGINE_ABI == 1u ? 0 : 3;
}
