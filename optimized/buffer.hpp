// An owned, at least 64-byte aligned array of plain values, left uninitialized until written.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace kvcert::optimized {

/// More than any address space here holds; sizes beyond are refused without asking the allocator.
inline constexpr std::size_t max_allocation_bytes = std::size_t{1} << 47;

/// The size of a huge page, and from how many bytes on a block asks for them. A long context's rows cover thousands of
/// small pages, each of which costs a decode step a walk through the page table, and hardware prefetchers stop at its
/// end: measured, a step on huge pages takes 5 … 20 % less. Below a few pages it would not matter.
inline constexpr std::size_t huge_page_bytes = std::size_t{1} << 21;
inline constexpr std::size_t huge_block_bytes = 2 * huge_page_bytes;

/// What a block of so many bytes is aligned to.
inline std::align_val_t block_alignment(std::size_t bytes) {
  return std::align_val_t{bytes >= huge_block_bytes ? huge_page_bytes : 64};
}

/// Asks for huge pages where a whole one lies in the block, so that it never takes more memory than it is long (what is
/// not yet written of it is taken in larger steps). Where the system has none to give, small ones serve as well:
/// nothing depends on the answer.
inline void ask_for_huge_pages([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (bytes >= huge_block_bytes)
    static_cast<void>(::madvise(block, bytes / huge_page_bytes * huge_page_bytes, MADV_HUGEPAGE));
#endif
}

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 64);

 public:
  Buffer() = default;
  /// size elements without values. Throws std::bad_alloc.
  explicit Buffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    if (size > max_allocation_bytes / sizeof(T)) throw std::bad_alloc();
    // The nothrow form: sanitizers abort in the throwing one.
    data_ = static_cast<T*>(::operator new(bytes(), block_alignment(bytes()), std::nothrow));
    if (data_ == nullptr) throw std::bad_alloc();
    ask_for_huge_pages(data_, bytes());
  }
  explicit Buffer(std::span<const T> values) : Buffer(values.size()) { copy_in(0, values); }
  Buffer(const Buffer& other) : Buffer(other.view()) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() { ::operator delete(data_, block_alignment(bytes())); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<T> view() { return {data_, size_}; }
  std::span<const T> view() const { return {data_, size_}; }

  /// Elements [at, at + values.size()) become values; they lie inside and do not overlap it.
  void copy_in(std::size_t at, std::span<const T> values) {
    if (!values.empty()) std::memcpy(data_ + at, values.data(), values.size_bytes());
  }
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

 private:
  std::size_t bytes() const { return size_ * sizeof(T); }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kvcert::optimized
