#include "optimized/dispatch.hpp"

#include <array>
#include <cstdlib>
#include <new>
#include <string>

#include "optimized/cpu_features.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized {
namespace {

struct Row {
  Isa isa;
  std::string_view name;
  const kernels::Table* kernels;  // nullptr: not in this build
  CpuFeatures needs;
};

#if defined(__x86_64__)
constexpr Row avx2_row{Isa::avx2, "avx2", &kernels::avx2_table, cpu::avx2 | cpu::fma};
constexpr Row avx512_row{Isa::avx512, "avx512", &kernels::avx512_table,
                         cpu::avx2 | cpu::fma | cpu::avx512f | cpu::avx512dq | cpu::avx512bw | cpu::avx512vl};
constexpr const kernels::Binary16Kernels* f16c = &kernels::f16c_binary16;
#else
constexpr Row avx2_row{Isa::avx2, "avx2", nullptr, 0};
constexpr Row avx512_row{Isa::avx512, "avx512", nullptr, 0};
constexpr const kernels::Binary16Kernels* f16c = nullptr;
#endif

#if defined(__aarch64__)
constexpr Row neon_row{Isa::neon, "neon", &kernels::neon_table, 0};
#else
constexpr Row neon_row{Isa::neon, "neon", nullptr, 0};
#endif

/// In the order of the enum. A new ISA adds its row.
constexpr std::array rows{Row{Isa::scalar, "scalar", &kernels::scalar_table, 0}, avx2_row, avx512_row,
                          neon_row};

/// The tables that a set of features allows. F16C is a feature of its own: without it AVX2's table converts with the
/// portable kernels.
struct Tables {
  std::array<kernels::Table, rows.size()> table;
  std::array<bool, rows.size()> available{};
};

Tables tables_for(CpuFeatures features) {
  Tables tables{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].kernels == nullptr || (rows[i].needs & features) != rows[i].needs) continue;
    tables.table[i] = *rows[i].kernels;
    tables.available[i] = true;
    if (rows[i].isa == Isa::avx2 && (features & cpu::f16c) != 0) tables.table[i].binary16 = f16c;
  }
  return tables;
}

CpuFeatures usable_features() try { return cpu_features().value_or(0); } catch (const std::bad_alloc&) {
  return 0;
}

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
  // CPUID is slow, and slower still in a virtual machine. With a KVCERT_CPU that is refused nothing but scalar is left.
  static const Tables tables = tables_for(usable_features());
  const Row* row = find(isa);
  if (row == nullptr) return nullptr;
  const auto i = static_cast<std::size_t>(row - rows.data());
  return tables.available[i] ? &tables.table[i] : nullptr;
}

bool is_available(Isa isa) { return kernel_table(isa) != nullptr; }

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Row& row : rows)
    if (is_available(row.isa)) isas.push_back(row.isa);
  return isas;
}

Result<Isa> default_isa() try {
  if (const auto features = cpu_features(); !features) return std::unexpected(features.error());
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
  std::uint64_t calls = 0;
  for (const KernelCount& count : kernel_counts())
    if (count.isa == isa) calls += count.calls;
  return calls;
}

std::vector<KernelCount> kernel_counts() {
  std::vector<KernelCount> counts;
  const void* counted[4 * rows.size()] = {};
  // An ISA without kernels of its own for some work takes those of a lesser one, and they are counted there.
  auto count = [&, n = 0](Isa isa, std::string_view table, const auto* kernels) mutable {
    for (int i = 0; i < n; ++i)
      if (counted[i] == kernels) return;
    counted[n++] = kernels;
    counts.push_back({isa, table, kernels->calls()});
  };
  for (const Row& row : rows) {
    if (row.kernels == nullptr) continue;
    count(row.isa, "f32", row.kernels);
    count(row.isa, "int8", row.kernels->int8);
    count(row.isa, "state", row.kernels->state);
    if (row.isa == Isa::avx2)
      count(row.isa, "f16c", f16c);
    else
      count(row.isa, "binary16", row.kernels->binary16);
  }
  return counts;
}

}  // namespace kvcert::optimized
