// One decode step of a layer, one thread, against what this machine can do at most: kvcert_bench [--json FILE].
//
// 8 KV heads × head_dim 128, fan-out 4, 4096 rows: attend_group once per KV head. The step reads K and V (32 MiB) and
// does two fused multiply-adds per stored element and query head; it cannot be faster than the slower of those two
// alone, and both limits are measured in the same run, by loads and fmas that do nothing else. Every measurement of the
// table starts with caches full of something else (Google Benchmark's own, which repeat a step at once, do not).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "optimized/buffer.hpp"
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
constexpr double stored = static_cast<double>(rows * geometry.num_kv_heads * geometry.head_dim);  // elements of K
constexpr double kv_bytes = 2 * 4 * stored;
constexpr double fmas = 2 * stored * fan_out;
constexpr int repetitions = 41;

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

/// Takes the caches for itself, so that what follows comes from memory, as it does in a model of many layers.
void evict() {
  static std::vector<float> other(std::size_t{1} << 25, 1.0F);  // 128 MiB
  for (std::size_t i = 0; i < other.size(); i += 16) other[i] += 1.0F;
  benchmark::DoNotOptimize(other.data());
  benchmark::ClobberMemory();
}

/// Something that is timed, once in every round: what shares the machine then slows all of them alike.
struct Probe {
  std::string name;
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
      evict();
      const double start = thread_seconds();
      probe.call();
      if (round >= 0) probe.seconds.push_back(thread_seconds() - start);  // the first only warms up
    }
}

/// The layer and its queries, made once per ISA.
class DecodeStep {
 public:
  explicit DecodeStep(Isa isa) : layer_(LayerKvCache::create(geometry, isa).value()) {
    const auto k = numbers(rows * geometry.num_kv_heads * geometry.head_dim, 1);
    const auto v = numbers(rows * geometry.num_kv_heads * geometry.head_dim, 2);
    if (!layer_.append_chunk(k, v, rows)) std::abort();
  }
  void operator()() {
    const std::size_t group = fan_out * geometry.head_dim;
    for (std::size_t head = 0; head < geometry.num_kv_heads; ++head) {
      const Query query{.q_group = std::span<const float>(q_).subspan(head * group, group),
                        .kv_head = head,
                        .scale = LayerKvCache::default_scale(geometry.head_dim)};
      if (!layer_.attend_group(query, std::span(out_).subspan(head * group, group), acc_)) std::abort();
    }
    benchmark::DoNotOptimize(out_.data());
    benchmark::ClobberMemory();
  }

 private:
  LayerKvCache layer_;
  std::vector<float> q_ = numbers(geometry.num_kv_heads * fan_out * geometry.head_dim, 3);
  std::vector<float> out_ = std::vector<float>(geometry.num_kv_heads * fan_out * geometry.head_dim);
  std::vector<float> acc_ = std::vector<float>(rows);
};

#if defined(__x86_64__)

/// Reads every line of the buffer in `streams` parts side by side, as fast as loads go.
template <int streams, bool with_prefetch>
__attribute__((target("avx2,fma"))) void read_all(const float* data, std::size_t n) {
  const std::size_t part = n / streams;
  __m256 sum[streams][2];
  for (auto& pair : sum) pair[0] = pair[1] = _mm256_setzero_ps();
  for (std::size_t i = 0; i + 32 <= part; i += 32)
    for (std::size_t s = 0; s < streams; ++s) {
      const float* at = data + s * part + i;
      if (with_prefetch) {
        _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(at) + 2048), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(at) + 2112), _MM_HINT_T0);
      }
      sum[s][0] = _mm256_or_ps(sum[s][0], _mm256_or_ps(_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)));
      sum[s][1] = _mm256_or_ps(sum[s][1], _mm256_or_ps(_mm256_loadu_ps(at + 16), _mm256_loadu_ps(at + 24)));
    }
  for (auto& pair : sum) benchmark::DoNotOptimize(pair);
}

/// 12 independent chains of fma hide its latency; n fmas of 8 floats in all, n a multiple of 12.
__attribute__((target("avx2,fma"))) void multiply_add(std::size_t n) {
  __m256 sum[12];
  for (auto& each : sum) each = _mm256_set1_ps(1);
  __m256 x = _mm256_set1_ps(0.5F), y = _mm256_set1_ps(0.25F);
  benchmark::DoNotOptimize(x);
  benchmark::DoNotOptimize(y);
  for (std::size_t i = 0; i < n; i += 12)
    for (auto& each : sum) each = _mm256_fmadd_ps(each, x, y);
  for (auto& each : sum) benchmark::DoNotOptimize(each);
}

#endif

constexpr std::size_t fma_registers = 12 * 100000;

