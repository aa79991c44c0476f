// kvcert_digests FILE            every ISA that this process may use reproduces the digests in FILE
// kvcert_digests FILE --write    FILE becomes what the scalar kernels give
// kvcert_digests --features      the CPU's features that kernels are chosen by, one a line
// kvcert_digests --tables        the tables of kernels that this build and CPU have
//
// Needs the optimized room and nothing else, so that it builds with any compiler, any flags and for any machine. Says
// which tables of kernels ran, counted by themselves; one that was chosen and never ran is a failure. All of it is done
// again as a caller with another rounding mode, or one that flushes subnormals: neither may show, nor be changed.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optimized/cpu_features.hpp"
#include "optimized/dispatch.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "tests/digests.hpp"

namespace {

using namespace kvcert;
using digests::Digest;
using optimized::Isa;
using optimized::KernelCount;
using optimized::LayerKvCache;

/// exp and tanh on every 65537th bit pattern, in rows of all lengths.
void elementary(const optimized::kernels::Table& kernel, std::vector<Digest>& all) {
  std::vector<float> in, out(65536);
  for (std::uint32_t i = 0; i < 65536; ++i) in.push_back(std::bit_cast<float>(i * 65537U));
  for (const auto& [name, row] : {std::pair{"exp", kernel.exp_row}, std::pair{"tanh", kernel.tanh_row}}) {
    std::size_t at = 0;
    for (std::size_t n = 1; at < in.size(); at += n, n = n % 97 + 1) {
      n = std::min(n, in.size() - at);
      row(in.data() + at, out.data() + at, n);
    }
    digests::Fold fold;
    fold(out);
    all.push_back({name, fold.value()});
  }
}

/// The floating-point environment that a caller brings along: the control register, x86's sticky flags included.
struct Caller {
  const char* name;
  std::uint64_t control;
};

#if defined(__x86_64__)
constexpr std::array callers{Caller{"the default environment", 0x1F80}, Caller{"FTZ, DAZ, rounding up", 0xDFC0},
                             Caller{"FTZ, DAZ, rounding to zero", 0xFFC0}, Caller{"rounding down", 0x3F80}};
void set_control(std::uint64_t control) {
  const auto word = static_cast<std::uint32_t>(control);
  asm volatile("ldmxcsr %0" : : "m"(word) : "memory");
}
std::uint64_t control() {
  std::uint32_t word = 0;
  asm volatile("stmxcsr %0" : "=m"(word) : : "memory");
  return word;
}
#elif defined(__aarch64__)
constexpr std::array callers{Caller{"the default environment", 0}, Caller{"FZ, rounding up", 0x1400000},
                             Caller{"FZ, default NaN, rounding to zero", 0x3C00000}, Caller{"rounding down", 0x800000}};
void set_control(std::uint64_t control) { asm volatile("msr fpcr, %0" : : "r"(control) : "memory"); }
std::uint64_t control() {
  std::uint64_t word = 0;
  asm volatile("mrs %0, fpcr" : "=r"(word) : : "memory");
  return word;
}
#endif

/// Of every operation, in the caller's environment, which must be the same afterwards; then of kernels alone, which
/// assume the default one.
std::vector<Digest> digests_of(Isa isa, Caller caller = callers[0]) {
  const auto make = [isa](Geometry geometry, KvMode mode) { return LayerKvCache::create(geometry, mode, isa); };
  set_control(caller.control);
  std::vector<Digest> all = digests::Outputs<LayerKvCache, decltype(make)>(make).all();
  const std::uint64_t after = control();
  set_control(callers[0].control);
  if (after != caller.control) {
    std::printf("  FAILED: the control register was %llx and is %llx\n", static_cast<unsigned long long>(caller.control),
                static_cast<unsigned long long>(after));
    all.push_back({"a trace in the control register", after});
  }
  elementary(*optimized::kernel_table(isa), all);
  return all;
}

std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Names of the digests whose lines differ, a few of them.
void show_differences(const std::string& wanted, const std::string& found) {
  std::size_t shown = 0;
  for (std::size_t a = 0, b = 0; a < wanted.size() && b < found.size() && shown < 8;) {
    const std::string first = wanted.substr(a, wanted.find('\n', a) - a), second = found.substr(b, found.find('\n', b) - b);
    if (first != second) {
      std::printf("  differs: %s, recorded %s\n", second.c_str(), first.c_str());
      ++shown;
    }
    a += first.size() + 1;
    b += second.size() + 1;
  }
}

/// What ran since `before`, as "avx2 int8 (12)"; false if a table that this ISA chose did not.
bool show_tables(Isa isa, const std::vector<KernelCount>& before, const std::array<bool, 4>& ran) {
  const std::vector<KernelCount> now = optimized::kernel_counts();
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i].calls == before[i].calls) continue;
    std::printf("  ran %s %s: %llu calls\n", std::string(name(now[i].isa)).c_str(), std::string(now[i].table).c_str(),
                static_cast<unsigned long long>(now[i].calls - before[i].calls));
  }
  bool good = true;
  static constexpr std::array names{"f32", "int8", "binary16", "state"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!ran[i]) {
      std::printf("  FAILED: the %s kernels chosen for %s never ran\n", names[i], std::string(name(isa)).c_str());
      good = false;
    }
  return good;
}

