// Small records that ask for gigabytes: each must be refused in under a millisecond, and for less than 64 KiB of memory.
#include <chrono>
#include <cstdio>

#include "fuzz/allocations.hpp"
#include "fuzz/furnished.hpp"
#include "fuzz/record_bytes.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "reference/layer_kv_cache.hpp"

namespace {

using namespace kvcert;
using namespace kvcert::fuzz;

constexpr std::size_t record_bytes = 64;
constexpr std::uint64_t gib = std::uint64_t{1} << 30U;
constexpr std::uint64_t most_bytes = 64 * 1024;
constexpr double most_milliseconds = 1;

struct Hostile {
  const char* name;
  WireKind kind;
  std::uint64_t position;
  std::vector<std::uint64_t> fields;  ///< u32, behind the header
  ErrorCode code;
};

/// For a layer of 1 head × 1. What the fields leave of the 64 bytes is zero.
const std::vector<Hostile> hostile{
    {"vector of 4 GiB, kind full", WireKind::full, 0, {0, 0, 1, 1, gib, 0}, ErrorCode::truncated},
    {"vector of 16 GiB, kind full", WireKind::full, 0, {0, 0, 1, 1, 0xFFFFFFFF, 0}, ErrorCode::truncated},
    {"importance of 4 GiB", WireKind::full, gib, {0, gib, 1, 1, 0, gib}, ErrorCode::truncated},
    {"vector of 4 GiB, kind linear", WireKind::linear, 0, {1, 1, gib}, ErrorCode::truncated},
    {"ring of 4 GiB", WireKind::bounded, 0, {1, 1, gib}, ErrorCode::geometry_mismatch},
};

Bytes record_of(const Hostile& wanted) {
  Bytes bytes;
  put_header(bytes, {}, wanted.kind, 0, wanted.position);
  for (std::uint64_t field : wanted.fields) put_le(bytes, field, 4);
  bytes.resize(record_bytes);
  return bytes;
}

template <LayerCache Cache>
bool refuses(const char* who, const Hostile& wanted) {
  const Bytes bytes = record_of(wanted);
  Cache layer = furnished<Cache>({.geometry = {1, 1}, .kind = wanted.kind, .window = 2, .life = Life::none});
  double fastest = 1e9;
  std::uint64_t asked = 0;
  bool refused = true;
  for (int i = 0; i < 200; ++i) {  // the fastest: the machine may be busy with something else
    const std::uint64_t before = bytes_asked_for();
    const auto began = std::chrono::steady_clock::now();
    const auto result = layer.import_wire(bytes);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
    asked = std::max(asked, bytes_asked_for() - before);
    fastest = std::min(fastest, took.count());
    refused = refused && !result && result.error().code == wanted.code;
  }
  const bool good = refused && asked < most_bytes && fastest < most_milliseconds;
  std::printf("%-10s %-30s %s in %.4f ms, %llu bytes of memory%s\n", who, wanted.name, refused ? "refused" : "NOT REFUSED as it should be",
              fastest, static_cast<unsigned long long>(asked), good ? "" : "  TOO MUCH");
  return good;
}

}  // namespace

int main() {
  bool good = true;
  for (const Hostile& wanted : hostile) {
    good = refuses<reference::LayerKvCache>("reference", wanted) && good;
    good = refuses<optimized::LayerKvCache>("optimized", wanted) && good;
  }
  return good ? 0 : 1;
}
