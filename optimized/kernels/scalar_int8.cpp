// Portable kernels of int8 rows. Also the ones to read first.
#include <cstddef>
#include <cstdint>

#include "optimized/fused.hpp"
#include "optimized/kernels/call_count.hpp"
#include "optimized/kernels/kernels.hpp"

namespace kvcert::optimized::kernels {
namespace {

std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

/// n ≤ 32, so a lane takes at most two elements.
float group_dot(const float* q, const std::int8_t* k, std::size_t n) {
  float lane[lanes] = {};
  for (std::size_t j = 0; j < n; ++j) lane[j % lanes] = fused(q[j], static_cast<float>(k[j]), lane[j % lanes]);
  for (std::size_t half = lanes / 2; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

void scores(const float* q, std::size_t heads, const std::int8_t* k, std::size_t rows, std::size_t head_dim,
            const float* scales, float scale, float* out, std::size_t stride) {
  count_call();
  const std::size_t groups = (head_dim - 1) / int8_group + 1;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t h = 0; h < heads; ++h) {
      float sum = 0;
      for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t begin = g * int8_group;
        const float dot = group_dot(q + h * head_dim + begin, k + r * head_dim + begin,
                                    smaller(int8_group, head_dim - begin));
        sum = fused(dot, scales[r * groups + g], sum);
      }
      out[h * stride + r] = sum * scale;
    }
}

void weighted_sum(const float* p, std::size_t heads, std::size_t stride, const std::int8_t* v, std::size_t rows,
                  std::size_t head_dim, float* out) {
  count_call();
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t h = 0; h < heads; ++h) {
      const float weight = p[h * stride + r];
      if (weight == 0) continue;
      float* sum = out + h * head_dim;
      for (std::size_t d = 0; d < head_dim; ++d) sum[d] = fused(weight, static_cast<float>(v[r * head_dim + d]), sum[d]);
    }
}

float magnitude(float x) { return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x) & 0x7FFFFFFF); }
bool is_finite(float x) { return (__builtin_bit_cast(std::uint32_t, x) & 0x7F800000) != 0x7F800000; }

bool quantizable(const float* x, const float* columns, std::size_t n) {
  count_call();
  for (std::size_t i = 0; i < n; ++i) {
    if (!is_finite(x[i])) return false;
    if (columns != nullptr && !is_finite(x[i] / columns[i])) return false;
  }
  return true;  // |r| / 127 is finite where r is, and r / s is at most 127 and a rounding
}

/// To the nearest integer, halves away from zero, clamped to ±127. In binary64 the addition of 0.5 is exact.
std::int8_t rounded(float x) {
  const double wide = static_cast<double>(magnitude(x));
  const int integer = static_cast<int>((wide > 127.0 ? 127.0 : wide) + 0.5);
  return static_cast<std::int8_t>(__builtin_bit_cast(std::uint32_t, x) >> 31 != 0 ? -integer : integer);
}

void quantize_row(const float* x, const float* columns, std::size_t n, std::size_t group, std::int8_t* q,
                  float* scales) {
  count_call();
  constexpr float smallest_scale = __builtin_bit_cast(float, 0x2B8CBCCC);  // 1e-12
  const auto quotient = [&](std::size_t i) { return columns == nullptr ? x[i] : x[i] / columns[i]; };
  for (std::size_t begin = 0; begin < n; begin += group) {
    const std::size_t end = begin + smaller(group, n - begin);
    float largest = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const float size = magnitude(quotient(i));
      largest = size > largest ? size : largest;
    }
    const float scale = largest / 127.0F > smallest_scale ? largest / 127.0F : smallest_scale;
    for (std::size_t i = begin; i < end; ++i) q[i] = rounded(quotient(i) / scale);
    scales[begin / group] = scale;
  }
}

}  // namespace

constinit const Int8Kernels scalar_int8{scores, weighted_sum, quantizable, quantize_row, calls};

}  // namespace kvcert::optimized::kernels
