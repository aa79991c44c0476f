// Bytes at any alignment, between guards. What is written beside them shows; AddressSanitizer lets nobody even read there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVCERT_FUZZ_POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define KVCERT_FUZZ_POISONS 1
#endif

#ifdef KVCERT_FUZZ_POISONS
extern "C" void __asan_poison_memory_region(const volatile void* address, std::size_t size);
extern "C" void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
#endif

namespace kvcert::fuzz {

class Guarded {
 public:
  /// `shift`: how far off a round address they begin, below 64.
  Guarded(std::span<const std::byte> bytes, std::size_t shift)
      : begin_(guard_bytes + shift), size_(bytes.size()), memory_(begin_ + size_ + guard_bytes, guard) {
    std::ranges::copy(bytes, memory_.begin() + static_cast<std::ptrdiff_t>(begin_));
#ifdef KVCERT_FUZZ_POISONS
    // Exact behind the bytes; before them the sanitizer thinks in eights.
    __asan_poison_memory_region(memory_.data(), begin_);
    __asan_poison_memory_region(memory_.data() + begin_ + size_, guard_bytes);
#endif
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { open(); }

  template <class T>
  T* as() { return reinterpret_cast<T*>(memory_.data() + begin_); }
  std::span<const std::byte> view() const { return std::span(memory_).subspan(begin_, size_); }

  /// Whether the guards are as they were. From here on they may be read.
  bool intact() {
    open();
    const auto is_guard = [](std::byte x) { return x == guard; };
    return std::ranges::all_of(std::span(memory_).first(begin_), is_guard) && std::ranges::all_of(std::span(memory_).subspan(begin_ + size_), is_guard);
  }

 private:
  static constexpr std::size_t guard_bytes = 64;
  static constexpr std::byte guard{0xCB};

  void open() {
#ifdef KVCERT_FUZZ_POISONS
    __asan_unpoison_memory_region(memory_.data(), memory_.size());
#endif
  }

  std::size_t begin_, size_;
  std::vector<std::byte> memory_;
};

}  // namespace kvcert::fuzz
