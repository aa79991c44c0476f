#include "tests/bench/machine.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvcert::bench {

using optimized::Isa;

#if defined(__x86_64__)
namespace {

/// Reads every line of the buffer in `streams` parts side by side, as fast as loads go. SSE2, which every x86-64 has: one
/// load a line is enough for the memory, and two are done.
template <int streams, bool with_hints>
void read_all(const float* data, std::size_t n) {
  const std::size_t part = n / streams;
  __m128 sum[streams];
  for (__m128& each : sum) each = _mm_setzero_ps();
  for (std::size_t i = 0; i + 32 <= part; i += 32)
    for (std::size_t s = 0; s < streams; ++s) {
      const float* at = data + s * part + i;
      if (with_hints)
        for (std::size_t line = 0; line < 2; ++line)
          _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(at) + 2048 + 64 * line), _MM_HINT_T0);
      sum[s] = _mm_or_ps(sum[s], _mm_or_ps(_mm_loadu_ps(at), _mm_loadu_ps(at + 16)));
    }
  for (__m128& each : sum) benchmark::DoNotOptimize(each);
}

constexpr std::size_t chains = 12;  // independent ones: they hide the latency
constexpr std::size_t turns = 50000;

void multiply_add_sse() {
  __m128 sum[chains];
  __m128 x = _mm_set1_ps(0.5F), y = _mm_set1_ps(0.25F);
  benchmark::DoNotOptimize(x);
  benchmark::DoNotOptimize(y);
  for (__m128& each : sum) each = y;
  for (std::size_t i = 0; i < turns; ++i)
#pragma GCC unroll 12
    for (__m128& each : sum) each = _mm_add_ps(_mm_mul_ps(each, x), y);
  for (__m128& each : sum) benchmark::DoNotOptimize(each);
}

__attribute__((target("avx2,fma"))) void multiply_add_avx2() {
  __m256 sum[chains];
  __m256 x = _mm256_set1_ps(0.5F), y = _mm256_set1_ps(0.25F);
  benchmark::DoNotOptimize(x);
  benchmark::DoNotOptimize(y);
  for (__m256& each : sum) each = y;
  for (std::size_t i = 0; i < turns; ++i)
#pragma GCC unroll 12
    for (__m256& each : sum) each = _mm256_fmadd_ps(each, x, y);
  for (__m256& each : sum) benchmark::DoNotOptimize(each);
}

__attribute__((target("avx512f"))) void multiply_add_avx512() {
  __m512 sum[chains];
  __m512 x = _mm512_set1_ps(0.5F), y = _mm512_set1_ps(0.25F);
  benchmark::DoNotOptimize(x);
  benchmark::DoNotOptimize(y);
  for (__m512& each : sum) each = y;
  for (std::size_t i = 0; i < turns; ++i)
#pragma GCC unroll 12
    for (__m512& each : sum) each = _mm512_fmadd_ps(each, x, y);
  for (__m512& each : sum) benchmark::DoNotOptimize(each);
}

}  // namespace

std::vector<std::function<void()>> reads(std::span<const float> huge_pages, std::span<const float> ordinary) {
  std::vector<std::function<void()>> ways;
  for (const auto buffer : {huge_pages, ordinary})
    for (const auto read : {read_all<1, false>, read_all<2, false>, read_all<4, false>, read_all<1, true>,
                            read_all<2, true>, read_all<4, true>})
      ways.emplace_back([buffer, read] { read(buffer.data(), buffer.size()); });
  return ways;
}

MultiplyAdds multiply_adds(Isa isa) {
  if (isa == Isa::avx512) return {multiply_add_avx512, 16.0 * chains * turns};
  if (isa == Isa::avx2) return {multiply_add_avx2, 8.0 * chains * turns};
  return {multiply_add_sse, 4.0 * chains * turns};
}

#else

std::vector<std::function<void()>> reads(std::span<const float> huge_pages, std::span<const float> ordinary) {
  std::vector<std::function<void()>> ways;
  for (const auto buffer : {huge_pages, ordinary})
    ways.emplace_back([buffer] {
      std::uint32_t bits = 0;
      for (std::size_t i = 0; i < buffer.size(); i += 16) bits |= static_cast<std::uint32_t>(buffer[i] != 0);
      benchmark::DoNotOptimize(bits);
    });
  return ways;
}

MultiplyAdds multiply_adds(Isa) { return {[] {}, 0}; }

#endif

}  // namespace kvcert::bench