/// What bounds a step from below: reading a buffer as large as K and V, in every way tried here, and fma alone. The
/// memory is once what the cache asks for (huge pages where the system has them) and once the ordinary kind: the limit
/// is the better of the two.
std::vector<Probe> limit_probes([[maybe_unused]] std::span<const float> like_the_cache,
                                [[maybe_unused]] std::span<const float> ordinary) {
#if defined(__x86_64__)
  if (optimized::is_available(Isa::avx2)) {
    std::vector<Probe> probes;
    for (const auto buffer : {like_the_cache, ordinary})
      for (const auto read : {read_all<1, false>, read_all<2, false>, read_all<4, false>, read_all<1, true>,
                              read_all<2, true>, read_all<4, true>})
        probes.push_back({"read", [buffer, read] { read(buffer.data(), buffer.size()); }});
    probes.push_back({"fma", [] { multiply_add(fma_registers); }});
    return probes;
  }
#endif
  return {};
}

struct Measured {
  std::string isa;
  double seconds;
};

void print(const std::vector<Measured>& all, double bandwidth, double fma_per_second) {
  std::printf(
      "\none decode step: %zu KV heads x %zu, fan-out %zu, %zu rows, one thread, caches cold; processor time, median "
      "of %d\n",
      geometry.num_kv_heads, geometry.head_dim, fan_out, rows, repetitions);
  const double limit = bandwidth > 0 ? std::max(kv_bytes / bandwidth, fmas / fma_per_second) : 0;
  if (limit > 0) {
    std::printf(
        "this machine, AVX2, same run: reads %.1f GB/s -> %.3f ms; %.1f GFLOP/s -> %.3f ms; the binding limit is %s\n",
        bandwidth / 1e9, kv_bytes / bandwidth * 1e3, 2 * fma_per_second / 1e9, fmas / fma_per_second * 1e3,
        kv_bytes / bandwidth > fmas / fma_per_second ? "memory" : "arithmetic");
  }
  std::printf("%-8s %14s %12s %12s %12s\n", "ISA", "ns per step", "GB/s of K+V", "GFLOP/s", "% of limit");
  for (const Measured& m : all)
    std::printf("%-8s %14.0f %12.2f %12.2f %12.1f\n", m.isa.c_str(), m.seconds * 1e9, kv_bytes / m.seconds / 1e9,
                2 * fmas / m.seconds / 1e9, 100 * limit / m.seconds);
}

bool write_json(const char* path, const std::vector<Measured>& all, double bandwidth, double fma_per_second) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return false;
  const double limit = bandwidth > 0 ? std::max(kv_bytes / bandwidth, fmas / fma_per_second) : 0;
  std::fprintf(file,
               "{\n  \"kv_heads\": %zu, \"head_dim\": %zu, \"fan_out\": %zu, \"rows\": %zu, \"repetitions\": %d,\n",
               geometry.num_kv_heads, geometry.head_dim, fan_out, rows, repetitions);
  std::fprintf(
      file,
      "  \"read_bytes_per_second\": %.0f, \"peak_flop_per_second\": %.0f, \"limit_seconds\": %.9f,\n  \"isas\": [",
      bandwidth, 2 * fma_per_second, limit);
  for (const Measured& m : all)
    std::fprintf(file,
                 "%s\n    {\"isa\": \"%s\", \"ns_per_step\": %.0f, \"kv_bytes_per_second\": %.0f, \"flop_per_second\": "
                 "%.0f, \"percent_of_limit\": %.1f}",
                 &m == all.data() ? "" : ",", m.isa.c_str(), m.seconds * 1e9, kv_bytes / m.seconds,
                 2 * fmas / m.seconds, 100 * limit / m.seconds);
  std::fprintf(file, "\n  ]\n}\n");
  return std::fclose(file) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* json = nullptr;
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], "--json") == 0) {
      json = argv[i + 1];
      std::rotate(argv + i, argv + i + 2, argv + argc);
      argc -= 2;
      break;
    }
  for (const Isa isa : optimized::available_isas())
    benchmark::RegisterBenchmark(("decode_step/" + std::string(name(isa))).c_str(), [isa](benchmark::State& state) {
      DecodeStep step(isa);
      for (auto _ : state) step();
      state.SetBytesProcessed(static_cast<std::int64_t>(kv_bytes) * state.iterations());
    })->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();

  const std::vector<float> ordinary(static_cast<std::size_t>(kv_bytes / 4), 1.0F);
  const optimized::Buffer<float> like_the_cache{std::span<const float>(ordinary)};
  std::vector<Probe> probes = limit_probes(like_the_cache.view(), ordinary);
  const std::size_t limits = probes.size();
  std::vector<std::unique_ptr<DecodeStep>> steps;
  for (const Isa isa : optimized::available_isas()) {
    steps.push_back(std::make_unique<DecodeStep>(isa));
    probes.push_back({std::string(name(isa)), [step = steps.back().get()] { (*step)(); }});
  }
  run(probes);

  double bandwidth = 0, fma_per_second = 0;
  std::vector<Measured> all;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const double seconds = probes[i].median();
    if (i >= limits)
      all.push_back({probes[i].name, seconds});
    else if (probes[i].name == "read")
      bandwidth = std::max(bandwidth, kv_bytes / seconds);
    else
      fma_per_second = static_cast<double>(fma_registers) * 8 / seconds;
  }
  print(all, bandwidth, fma_per_second);
  if (json != nullptr && !write_json(json, all, bandwidth, fma_per_second)) {
    std::fprintf(stderr, "cannot write %s\n", json);
    return 1;
  }
  return 0;
}
