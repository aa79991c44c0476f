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

  // Copies only: moving would leave a table behind that is none.
  Rope(const Rope&) = default;
  Rope& operator=(const Rope&) = default;

  std::size_t window() const { return window_; }
  std::size_t half() const { return half_; }
  std::span<const float> cos() const { return table_->cos.view(); }  ///< [window × half]
  std::span<const float> sin() const { return table_->sin.view(); }

 private:
  struct Table {
    Buffer<float> cos, sin;
  };
  Rope(std::size_t window, std::size_t half, std::shared_ptr<const Table> table)
      : window_(window), half_(half), table_(std::move(table)) {}
  std::size_t window_;
  std::size_t half_;
  std::shared_ptr<const Table> table_;
};

}  // namespace kvcert::optimized
