// An owned, 64-byte aligned array of plain values, left uninitialized until written.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace kvcert::optimized {

/// More than any address space here holds; sizes beyond are refused without asking the allocator.
inline constexpr std::size_t max_allocation_bytes = std::size_t{1} << 47;

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
    data_ = static_cast<T*>(::operator new(size * sizeof(T), std::align_val_t{64}, std::nothrow));
    if (data_ == nullptr) throw std::bad_alloc();
  }
  explicit Buffer(std::span<const T> values) : Buffer(values.size()) { copy_in(0, values); }
  Buffer(const Buffer& other) : Buffer(other.view()) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() { ::operator delete(data_, std::align_val_t{64}); }

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
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kvcert::optimized
