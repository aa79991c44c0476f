// Do two pieces of memory share a byte?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvcert::optimized {

/// An empty span overlaps nothing, wherever it points.
inline bool bytes_overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.empty() || b.empty()) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.data());
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.data());
  return a_begin < b_begin + b.size() && b_begin < a_begin + a.size();
}

template <class A, class B>
bool overlap(std::span<A> a, std::span<B> b) {
  return bytes_overlap(std::as_bytes(a), std::as_bytes(b));
}

}  // namespace kvcert::optimized
