// exp and tanh of every ISA against MPFR, on every binary32: 2^32 arguments each; and what conversions.hpp lists. README.md
// says what this proves.
//
//   kvcert_exhaustive [exp|tanh|binary16|rope] [--part I/N]      exit code 0: all passed
#include <mpfr.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "optimized/dispatch.hpp"
#include "optimized/kernels/kernels.hpp"
#include "proofs/exhaustive/conversions.hpp"
#include "proofs/exhaustive/digest.hpp"

namespace {

using kvcert::exhaustive::digest_of;

using kvcert::optimized::Isa;
namespace kernels = kvcert::optimized::kernels;

// Bits of one sign ascend with the magnitude, so a chunk of consecutive bits is a monotone stretch of arguments.
constexpr std::uint64_t chunk_size = std::uint64_t{1} << 18;
/// Chunks that MPFR is asked about: of all bits, or of those without a sign.
constexpr std::uint64_t chunks(bool odd) { return (std::uint64_t{1} << (odd ? 31 : 32)) / chunk_size; }
constexpr std::uint64_t long_run = std::uint64_t{1} << 12;

struct Function {
  const char* name;
  int (*truth)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
  bool odd;  // then the truth at −x is that at x with the other sign, and MPFR is asked about x ≥ 0
  void (*kernels::Table::*kernel)(const float*, float*, std::size_t);
};
constexpr std::array functions{Function{"exp", mpfr_exp, false, &kernels::Table::exp_row},
                               Function{"tanh", mpfr_tanh, true, &kernels::Table::tanh_row}};

/// MPFR's correctly rounded f at one argument. One per thread: exponent range and cached constants are thread-local.
class Truth {
 public:
  explicit Truth(const Function& function) : function_(function) {
    mpfr_set_emin(-148);  // with 24 bits, this range and mpfr_subnormalize an MPFR number is a binary32
    mpfr_set_emax(128);
    mpfr_init2(value_, 24);
  }
  ~Truth() {
    mpfr_clear(value_);
    mpfr_free_cache();
  }
  Truth(const Truth&) = delete;
  Truth& operator=(const Truth&) = delete;

  std::uint32_t operator()(std::uint32_t x) {
    ++evaluations;
    mpfr_set_flt(value_, std::bit_cast<float>(x), MPFR_RNDN);
    int ternary = function_.truth(value_, value_, MPFR_RNDN);
    ternary = mpfr_subnormalize(value_, ternary, MPFR_RNDN);
    if (mpfr_nan_p(value_) != 0) return kernels::canonical_nan;
    return std::bit_cast<std::uint32_t>(mpfr_get_flt(value_, MPFR_RNDN));
  }

  std::uint64_t evaluations = 0;

 private:
  const Function& function_;
  mpfr_t value_;
};

/// Arguments between two that MPFR was asked about, which gave the same result: exp and tanh are monotone and so is
/// rounding, hence every argument between has that result too.
struct Run {
  std::uint32_t first, last, result;
};

/// truth[i] for lo < i < hi, given both ends. Every argument that is not strictly inside a run is given to MPFR.
void settle(Truth& f, std::uint32_t base, std::uint32_t* truth, std::uint64_t lo, std::uint64_t hi,
            std::uint64_t& in_runs, std::vector<Run>& runs) {
  if (hi - lo < 2) return;
  if (truth[lo] == truth[hi]) {
    std::fill(truth + lo + 1, truth + hi, truth[lo]);
    in_runs += hi - lo - 1;
    if (hi - lo >= long_run) {
      const auto first = static_cast<std::uint32_t>(base + lo), last = static_cast<std::uint32_t>(base + hi);
      if (!runs.empty() && runs.back().result == truth[lo] && first - runs.back().last <= 1)
        runs.back().last = last;
      else
        runs.push_back({first, last, truth[lo]});
    }
    return;
  }
  const std::uint64_t middle = lo + (hi - lo) / 2;
  truth[middle] = f(static_cast<std::uint32_t>(base + middle));
  settle(f, base, truth, lo, middle, in_runs, runs);
  settle(f, base, truth, middle, hi, in_runs, runs);
}

struct ChunkResult {
  std::uint64_t evaluations = 0, in_runs = 0;
  std::vector<Run> runs;
};

class Check {
 public:
  Check(const Function& function, std::uint64_t begin, std::uint64_t end)
      : function_(function), begin_(begin), end_(end), next_(begin), isas_(kvcert::optimized::available_isas()),
        wrong_(isas_.size()),
        digests_(isas_.size(), std::vector<std::uint64_t>((end - begin) * (function.odd ? 2 : 1))), results_(end - begin), start_(std::chrono::steady_clock::now()) {}

