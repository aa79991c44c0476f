#include "optimized/scratch.hpp"

#include "optimized/buffer.hpp"

namespace kvcert::optimized {

float* scratch(std::size_t floats) {
  thread_local Buffer<float> buffer;
  if (buffer.size() < floats) {
    buffer = {};  // first, so that the peak is the new size
    buffer = Buffer<float>(floats);
  }
  return buffer.data();
}

}  // namespace kvcert::optimized