bool check(Isa isa, const std::string& wanted) {
  const optimized::kernels::Table& table = *optimized::kernel_table(isa);
  const auto counts = [&] {
    return std::array{table.calls(), table.int8->calls(), table.binary16->calls(), table.state->calls()};
  };
  const auto before = optimized::kernel_counts();
  const auto calls_before = counts();
  bool same = true;
  // With the CPU's features masked, kernels are what is asked about.
  for (const Caller& caller : std::span(callers).first(std::getenv("KVCERT_CPU") == nullptr ? callers.size() : 1)) {
    const std::vector<Digest> digests = digests_of(isa, caller);
    const std::string found = digests::to_json(digests);
    const bool reproduced = found == wanted;
    std::printf("%s: %zu digests %s in %s\n", std::string(name(isa)).c_str(), digests.size(),
                reproduced ? "reproduced" : "DIFFER", caller.name);
    if (!reproduced) show_differences(wanted, found);
    same = same && reproduced;
  }
  const auto calls = counts();
  std::array<bool, 4> ran{};
  for (std::size_t i = 0; i < ran.size(); ++i) ran[i] = calls[i] != calls_before[i];
  return show_tables(isa, before, ran) && same;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--features") {
    for (const optimized::NamedFeature& feature : optimized::named_features)
      if ((optimized::detected_features() & feature.bit) != 0) std::printf("%s\n", std::string(feature.name).c_str());
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--tables") {
    for (const KernelCount& table : optimized::kernel_counts())
      if (is_available(table.isa) && (table.table != "f16c" || (optimized::detected_features() & optimized::cpu::f16c) != 0))
        std::printf("%s %s\n", std::string(name(table.isa)).c_str(), std::string(table.table).c_str());
    return 0;
  }
  if (argc < 2 || argc > 3 || (argc == 3 && std::string_view(argv[2]) != "--write")) {
    std::fputs("kvcert_digests FILE [--write] | --features | --tables\n", stderr);
    return 2;
  }
  if (const auto isa = optimized::default_isa(); !isa) {
    std::fprintf(stderr, "kvcert_digests: %s\n", isa.error().message.c_str());
    return 2;
  }
  if (argc == 3) {
    std::ofstream(argv[1], std::ios::binary) << digests::to_json(digests_of(Isa::scalar));
    return 0;
  }
  const std::string wanted = read(argv[1]);
  if (wanted.empty()) {
    std::fprintf(stderr, "kvcert_digests: %s cannot be read or is empty\n", argv[1]);
    return 2;
  }
  bool good = true;
  for (const Isa isa : optimized::available_isas()) good = check(isa, wanted) && good;
  return good ? 0 : 1;
}
