#include "optimized/quantize.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "optimized/float_bits.hpp"
#include "optimized/fused.hpp"

namespace kvcert::optimized {
namespace {

constexpr float smallest_column = std::bit_cast<float>(std::uint32_t{0x358637BD});  // 1e-6

}  // namespace

void dequantize_row(const std::int8_t* q, const float* scales, std::size_t n, std::size_t group, float* x) {
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(q[i]) * scales[i / group];
}

bool column_field(const std::int8_t* q, const float* scales, std::size_t rows, std::size_t n, std::size_t group,
                  float* columns, float* scratch) {
  const std::size_t groups = (n - 1) / group + 1;
  std::fill_n(columns, n, 0.0F);
  for (std::size_t row = 0; row < rows; ++row) {
    dequantize_row(q + row * n, scales + row * groups, n, group, scratch);
    for (std::size_t d = 0; d < n; ++d) columns[d] = fused(scratch[d], scratch[d], columns[d]);
  }
  bool finite = true;
  for (std::size_t d = 0; d < n; ++d) {
    // A NaN cannot come up: the sum has no negative terms.
    columns[d] = std::max(std::sqrt(columns[d] / static_cast<float>(rows)), smallest_column);
    finite = finite && is_finite(columns[d]);
  }
  return finite;
}

}  // namespace kvcert::optimized
