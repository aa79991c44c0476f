#include "optimized/float_environment.hpp"

namespace kvcert::optimized {

#if defined(__x86_64__)

// MXCSR: exception flags 0–5, DAZ 6, masks 7–12, rounding 13–14, FTZ 15 (Intel SDM volume 1, 10.2.3).
FloatEnvironment::FloatEnvironment() {
  std::uint32_t saved = 0;
  asm volatile("stmxcsr %0" : "=m"(saved) : : "memory");
  control_ = saved;
  const std::uint32_t standard = 0x1F80;  // all masked, the rest 0
  asm volatile("ldmxcsr %0" : : "m"(standard) : "memory");
}

FloatEnvironment::~FloatEnvironment() {
  const auto saved = static_cast<std::uint32_t>(control_);
  asm volatile("ldmxcsr %0" : : "m"(saved) : "memory");
}

#elif defined(__aarch64__)

// FPCR: 0 is to nearest, no flushing, no traps, NaNs propagated; FPSR holds the sticky flags (Arm ARM, C5.2.8,
// C5.2.10).
FloatEnvironment::FloatEnvironment() {
  asm volatile("mrs %0, fpcr" : "=r"(control_) : : "memory");
  asm volatile("mrs %0, fpsr" : "=r"(status_) : : "memory");
  asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}) : "memory");
}

FloatEnvironment::~FloatEnvironment() {
  asm volatile("msr fpsr, %0" : : "r"(status_) : "memory");
  asm volatile("msr fpcr, %0" : : "r"(control_) : "memory");
}

#else
#error "float_environment.cpp: say how this architecture's floating-point control register is set"
#endif

}  // namespace kvcert::optimized
