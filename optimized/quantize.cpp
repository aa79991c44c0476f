#include "optimized/quantize.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "optimized/float_bits.hpp"
#include "optimized/fused.hpp"

namespace kvcert::optimized {
namespace {

constexpr float smallest_scale = std::bit_cast<float>(std::uint32_t{0x2B8CBCCC});   // 1e-12
constexpr float smallest_column = std::bit_cast<float>(std::uint32_t{0x358637BD});  // 1e-6

float magnitude(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFF); }

/// To the nearest integer, halves away from zero, clamped to ±127. In binary64 the addition of 0.5 is exact.
std::int8_t rounded(float x) {
  const double clamped = std::min(static_cast<double>(magnitude(x)), 127.0);
  const int integer = static_cast<int>(clamped + 0.5);
  return static_cast<std::int8_t>(is_negative(x) ? -integer : integer);
}

}  // namespace

bool quantizable(const float* x, const float* columns, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (!is_finite(x[i])) return false;
    if (columns != nullptr && !is_finite(x[i] / columns[i])) return false;
  }
  return true;  // |r| / 127 is finite where r is, and r / s is at most 127 and a rounding
}

void quantize_row(const float* x, const float* columns, std::size_t n, std::size_t group, std::int8_t* q,
                  float* scales) {
  const auto quotient = [&](std::size_t i) { return columns == nullptr ? x[i] : x[i] / columns[i]; };
  for (std::size_t begin = 0; begin < n; begin += group) {
    const std::size_t end = std::min(begin + group, n);
    float largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, magnitude(quotient(i)));
    const float scale = std::max(largest / 127.0F, smallest_scale);
    for (std::size_t i = begin; i < end; ++i) q[i] = rounded(quotient(i) / scale);
    scales[begin / group] = scale;
  }
}

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
