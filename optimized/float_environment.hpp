// The default floating-point environment for the length of a scope.
#pragma once

#include <cstdint>

namespace kvcert::optimized {

/// Rounding to nearest even, subnormals kept on input and output, exceptions masked; the destructor puts back the
/// caller's setting, sticky exception flags included, so that a call leaves no trace. x87 is neither used nor changed.
///
/// The compiler does not know that float operations depend on this register. What keeps them inside the scope: they are
/// done by kernels in other translation units, on values that they load from memory, and neither a call nor a load
/// moves across the volatile asm with its memory clobber.
class FloatEnvironment {
 public:
  FloatEnvironment();
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::uint64_t control_ = 0;
  [[maybe_unused]] std::uint64_t status_ = 0;  // aarch64 keeps its sticky flags in a register of their own
};

}  // namespace kvcert::optimized
