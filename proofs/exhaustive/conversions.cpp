// binary16 both ways, exhaustively: the optimized conversions against the reference's, and both upward ones against the
// value that the pattern means. Rope entries against MPFR on generated arguments.
#include "proofs/exhaustive/conversions.hpp"

#include <mpfr.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "optimized/binary16.hpp"
#include "optimized/rope_entry.hpp"
#include "proofs/exhaustive/digest.hpp"
#include "reference/binary16.hpp"

namespace kvcert::exhaustive {
namespace {

/// What a finite or infinite binary16 pattern means, from its definition.
double meaning(std::uint32_t half) {
  const int exponent = static_cast<int>(half >> 10 & 0x1F), fraction = static_cast<int>(half & 0x3FF);
  const double magnitude = exponent == 0x1F ? HUGE_VAL
                           : exponent == 0  ? std::ldexp(fraction, -24)
                                            : std::ldexp(1024 + fraction, exponent - 25);
  return half >> 15 != 0 ? -magnitude : magnitude;
}

bool check_upward() {
  unsigned long wrong = 0;
  std::vector<std::uint32_t> results;
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const std::uint32_t got = optimized::from_binary16(static_cast<std::uint16_t>(half));
    results.push_back(got);
    const bool nan = (half & 0x7FFF) > 0x7C00;
    // A NaN keeps its sign and its fraction; anything else its value, and zero its sign.
    const std::uint32_t expected = nan ? (half & 0x8000) << 16 | 0x7F800000 | (half & 0x3FF) << 13
                                       : std::bit_cast<std::uint32_t>(static_cast<float>(meaning(half)));
    if (got != expected || got != reference::binary32_from_binary16(static_cast<std::uint16_t>(half))) {
      if (wrong++ < 10) std::printf("wrong  from_binary16(%04x) = %08x, means %08x\n", half, got, expected);
    }
  }
  std::printf("from_binary16: 65536 arguments, %lu wrong\n", wrong);
  return report_digest("", "from_binary16", digest_of(results.data(), results.size())) && wrong == 0;
}

constexpr std::uint64_t chunk_size = std::uint64_t{1} << 18;
constexpr std::uint64_t chunk_count = (std::uint64_t{1} << 32) / chunk_size;

bool check_downward() {
  std::vector<std::uint64_t> digests(chunk_count);
  std::atomic<std::uint64_t> next = 0, wrong = 0;
  const auto work = [&] {
    std::vector<std::uint16_t> results(chunk_size);
    for (std::uint64_t chunk = next++; chunk < chunk_count; chunk = next++) {
      for (std::uint64_t i = 0; i < chunk_size; ++i) {
        const auto bits = static_cast<std::uint32_t>(chunk * chunk_size + i);
        results[i] = optimized::to_binary16(bits);
        const std::uint16_t expected = reference::binary16_from_binary32(bits);
        if (results[i] != expected && wrong++ < 10)
          std::printf("wrong  to_binary16(%08x) = %04x, the reference says %04x\n", bits, results[i], expected);
      }
      digests[chunk] = digest_of(results.data(), chunk_size);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  std::printf("to_binary16: 4294967296 arguments, %llu wrong\n", static_cast<unsigned long long>(wrong));
  return report_digest("", "to_binary16", digest_of(digests.data(), digests.size())) && wrong == 0;
}

/// splitmix64.
std::uint64_t random_bits(std::uint64_t& state) {
  std::uint64_t z = state += 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

/// Numbers of 400 bits, far more than an entry needs, and one rounding to binary32.
class RopeTruth {
 public:
  RopeTruth() {
    for (mpfr_t* x : {&angle_, &value_, &square_}) mpfr_init2(*x, 400);
    mpfr_init2(entry_, 24);
  }
  ~RopeTruth() {
    for (mpfr_t* x : {&angle_, &value_, &square_, &entry_}) mpfr_clear(*x);
    mpfr_free_cache();
  }
  RopeTruth(const RopeTruth&) = delete;
  RopeTruth& operator=(const RopeTruth&) = delete;

  optimized::RopeEntry operator()(std::uint64_t distance, float inv_freq, float scale) {
    mpfr_set_flt(angle_, inv_freq, MPFR_RNDN);
    mpfr_mul_ui(angle_, angle_, distance, MPFR_RNDN);  // exact: 44 bits
    mpfr_set_flt(square_, scale, MPFR_RNDN);
    mpfr_sqr(square_, square_, MPFR_RNDN);  // exact: 48 bits
    return {rounded(mpfr_cos), rounded(mpfr_sin)};
  }

 private:
  float rounded(int (*function)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)) {
    function(value_, angle_, MPFR_RNDN);
    const mpfr_exp_t low = mpfr_get_emin(), high = mpfr_get_emax();
    mpfr_set_emin(-148);
    mpfr_set_emax(128);
    int ternary = mpfr_mul(entry_, value_, square_, MPFR_RNDN);
    ternary = mpfr_subnormalize(entry_, ternary, MPFR_RNDN);
    const float result = mpfr_get_flt(entry_, MPFR_RNDN);
    mpfr_set_emin(low);
    mpfr_set_emax(high);
    return result == 0 ? 0.0F : result;  // a zero is +0
  }

  mpfr_t angle_, value_, square_, entry_;
};

}  // namespace

bool check_binary16() {
  const bool up = check_upward(), down = check_downward();
  return up && down;
}

bool check_rope(unsigned long entries) {
  RopeTruth truth;
  std::uint64_t state = 1;
  unsigned long wrong = 0;
  for (unsigned long i = 0; i < entries; ++i) {
    // Distances of every size, frequencies over all of (0, 1], subnormal ones included; half of the scales as deployed,
    // half anything finite.
    const std::uint64_t distance = random_bits(state) % (std::uint64_t{1} << random_bits(state) % 21);
    const auto frequency_bits = static_cast<std::uint32_t>(random_bits(state) % 4 == 0 ? random_bits(state) % 0x3F800001
                                                                                      : 0x3F800000 - random_bits(state) % 0xA000000);
    const float inv_freq = std::bit_cast<float>(frequency_bits);
    const float scale = random_bits(state) % 2 == 0
                            ? 1.0F / std::sqrt(static_cast<float>(1 + random_bits(state) % 512))
                            : std::bit_cast<float>(static_cast<std::uint32_t>(1 + random_bits(state) % 0x7F7FFFFF));
    const optimized::RopeEntry got = optimized::rope_entry(distance, inv_freq, scale);
    const optimized::RopeEntry expected = truth(distance, inv_freq, scale);
    const auto same = [](float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); };
    if (same(got.cos, expected.cos) && same(got.sin, expected.sin)) continue;
    if (wrong++ < 10)
      std::printf("wrong  rope_entry(%llu, %a, %a) = %a, %a; MPFR says %a, %a\n", static_cast<unsigned long long>(distance),
                  static_cast<double>(inv_freq), static_cast<double>(scale), static_cast<double>(got.cos),
                  static_cast<double>(got.sin), static_cast<double>(expected.cos), static_cast<double>(expected.sin));
  }
  std::printf("rope_entry: %lu generated arguments (not exhaustive), %lu wrong\n", entries, wrong);
  return wrong == 0;
}

}  // namespace kvcert::exhaustive
