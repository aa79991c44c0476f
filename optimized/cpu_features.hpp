// What the CPU and the operating system offer of what kernels are chosen by.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "kvcert/error.hpp"

namespace kvcert::optimized {

/// A set of features, one bit each.
using CpuFeatures = std::uint32_t;

namespace cpu {
inline constexpr CpuFeatures fma = 1, avx2 = 2, f16c = 4, avx512f = 8, avx512bw = 16, avx512dq = 32, avx512vl = 64;
}

struct NamedFeature {
  std::string_view name;  ///< the spelling of KVCERT_CPU
  CpuFeatures bit;
};

inline constexpr std::array named_features{
    NamedFeature{"fma", cpu::fma},           NamedFeature{"avx2", cpu::avx2},
    NamedFeature{"f16c", cpu::f16c},         NamedFeature{"avx512f", cpu::avx512f},
    NamedFeature{"avx512bw", cpu::avx512bw}, NamedFeature{"avx512dq", cpu::avx512dq},
    NamedFeature{"avx512vl", cpu::avx512vl}};

/// Those whose instructions the CPU has and whose registers the operating system saves. None where the architecture
/// has no choice to make.
CpuFeatures detected_features();

/// Detected, and named by KVCERT_CPU where that is set: a list with commas, "" for none. For tests, and for finding out
/// what a lesser CPU would run. Errors: invalid_argument (a name that is no feature's, or a feature that is not there:
/// running other kernels than those asked for would falsify what is measured). Throws std::bad_alloc.
Result<CpuFeatures> cpu_features();

}  // namespace kvcert::optimized
