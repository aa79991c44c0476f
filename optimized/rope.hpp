// The rotation table of a bounded layer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "kvcert/error.hpp"
#include "optimized/buffer.hpp"

namespace kvcert::optimized {

/// cos(Δ·f_i)·scale² and sin(Δ·f_i)·scale², each the real product rounded once to binary32, to nearest even, for every
/// distance Δ in [0, window) and frequency i in [0, half). Immutable, so copies share the table.
class Rope {
 public:
  /// Integer arithmetic alone: the caller's floating-point environment does not matter. Errors: invalid_argument unless
  /// 1 ≤ window ≤ 2^20, half = inv_freq.size() ≥ 1, every f in [0, 1] and scale finite and > 0; out_of_memory.
  static Result<Rope> create(std::size_t window, std::span<const float> inv_freq, float scale);

  /// Window 0: fits no ring. So does what is moved from.
  Rope() = default;
  Rope(const Rope&) = default;
  Rope(Rope&& other) noexcept
      : window_(std::exchange(other.window_, 0)),
        half_(std::exchange(other.half_, 0)),
        table_(std::move(other.table_)) {}
  Rope& operator=(Rope other) noexcept {
    std::swap(window_, other.window_);
    std::swap(half_, other.half_);
    table_.swap(other.table_);
    return *this;
  }
  ~Rope() = default;

  std::size_t window() const { return window_; }
  std::size_t half() const { return half_; }
  /// [window × half]
  std::span<const float> cos() const { return table_ ? table_->cos.view() : std::span<const float>(); }
  std::span<const float> sin() const { return table_ ? table_->sin.view() : std::span<const float>(); }

 private:
  struct Table {
    Buffer<float> cos, sin;
  };
  Rope(std::size_t window, std::size_t half, std::shared_ptr<const Table> table)
      : window_(window), half_(half), table_(std::move(table)) {}
  std::size_t window_ = 0;
  std::size_t half_ = 0;
  std::shared_ptr<const Table> table_;
};

}  // namespace kvcert::optimized