  /// Whether every ISA gave the right bits everywhere. Prints what was found.
  std::vector<bool> run() {
    std::vector<std::thread> threads;
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < cores; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    report();
    std::vector<bool> passed;
    const bool complete = (end_ - begin_) == chunks(function_.odd);
    for (std::size_t isa = 0; isa < isas_.size(); ++isa) {
      const std::uint64_t digest = digest_of(digests_[isa].data(), digests_[isa].size());
      const bool same = !complete || kvcert::exhaustive::report_digest(name(isas_[isa]), function_.name, digest);
      passed.push_back(wrong_[isa] == 0 && same);
    }
    return passed;
  }

 private:
  void work() {
    Truth truth_of(function_);
    std::vector<std::uint32_t> truth(chunk_size);
    std::vector<float> in(chunk_size), out(chunk_size);
    for (std::uint64_t chunk = next_++; chunk < end_; chunk = next_++) {
      const auto base = static_cast<std::uint32_t>(chunk * chunk_size);
      ChunkResult& result = results_[chunk - begin_];
      const std::uint64_t before = truth_of.evaluations;
      fill_truth(truth_of, base, truth, result);
      result.evaluations = truth_of.evaluations - before;
      compare(base, chunk - begin_, truth, in, out);
      if (function_.odd) {
        for (std::uint32_t& bits : truth) bits ^= bits == kernels::canonical_nan ? 0 : 0x80000000;
        compare(base | 0x80000000, chunk - begin_ + results_.size(), truth, in, out);
      }
      progress(++done_);
    }
  }

  /// Every ISA's kernel on every argument of the chunk. `slot`: where the chunk's digests belong.
  void compare(std::uint32_t base, std::uint64_t slot, const std::vector<std::uint32_t>& truth, std::vector<float>& in,
               std::vector<float>& out) {
    for (std::uint64_t i = 0; i < chunk_size; ++i) in[i] = std::bit_cast<float>(static_cast<std::uint32_t>(base + i));
    for (std::size_t isa = 0; isa < isas_.size(); ++isa) {
      (kvcert::optimized::kernel_table(isas_[isa])->*function_.kernel)(in.data(), out.data(), chunk_size);
      digests_[isa][slot] = digest_of(reinterpret_cast<const std::uint32_t*>(out.data()), chunk_size);
      if (std::memcmp(out.data(), truth.data(), chunk_size * 4) != 0) complain(isa, base, out, truth);
    }
  }

  void fill_truth(Truth& f, std::uint32_t base, std::vector<std::uint32_t>& truth, ChunkResult& result) {
    // Infinity is the last argument before the NaNs, in a chunk of its own making: bits 0x7F800000 are a multiple of
    // the chunk's size. NaNs are not ordered; each is given to MPFR as what it is, one value for all of them.
    const std::uint32_t magnitude = base & 0x7FFFFFFF;
    const std::uint64_t n = chunk_size;
    truth[0] = f(base);
    if (magnitude >= 0x7F800000) {
      std::fill(truth.begin() + 1, truth.end(), f(0x7FC00000));
      return;
    }
    truth[n - 1] = f(static_cast<std::uint32_t>(base + n - 1));
    settle(f, base, truth.data(), 0, n - 1, result.in_runs, result.runs);
  }

  void complain(std::size_t isa, std::uint32_t base, const std::vector<float>& out,
                const std::vector<std::uint32_t>& truth) {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < chunk_size; ++i) {
      const auto found = std::bit_cast<std::uint32_t>(out[i]);
      if (found == truth[i]) continue;
      if (wrong_[isa]++ < 10)
        std::printf("\nwrong  %s  %s(%08x) = %08x, MPFR says %08x\n", name(isas_[isa]).data(), function_.name, base + i,
                    found, truth[i]);
    }
  }

