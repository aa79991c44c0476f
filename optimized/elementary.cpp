#include "optimized/elementary.hpp"

#include "optimized/float_environment.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized {
namespace {

float one(void (*row)(const float*, float*, std::size_t), float x) {
  const FloatEnvironment standard;
  row(&x, &x, 1);
  return x;
}

}  // namespace

float exp_correctly_rounded(float x) { return one(kernels::scalar_table.exp_row, x); }
float tanh_correctly_rounded(float x) { return one(kernels::scalar_table.tanh_row, x); }

}  // namespace kvcert::optimized
