#include "fuzz/allocations.hpp"

#include <cstdlib>
#include <new>

// The replaceable forms that the others are defined by. Sanitizers still see every block, since malloc is theirs.
namespace {

thread_local std::uint64_t asked = 0;

void* take(std::size_t size, std::size_t alignment) {
  asked += size;
  if (size == 0) size = 1;
  if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return std::malloc(size);
  if (size > SIZE_MAX - alignment) return nullptr;
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* take_or_throw(std::size_t size, std::size_t alignment) {
  if (void* block = take(size, alignment)) return block;
  throw std::bad_alloc();
}

constexpr std::size_t plain = 1;

}  // namespace

std::uint64_t kvcert::fuzz::bytes_asked_for() { return asked; }

void* operator new(std::size_t size) { return take_or_throw(size, plain); }
void* operator new[](std::size_t size) { return take_or_throw(size, plain); }
void* operator new(std::size_t size, std::align_val_t to) { return take_or_throw(size, static_cast<std::size_t>(to)); }
void* operator new[](std::size_t size, std::align_val_t to) { return take_or_throw(size, static_cast<std::size_t>(to)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return take(size, plain); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return take(size, plain); }
void* operator new(std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return take(size, static_cast<std::size_t>(to));
}
void* operator new[](std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return take(size, static_cast<std::size_t>(to));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept { std::free(block); }