  void progress(std::uint64_t done) {
    const std::uint64_t all = end_ - begin_;
    if (done % 64 != 0 && done != all) return;
    const std::lock_guard lock(mutex_);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const double share = static_cast<double>(done) / static_cast<double>(all);
    std::fprintf(stderr, "\r%-5s %5.1f %%  %4.0f s  ", function_.name, 100 * share, seconds);
  }

  void report() const {
    std::uint64_t evaluations = 0, in_runs = 0;
    std::vector<Run> runs;
    for (const ChunkResult& result : results_) {
      evaluations += result.evaluations;
      in_runs += result.in_runs;
      for (const Run& run : result.runs) {
        if (!runs.empty() && runs.back().result == run.result && run.first - runs.back().last <= 1)
          runs.back().last = run.last;
        else
          runs.push_back(run);
      }
    }
    const std::uint64_t arguments = (end_ - begin_) * chunk_size * (function_.odd ? 2 : 1);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    std::fprintf(stderr, "\n");
    std::printf("%s: %llu arguments%s; MPFR evaluated %llu, %llu lie inside monotone runs\n", function_.name,
                static_cast<unsigned long long>(arguments), function_.odd ? ", negative ones by oddness" : "",
                static_cast<unsigned long long>(evaluations), static_cast<unsigned long long>(in_runs));
    std::printf("  %.0f s, processor time %.0f s\n", seconds, static_cast<double>(std::clock() - clock_) / CLOCKS_PER_SEC);
    std::ranges::sort(runs, {}, [](const Run& run) { return ~(run.last - run.first); });
    std::printf("  runs of one result, both ends by MPFR: %zu of %llu arguments or more; the longest:\n", runs.size(),
                static_cast<unsigned long long>(long_run));
    for (std::size_t i = 0; i < std::min<std::size_t>(runs.size(), 12); ++i)
      std::printf("    %08x … %08x  =  %08x\n", runs[i].first, runs[i].last, runs[i].result);
    for (std::size_t isa = 0; isa < isas_.size(); ++isa)
      std::printf("  %-6s %llu wrong of %llu\n", name(isas_[isa]).data(), static_cast<unsigned long long>(wrong_[isa]),
                  static_cast<unsigned long long>(arguments));
    std::fflush(stdout);
  }

  const Function& function_;
  std::uint64_t begin_, end_;
  std::atomic<std::uint64_t> next_, done_{0};
  std::vector<Isa> isas_;
  std::vector<std::uint64_t> wrong_;  // per ISA; under the mutex
  std::vector<std::vector<std::uint64_t>> digests_;  // per ISA and chunk, of what the kernel returned
  std::vector<ChunkResult> results_;
  std::chrono::steady_clock::time_point start_;
  std::clock_t clock_ = std::clock();  // of all threads
  std::mutex mutex_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string_view only;
  std::uint64_t part = 0, parts = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    unsigned long long a = 0, b = 0;
    if (argument == "exp" || argument == "tanh" || argument == "binary16" || argument == "rope") {
      only = argument;
    } else if (argument == "--part" && i + 1 < argc && std::sscanf(argv[++i], "%llu/%llu", &a, &b) == 2 && b != 0 &&
               a < b && b <= chunks(true)) {
      part = a;
      parts = b;
    } else {
      std::fprintf(
          stderr,
          "usage: kvcert_exhaustive [exp|tanh|binary16|rope] [--part I/N]   (I from 0; a part is a slice of all arguments)\n");
      return 2;
    }
  }
  int passed = 0, failed = 0;
  for (const Function& function : functions) {
    if (!only.empty() && only != function.name) continue;
    const std::uint64_t all = chunks(function.odd);
    Check check(function, all * part / parts, all * (part + 1) / parts);
    for (const bool ok : check.run()) ++(ok ? passed : failed);
  }
  const bool whole = parts == 1;
  if (whole && (only.empty() || only == "binary16")) ++(kvcert::exhaustive::check_binary16() ? passed : failed);
  if (whole && (only.empty() || only == "rope")) ++(kvcert::exhaustive::check_rope(1'000'000) ? passed : failed);
  if (parts != 1)
    std::printf("only part %llu of %llu of all arguments\n", static_cast<unsigned long long>(part),
                static_cast<unsigned long long>(parts));
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
