// Portable kernels of binary16 arrays: integers only.
#include <cstddef>
#include <cstdint>

#include "optimized/binary16.hpp"
#include "optimized/float_bits.hpp"
#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

bool narrow(const float* in, unsigned char* out, std::size_t n) {
  count_call();
  bool overflow = false;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = float_bits(in[i]);
    const std::uint16_t half = to_binary16(bits);
    __builtin_memcpy(out + 2 * i, &half, 2);
    overflow |= overflows_binary16(bits);
  }
  return overflow;
}

void widen(const unsigned char* in, float* out, std::size_t n) {
  count_call();
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t half = 0;
    __builtin_memcpy(&half, in + 2 * i, 2);
    const std::uint32_t bits = from_binary16(half);
    __builtin_memcpy(out + i, &bits, 4);
  }
}

}  // namespace

constinit const Binary16Kernels scalar_binary16{narrow, widen, calls};

}  // namespace kvcert::optimized::kernels
