// What kernel tests are made of: numbers of every kind, arrays that end where memory ends, registers full of junk.
#pragma once

#include <boost/test/unit_test.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "optimized/dispatch.hpp"
#include "optimized/kernels/kernels.hpp"

#if defined(KVCERT_EMULATED_AVX512)
namespace kvcert::optimized::kernels {
extern const Table emulated_avx512_table;  // tests/emulated/
}
#endif

namespace kvcert::kernel_tests {

using optimized::Isa;
using optimized::kernels::canonical_nan;
using optimized::kernels::Table;

inline std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float from_bits(std::uint64_t x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x)); }
inline float canonical(float x) { return std::isnan(x) ? from_bits(canonical_nan) : x; }
inline bool same(float a, float b) { return (std::isnan(a) && std::isnan(b)) || bits(a) == bits(b); }

// --- The canonical order, plainly ------------------------------------------------------------------------------------

inline float fold(std::vector<float> lane) {
  for (const std::size_t half : {8U, 4U, 2U, 1U})
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

inline float dot(const float* a, const float* b, std::size_t n) {
  std::vector<float> lane(16, 0.0F);
  for (std::size_t j = 0; j < n; ++j) lane[j % 16] = std::fma(a[j], b[j], lane[j % 16]);
  return fold(lane);
}

// --- Data ------------------------------------------------------------------------------------------------------------

inline std::mt19937_64 random_bits{20240229};

inline std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_bits() % n); }

/// Ordinary numbers, or any bits, or the special ones; which mixture is drawn per array, so that not every result is
/// NaN.
struct Mixture {
  std::size_t any_in_8 = below(3) == 0 ? below(8) : 0;
  std::size_t special_in_16 = below(2) == 0 ? below(6) : 0;
  int exponent = static_cast<int>(below(3) == 0 ? below(250) : 110 + below(20));
  int spread = 1 + static_cast<int>(below(10));

  float operator()() const {
    static constexpr std::uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x007FFFFF, 0x00800000,
                                                0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345,
                                                0x7F800001, 0x3F800000, 0xBF800000, 0x33800000, 0x807FFFFF};
    if (below(8) < any_in_8) return from_bits(random_bits());
    if (below(64) < special_in_16) return from_bits(special[below(std::size(special))]);
    const int e = std::clamp(exponent + static_cast<int>(below(static_cast<std::size_t>(spread))), 0, 254);
    return from_bits((random_bits() & 0x807FFFFF) | static_cast<std::uint32_t>(e) << 23);
  }
};

inline const std::size_t sizes[] = {1,  2,  3,  4,  5,  7,  8,  9,  12, 15, 16, 17,  20,  23,
                                    24, 25, 31, 32, 33, 40, 48, 63, 64, 65, 80, 100, 128, 129, 192, 257};
inline std::size_t any_size() { return sizes[below(std::size(sizes))]; }

// --- Memory ----------------------------------------------------------------------------------------------------------

/// n values between two pages that nobody may touch. Some end right before the second page, some begin right behind the
/// first, some a few values away from either, aligned to no more than one of them; what is left between is canaries. So a
/// read past the end is a crash, not luck, and what a vector would find past the end is no number that helps.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t n) : size_(n) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    inside_ = (n * sizeof(T) + page - 1) / page * page;
    inside_ = std::max(inside_, page);
    std::vector<std::byte*>& spare = free_pages()[inside_];
    if (spare.empty()) {
      void* memory = ::mmap(nullptr, inside_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) std::abort();
      spare.push_back(static_cast<std::byte*>(memory) + page);
      if (::mprotect(spare.back(), inside_, PROT_READ | PROT_WRITE) != 0) std::abort();
    }
    base_ = spare.back();
    spare.pop_back();
    std::memset(base_, canary, inside_);
    const std::size_t spare_values = inside_ / sizeof(T) - n;
    const std::size_t away = below(3) == 0 ? std::min(spare_values, below(16)) : 0;
    data_ = reinterpret_cast<T*>(base_) + (below(2) == 0 ? away : spare_values - away);
  }
  Guarded(std::size_t n, const Mixture& mixture) requires std::is_same_v<T, float> : Guarded(n) {
    std::ranges::generate(view(), mixture);
  }
  Guarded(std::size_t n, T fill) : Guarded(n) { std::ranges::fill(view(), fill); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { free_pages()[inside_].push_back(base_); }

  T* data() { return data_; }
  std::span<T> view() { return {data_, size_}; }
  std::vector<T> copy() { return {view().begin(), view().end()}; }
  /// Whether everything around the array is as it was.
  bool intact() const {
    const auto* begin = reinterpret_cast<const std::byte*>(data_);
    const auto* end = begin + size_ * sizeof(T);
    const auto is_canary = [](std::byte x) { return x == std::byte{canary}; };
    return std::all_of(static_cast<const std::byte*>(base_), begin, is_canary) &&
           std::all_of(end, static_cast<const std::byte*>(base_ + inside_), is_canary);
  }

 private:
  static constexpr unsigned char canary = 0xCB;  // of floats and binary16: numbers, so that a NaN written over them shows
  /// By size, for the next array: mapping takes longer than most kernels.
  static std::map<std::size_t, std::vector<std::byte*>>& free_pages() {
    static std::map<std::size_t, std::vector<std::byte*>> pages;
    return pages;
  }

  std::size_t size_;
  std::size_t inside_;
  std::byte* base_;
  T* data_;
};

