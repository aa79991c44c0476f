#include "optimized/dispatch.hpp"

#include <array>
#include <cstdlib>
#include <new>
#include <string>

#include "optimized/kernels/kernels.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kvcert::optimized {
namespace {

bool always() { return true; }

#if defined(__x86_64__)

/// What the operating system saves of a thread's registers: XCR0, 0 without XSAVE (Intel SDM volume 1, 14.3 and 15.2:
/// CPUID.1:ECX.OSXSAVE first).
std::uint32_t saved_state() {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr std::uint32_t osxsave = 1U << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & osxsave) == 0) return 0;
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/// EBX of CPUID leaf 7.
std::uint32_t extended_features() {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 ? 0 : b;
}

/// AVX2 and FMA, in the CPU and in what the operating system saves (XMM and YMM state).
bool has_avx2() {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr std::uint32_t fma = 1U << 12, avx = 1U << 28, avx2 = 1U << 5, state = 6;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (fma | avx)) == (fma | avx) && (saved_state() & state) == state &&
         (extended_features() & avx2) != 0;
}

/// AVX-512 F, DQ, BW and VL, and besides the state of AVX that of the masks and the wider and further registers.
bool has_avx512() {
  constexpr std::uint32_t f = 1U << 16, dq = 1U << 17, bw = 1U << 30, vl = 1U << 31, all = f | dq | bw | vl, state = 0xE6;
  return has_avx2() && (saved_state() & state) == state && (extended_features() & all) == all;
}

#endif

struct Row {
  Isa isa;
  std::string_view name;
  const kernels::Table* kernels;  // nullptr: not in this build
  bool (*runs_here)();
};

#if defined(__x86_64__)
constexpr Row avx2_row{Isa::avx2, "avx2", &kernels::avx2_table, has_avx2};
constexpr Row avx512_row{Isa::avx512, "avx512", &kernels::avx512_table, has_avx512};
#else
constexpr Row avx2_row{Isa::avx2, "avx2", nullptr, always};
constexpr Row avx512_row{Isa::avx512, "avx512", nullptr, always};
#endif

/// In the order of the enum. A new ISA adds its row.
constexpr std::array rows{Row{Isa::scalar, "scalar", &kernels::scalar_table, always}, avx2_row,
                          avx512_row};

const Row* find(Isa isa) {
  for (const Row& row : rows)
    if (row.isa == isa) return &row;
  return nullptr;  // a value that is none of the enum's
}

}  // namespace

std::string_view name(Isa isa) {
  const Row* row = find(isa);
  return row == nullptr ? std::string_view("unknown") : row->name;
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return row.isa;
  return std::nullopt;
}

const kernels::Table* kernel_table(Isa isa) {
  static const auto tables = [] {  // CPUID is slow, and slower still in a virtual machine
    std::array<const kernels::Table*, rows.size()> found{};
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].kernels != nullptr && rows[i].runs_here()) found[i] = rows[i].kernels;
    return found;
  }();
  const Row* row = find(isa);
  return row == nullptr ? nullptr : tables[static_cast<std::size_t>(row - rows.data())];
}

bool is_available(Isa isa) { return kernel_table(isa) != nullptr; }

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Row& row : rows)
    if (is_available(row.isa)) isas.push_back(row.isa);
  return isas;
}

Result<Isa> default_isa() try {
  const char* asked = std::getenv("KVCERT_ISA");
  if (asked == nullptr) return available_isas().back();
  const std::optional<Isa> isa = isa_from_name(asked);
  if (isa && is_available(*isa)) return *isa;
  std::string message = "KVCERT_ISA is '";
  message.append(asked).append(isa ? "', which this build or machine cannot run" : "', which names no instruction set");
  message.append("; available:");
  for (const Isa each : available_isas()) message.append(" ").append(name(each));
  return std::unexpected(Error{.code = ErrorCode::invalid_argument, .message = message});
} catch (const std::bad_alloc&) {
  return std::unexpected(Error{.code = ErrorCode::out_of_memory, .message = {}});
}

std::uint64_t kernel_calls(Isa isa) {
  const Row* row = find(isa);
  return row == nullptr || row->kernels == nullptr ? 0 : row->kernels->calls();
}

}  // namespace kvcert::optimized
