// int8 decoding, the ring and records, each against its yardstick measured in the same run: medians of ratios count.
// kvcert_bench_rows [ISA]. One thread; a shared machine slows all of a round alike.
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "optimized/buffer.hpp"
#include "optimized/dispatch.hpp"
#include "optimized/layer_kv_cache.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using namespace kvcert;
using optimized::Isa;
using optimized::LayerKvCache;

constexpr Geometry geometry{8, 128};
constexpr std::size_t fan_out = 4;
constexpr std::size_t rows = 4096;
constexpr int repetitions = 15;

std::vector<float> numbers(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

/// This thread's processor time: waiting for memory counts, other processes on a shared machine do not.
double thread_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void keep(const void* p) { asm volatile("" : : "g"(p) : "memory"); }

/// Takes the caches for itself, so that what follows comes from memory.
void evict() {
  static std::vector<float> other(std::size_t{1} << 25, 1.0F);  // 128 MiB
  for (std::size_t i = 0; i < other.size(); i += 16) other[i] += 1.0F;
  keep(other.data());
}

struct Probe {
  std::string name;
  bool cold;
  int calls;
  std::function<void()> call;
  std::vector<double> seconds{};
  double median() {
    std::ranges::nth_element(seconds, seconds.begin() + repetitions / 2);
    return seconds[repetitions / 2];
  }
};

void run(std::vector<Probe>& probes) {
  for (int round = -1; round < repetitions; ++round)
    for (Probe& probe : probes) {
      if (probe.cold) evict();
      const double start = thread_seconds();
      for (int i = 0; i < probe.calls; ++i) probe.call();
      if (round >= 0) probe.seconds.push_back((thread_seconds() - start) / probe.calls);  // the first only warms up
    }
}

void must(bool good) {
  if (!good) std::abort();
}

LayerKvCache decoding_layer(Isa isa, KvMode mode) {
  LayerKvCache layer = LayerKvCache::create(geometry, isa).value();
  must(layer.set_mode(mode).has_value());
  const auto k = numbers(rows * geometry.num_kv_heads * geometry.head_dim, 1);
  const auto v = numbers(rows * geometry.num_kv_heads * geometry.head_dim, 2);
  must(layer.append_chunk(k, v, rows).has_value());
  return layer;
}

void decode_step(const LayerKvCache& layer, std::span<const float> q, std::span<float> out) {
  const std::size_t group = fan_out * geometry.head_dim;
  for (std::size_t head = 0; head < geometry.num_kv_heads; ++head) {
    const Query query{.q_group = q.subspan(head * group, group),
                      .kv_head = head,
                      .scale = LayerKvCache::default_scale(geometry.head_dim)};
    must(layer.attend_group(query, out.subspan(head * group, group), {}).has_value());
  }
  keep(out.data());
}

#if defined(__x86_64__)
/// 12 independent chains of fma hide its latency; n fmas of 8 floats in all.
__attribute__((target("avx2,fma"))) void multiply_add(std::size_t n) {
  __m256 sum[12];
  for (auto& each : sum) each = _mm256_set1_ps(1);
  __m256 x = _mm256_set1_ps(0.5F), y = _mm256_set1_ps(0.25F);
  asm volatile("" : "+x"(x), "+x"(y));
  for (std::size_t i = 0; i < n; i += 12)
    _Pragma("GCC unroll 12") for (auto& each : sum) each = _mm256_fmadd_ps(each, x, y);
  for (auto& each : sum) asm volatile("" : : "x"(each));
}
#else
void multiply_add(std::size_t) {}
#endif
constexpr std::size_t fma_registers = 12 * 20000;

void show(const Probe& probe, double seconds, double against, const char* unit) {
  std::printf("  %-28s %9.1f us   %6.2f %s\n", probe.name.c_str(), seconds * 1e6, against, unit);
}

void decode(Isa isa) {
  const LayerKvCache f32 = decoding_layer(isa, KvMode::f32), q8 = decoding_layer(isa, KvMode::q8);
  const auto q = numbers(geometry.num_kv_heads * fan_out * geometry.head_dim, 3);
  std::vector<float> out(q.size());
  std::vector<Probe> probes;
  probes.push_back({"decode f32", true, 1, [&] { decode_step(f32, q, out); }});
  probes.push_back({"decode q8", true, 1, [&] { decode_step(q8, q, out); }});
  run(probes);
  show(probes[0], probes[0].median(), 1, "x f32");
  show(probes[1], probes[1].median(), probes[1].median() / probes[0].median(), "x f32  (at most 1.3)");
  std::printf("  %-28s %24.3f of f32's bytes  (at most 0.3)\n", "decode q8 moves",
              static_cast<double>(q8.memory_bytes()) / static_cast<double>(f32.memory_bytes()));
}

void bounded(Isa isa) {
  constexpr std::size_t window = 128, sinks = 4, heads = geometry.num_kv_heads * fan_out;
  constexpr std::size_t half = geometry.head_dim / 2;
  LayerKvCache layer = LayerKvCache::create(geometry, isa).value();
  must(layer.install_bounded(window).has_value());
  std::vector<float> frequencies(half);
  for (std::size_t i = 0; i < half; ++i) frequencies[i] = 1.0F / static_cast<float>(1 + i);
  const auto rope = optimized::Rope::create(window, frequencies, 1.0F).value();
  const std::size_t row = geometry.num_kv_heads * geometry.head_dim;
  const auto q = numbers(heads * geometry.head_dim, 4), k = numbers(row, 5), v = numbers(row, 6);
  const auto sink_keys = numbers(sinks * row, 7), sink_values = numbers(sinks * row, 8);
  std::vector<float> out(q.size());
  const auto step = [&] {
    must(layer.bounded_step(q, k, v, {.keys = sink_keys, .values = sink_values}, rope, 0.088F, heads, out).has_value());
    keep(out.data());
  };
  for (std::size_t i = 0; i < window; ++i) step();
  std::vector<Probe> probes;
  probes.push_back({"bounded step", false, 40, step});
  probes.push_back({"fma peak", false, 10, [] { multiply_add(fma_registers); }});
  run(probes);
  // Two fmas an element, and six operations for each pair that is turned.
  const double flops = heads * (2.0 * 2.0 * (window + sinks) * geometry.head_dim + 6.0 * window * half);
  const double peak = 16.0 * fma_registers / probes[1].median();
  show(probes[0], probes[0].median(), 100 * flops / probes[0].median() / peak, "% of AVX2's fma peak  (at least 50)");
}

void record(Isa isa, WireFormat format) {
  const std::size_t element = format == WireFormat::f16 ? 2 : 4;
  const std::size_t count = (std::size_t{16} << 20) / (2 * geometry.num_kv_heads * geometry.head_dim * element);
  LayerKvCache layer = LayerKvCache::create(geometry, isa).value();
  must(layer.append_chunk(numbers(count * geometry.num_kv_heads * geometry.head_dim, 9),
                          numbers(count * geometry.num_kv_heads * geometry.head_dim, 10), count).has_value());
  const auto bytes = layer.export_wire(format).value();
  const std::string kind = format == WireFormat::f16 ? "f16" : "f32";
  std::vector<Probe> probes;
  probes.push_back({"memcpy to a record", true, 1, [&] {
    std::vector<std::uint8_t> copy;
    copy.reserve(bytes.size());
    copy.insert(copy.end(), bytes.begin(), bytes.end());
    keep(copy.data());
  }});
  probes.push_back({"export " + kind, true, 1, [&] { keep(layer.export_wire(format).value().data()); }});
  probes.push_back({"memcpy to rows", true, 1, [&] {
    const std::size_t half = bytes.size() / 2;  // K and V, as long as the record's payload
    optimized::Buffer<std::uint8_t> keys(half), values(half);
    std::memcpy(keys.data(), bytes.data(), half);
    std::memcpy(values.data(), bytes.data() + half, half);
    keep(keys.data());
    keep(values.data());
  }});
  probes.push_back({"import " + kind, true, 1, [&] {
    LayerKvCache empty = LayerKvCache::create(geometry, isa).value();
    must(empty.import_wire(bytes).has_value());
    keep(&empty);
  }});
  run(probes);
  const double wanted = format == WireFormat::f16 ? 0.4 : 0.7;
  for (std::size_t i : {0U, 2U}) {
    const double copy = probes[i].median(), wire = probes[i + 1].median();
    std::printf("  %-28s %9.1f us\n", probes[i].name.c_str(), copy * 1e6);
    std::printf("  %-28s %9.1f us   %6.2f x memcpy's speed  (at least %.1f)\n", probes[i + 1].name.c_str(), wire * 1e6,
                copy / wire, wanted);
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Every large block comes from the system and is touched for the first time, in yardstick and record alike.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  for (const Isa isa : optimized::available_isas()) {
    if (argc > 1 ? optimized::name(isa) != argv[1] : isa == Isa::scalar) continue;
    std::printf("%s, 8 x 128, fan-out 4\n", std::string(optimized::name(isa)).c_str());
    if (argc < 3) decode(isa);
    if (argc < 3) bounded(isa);
    record(isa, WireFormat::f32);
    record(isa, WireFormat::f16);
  }
}
