#include "optimized/cpu_features.hpp"

#include <cstdlib>
#include <string>

#include "optimized/failure.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kvcert::optimized {

#if defined(__x86_64__)

// Intel SDM volume 1, 14.3, 14.5, 14.7, 15.2: the features' bits, CPUID.1:ECX.OSXSAVE, then in XCR0 bits 1 and 2 for XMM
// and YMM state, 5 … 7 for mask registers and ZMM state.
CpuFeatures detected_features() {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return 0;
  constexpr std::uint32_t osxsave = 1U << 27, avx = 1U << 28;
  if ((c & (osxsave | avx)) != (osxsave | avx)) return 0;
  std::uint32_t saved = 0, upper = 0;
  asm volatile("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
  if ((saved & 0x06) != 0x06) return 0;
  CpuFeatures found = 0;
  if ((c & (1U << 12)) != 0) found |= cpu::fma;
  if ((c & (1U << 29)) != 0) found |= cpu::f16c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return found;
  if ((b & (1U << 5)) != 0) found |= cpu::avx2;
  if ((saved & 0xE6) != 0xE6) return found;
  if ((b & (1U << 16)) != 0) found |= cpu::avx512f;
  if ((b & (1U << 17)) != 0) found |= cpu::avx512dq;
  if ((b & (1U << 30)) != 0) found |= cpu::avx512bw;
  if ((b & (1U << 31)) != 0) found |= cpu::avx512vl;
  return found;
}

#else

CpuFeatures detected_features() { return 0; }

#endif

Result<CpuFeatures> cpu_features() {
  const CpuFeatures detected = detected_features();
  const char* asked = std::getenv("KVCERT_CPU");
  if (asked == nullptr) return detected;
  CpuFeatures found = 0;
  for (std::string_view rest(asked); !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(name.size() == rest.size() ? name.size() : name.size() + 1);
    CpuFeatures bit = 0;
    for (const NamedFeature& feature : named_features)
      if (feature.name == name) bit = feature.bit;
    if ((bit & detected) == 0)
      return failure(ErrorCode::invalid_argument, detected, bit,
                     "KVCERT_CPU names '" + std::string(name) +
                         (bit == 0 ? "', which is no feature that kernels are chosen by"
                                   : "', which this machine does not have"));
    found |= bit;
  }
  return found;
}

}  // namespace kvcert::optimized