/// What an untouched element of such an array holds.
inline const float canary_float = std::bit_cast<float>(0xCBCBCBCBU);

/// Every vector register and mask that a call may use, and some stack, full of signalling NaNs: a kernel that takes a
/// lane it never set gets one of those.
[[gnu::noinline]] inline void junk_everywhere() {
  volatile std::uint32_t stack[2048];
  for (volatile std::uint32_t& word : stack) word = 0xFFA5A5A5;
  static const std::uint32_t junk = 0xFFA5A5A5;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    asm volatile(
        "vpbroadcastd %0, %%zmm0\n\t"
        ".irp i,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
        "vmovdqa64 %%zmm0, %%zmm\\i\n\t"
        ".endr\n\t"
        ".irp i,1,2,3,4,5,6,7\n\t"
        "kxnorq %%k\\i, %%k\\i, %%k\\i\n\t"
        ".endr"
        :
        : "m"(junk)
        : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
          "xmm13", "xmm14", "xmm15");
  } else if (__builtin_cpu_supports("avx2")) {
    asm volatile(
        "vpbroadcastd %0, %%ymm0\n\t"
        ".irp i,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
        "vmovdqa %%ymm0, %%ymm\\i\n\t"
        ".endr"
        :
        : "m"(junk)
        : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
          "xmm13", "xmm14", "xmm15");
  }
#elif defined(__aarch64__)
  asm volatile(  // v8 … v15 belong to the caller
      "dup v0.4s, %w0\n\t"
      ".irp i,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
      "mov v\\i\\().16b, v0.16b\n\t"
      ".endr"
      :
      : "r"(junk)
      : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
        "v25", "v26", "v27", "v28", "v29", "v30", "v31");
#endif
}

// --- Running ---------------------------------------------------------------------------------------------------------

inline void check_row(Guarded<float>& row, const std::vector<float>& truth, bool nan_is_canonical, const char* what) {
  BOOST_TEST(row.intact());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const float found = row.view()[i];
    if (nan_is_canonical ? bits(found) == bits(truth[i]) : same(found, truth[i])) continue;
    BOOST_ERROR(what << "[" << i << "] of " << truth.size() << ": " << std::hex << bits(found) << ", not "
                     << bits(truth[i]));
    return;
  }
}

/// f of a table, one of whose kernels has to be called meanwhile.
template <class F>
void on_table(const Table& table, F f) {
  const auto calls = [&] { return table.calls() + table.int8->calls() + table.binary16->calls() + table.state->calls(); };
  const std::uint64_t before = calls();
  f(table);
  BOOST_TEST(calls() > before);
}

/// The AVX-512 kernels made of AVX2's instructions, or nullptr and why not.
struct Emulated {
  const Table* table;
  const char* why_not;
};
inline Emulated emulated_avx512() {
#if defined(KVCERT_EMULATED_AVX512)
  if (optimized::kernel_table(Isa::avx2) == nullptr || !__builtin_cpu_supports("f16c")) return {nullptr, "no AVX2, FMA or F16C"};
  return {&optimized::kernels::emulated_avx512_table, ""};
#else
  return {nullptr, "only g++ builds it, for x86-64"};
#endif
}

template <class F>
void on_every_isa(F f) {
  for (const Isa isa : optimized::available_isas())
    BOOST_TEST_CONTEXT(name(isa)) { on_table(*optimized::kernel_table(isa), f); }
  if (const Emulated emulated = emulated_avx512(); emulated.table != nullptr)
    BOOST_TEST_CONTEXT("avx512, emulated") { on_table(*emulated.table, f); }
}

}  // namespace kvcert::kernel_tests
