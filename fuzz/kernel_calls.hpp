// A call of one kernel, made of bytes: which one, its sizes and scalars, the arrays that it reads and those that it writes.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "fuzz/byte_source.hpp"
#include "fuzz/guarded.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::fuzz {

/// Bytes that a kernel takes for numbers of `alignment` bytes each.
struct Array {
  std::vector<std::byte> bytes;
  std::size_t alignment = 1;

  Array() = default;
  explicit Array(std::span<const float> numbers) : bytes(numbers.size_bytes()), alignment(alignof(float)) {
    if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  }
  /// Integers or halves, which may lie at any address.
  explicit Array(std::span<const std::uint8_t> other) : bytes(other.size()) {
    if (!other.empty()) std::memcpy(bytes.data(), other.data(), bytes.size());
  }
};

struct Kernel;

struct Call {
  const Kernel* kernel = nullptr;
  std::size_t heads = 1, rows = 1, head_dim = 1, stride = 1;
  std::size_t some = 0;   ///< a further size: the first lane, a group's channels, half of what is turned, where an overlap begins
  std::ptrdiff_t step = 0;
  float scalar = 1;
  bool flag = false;      ///< sinks or columns are there, or input and output are one array
  std::vector<Array> in, out;
};

/// The arrays of a call, in memory of their own, for one run.
struct Memory {
  std::vector<Guarded*> in, out;
  template <class T = float>
  const T* read(std::size_t i) const { return in[i]->as<T>(); }
  template <class T = float>
  T* write(std::size_t i) const { return out[i]->as<T>(); }
};

struct Kernel {
  const char* name;
  bool nan_may_be_any;  ///< the contract lets a NaN of out[0] be any NaN
  void (*arrange)(Call& call, ByteSource& in);
  /// What the kernel returned; 0 where it returns nothing.
  int (*run)(const optimized::kernels::Table& table, const Call& call, const Memory& memory);
};

/// Every kernel of optimized/kernels/kernels.hpp.
std::span<const Kernel> all_kernels();

/// The call that the bytes say; whatever they are, it keeps the contract's conditions.
Call call_of(ByteSource& in);

}  // namespace kvcert::fuzz
