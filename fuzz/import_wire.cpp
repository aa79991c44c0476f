// Any bytes, two decoders, two layers: one that fits what the buffer claims to be, so that the fuzzer gets past the
// header, and a fixed one that the header has to get past.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <tuple>

#include "fuzz/wire_pair.hpp"

namespace {

using namespace kvcert;
using fuzz::WireLayer;

/// Sizes beyond these find nothing new and make every run slower.
constexpr std::uint64_t most_heads = 8;
constexpr std::uint64_t most_dims = 64;

WireLayer fitting(std::span<const std::uint8_t> bytes) {
  WireLayer layer{.geometry = {2, 4}};
  const bool versioned = fuzz::is_versioned(bytes);
  if (versioned && bytes.size() >= wire::header_bytes) {
    layer.identity = fuzz::get(bytes, wire::offset_identity, 8);
    layer.layer = static_cast<std::uint32_t>(fuzz::get(bytes, wire::offset_layer, 4));
  }
  const std::size_t geometry_at = (versioned ? wire::header_bytes : 0) + 8;
  if (bytes.size() >= geometry_at + 8) {
    const auto heads = fuzz::get(bytes, geometry_at, 4), dim = fuzz::get(bytes, geometry_at + 4, 4);
    if (heads >= 1 && heads <= most_heads && dim >= 1 && dim <= most_dims) layer.geometry = {heads, dim};
  }
  return layer;
}

/// The decoders of this layer, kept from run to run: furnishing a layer costs more than importing into it.
fuzz::BothDecoders& decoders_of(const WireLayer& layer) {
  static std::map<std::tuple<std::size_t, std::size_t, std::uint32_t, std::uint64_t, bool>, fuzz::BothDecoders> kept;
  if (kept.size() > 1000) kept.clear();
  const auto [heads, dim] = layer.geometry;
  return kept.try_emplace({heads, dim, layer.layer, layer.identity, layer.linear_wire_allowed}, layer).first->second;
}

void judge(const WireLayer& layer, std::span<const std::uint8_t> bytes) {
  if (const auto answer = decoders_of(layer).judge(bytes); answer.problem) {
    const auto [heads, dim] = layer.geometry;
    fmt::print(stderr, "layer of {} heads x {}, index {}, identity {:016x}, {} bytes: {}\n", heads, dim, layer.layer,
               layer.identity, bytes.size(), *answer.problem);
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(data, size);
  judge(fitting(bytes), bytes);
  judge({.geometry = {2, 2}, .layer = 3, .identity = 0xC0FFEE00, .linear_wire_allowed = false}, bytes);
  return 0;
}
