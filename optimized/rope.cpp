#include "optimized/rope.hpp"

#include <string>

#include "kvcert/geometry.hpp"
#include "optimized/failure.hpp"
#include "optimized/float_bits.hpp"
#include "optimized/rope_entry.hpp"

namespace kvcert::optimized {
namespace {

constexpr std::size_t largest_window = std::size_t{1} << 20;

/// 0 ≤ f ≤ 1, −0 included, by its bits.
bool is_frequency(float f) { return is_zero(f) || float_bits(f) <= 0x3F800000; }

}  // namespace

Result<Rope> Rope::create(std::size_t window, std::span<const float> inv_freq, float scale) {
  return catching_memory([&]() -> Result<Rope> {
    if (window == 0 || window > largest_window)
      return failure(ErrorCode::invalid_argument, largest_window, window,
                     "window is " + std::to_string(window) + ", 1 to 2^20 expected");
    if (inv_freq.empty()) return failure(ErrorCode::invalid_argument, 1, 0, "inv_freq is empty");
    for (std::size_t i = 0; i < inv_freq.size(); ++i)
      if (!is_frequency(inv_freq[i]))
        return failure(ErrorCode::invalid_argument, 0, i, "inv_freq[" + std::to_string(i) + "] is not in [0, 1]");
    if (!is_finite(scale) || is_zero(scale) || is_negative(scale))
      return failure(ErrorCode::invalid_argument, 0, 0, "scale is not finite and positive");
    if (inv_freq.size() > max_count / window)
      return failure(ErrorCode::invalid_argument, max_count / window, inv_freq.size(),
                     "window x half exceeds 2^63 - 1");

    const std::size_t half = inv_freq.size();
    auto table = std::make_shared<Table>(Table{Buffer<float>(window * half), Buffer<float>(window * half)});
    for (std::size_t distance = 0; distance < window; ++distance) {
      for (std::size_t i = 0; i < half; ++i) {
        const RopeEntry entry = rope_entry(distance, inv_freq[i], scale);
        table->cos.data()[distance * half + i] = entry.cos;
        table->sin.data()[distance * half + i] = entry.sin;
      }
    }
    return Rope(window, half, std::move(table));
  });
}

}  // namespace kvcert::optimized
