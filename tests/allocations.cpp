#include "tests/allocations.hpp"

#include <cstdlib>
#include <limits>
#include <new>

namespace kvcert::tests {

std::atomic<std::uint64_t> allocations{0};
thread_local Starvation starvation;

namespace {

/// Throws where this allocation is not granted.
void ask() {
  ++allocations;
  if (!starvation.armed) return;
  if (starvation.granted == 0) {
    starvation.felt = true;
    throw std::bad_alloc();
  }
  --starvation.granted;
}

}  // namespace
}  // namespace kvcert::tests

#if KVCERT_COUNTS_ALLOCATIONS
// The forms that all others call. Not inlined: the compiler would see malloc meet delete, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  kvcert::tests::ask();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  kvcert::tests::ask();
  const auto align = static_cast<std::size_t>(alignment);
  if (size > std::numeric_limits<std::size_t>::max() - align) throw std::bad_alloc();
  if (void* memory = std::aligned_alloc(align, (size + align - 1) / align * align)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
