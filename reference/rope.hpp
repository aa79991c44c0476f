// The rotation table of the bounded anchor: a query is turned by its distance to the key.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kvcert/error.hpp"

namespace kvcert::reference {

/// cos(Δ·f)·scale² and sin(Δ·f)·scale² for Δ in [0, window) and each frequency f: the real product, rounded to binary32
/// once. A zero is +0. Copies share the one table, which never changes; a moved-from rope has window 0 and fits no ring.
/// Source: Su et al. 2021 (RoPE); the scale is that of YaRN (Peng et al. 2023), applied to query and key at once.
class BoundedRope {
 public:
  static Result<BoundedRope> create(std::size_t window, std::span<const float> inv_freq, float scale);
  std::size_t window() const { return table_ ? table_->window : 0; }
  std::size_t half() const { return table_ ? table_->half : 0; }
  std::span<const float> cos() const { return table_ ? std::span<const float>(table_->cos) : std::span<const float>(); }
  std::span<const float> sin() const { return table_ ? std::span<const float>(table_->sin) : std::span<const float>(); }

 private:
  struct Table {
    std::size_t window;
    std::size_t half;
    std::vector<float> cos;  ///< [window × half]
    std::vector<float> sin;  ///< [window × half]
  };
  std::shared_ptr<const Table> table_;
};

}  // namespace kvcert::reference
