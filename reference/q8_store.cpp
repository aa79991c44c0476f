#include "reference/q8_store.hpp"

#include <algorithm>
#include <cstdint>

#include "reference/binary32.hpp"

namespace kvcert::reference {

namespace {

constexpr Binary32 smallest_scale = Binary32::from_bits(0x2B8CBCCC);   // 1e-12
constexpr Binary32 smallest_column = Binary32::from_bits(0x358637BD);  // 1e-6

Binary32 magnitude(Binary32 x) { return Binary32::from_bits(x.bits() & 0x7FFFFFFF); }

/// To the nearest integer, ties away from 0, and not beyond ±127. In integers: |x| is significand / 2^shift.
std::int8_t nearest_int8(Binary32 x) {
  const std::uint32_t biased = magnitude(x).bits() >> 23;
  const std::uint32_t significand = (x.bits() & 0x7FFFFF) | 0x800000;
  std::uint32_t integer = 0;
  if (biased >= 127 + 7) {
    integer = 127;  // |x| ≥ 128
  } else if (biased >= 127 - 1) {  // |x| ≥ 1/2, below which it is 0
    const std::uint32_t shift = 127 + 23 - biased;
    integer = std::min((significand + (std::uint32_t{1} << (shift - 1))) >> shift, std::uint32_t{127});
  }
  const int value = static_cast<int>(integer);
  return static_cast<std::int8_t>((x.bits() >> 31) != 0 ? -value : value);
}

/// x̂ = q · s of row `row`, without columns.
std::vector<Binary32> dequantized(const StoredRows& rows, std::size_t row, std::size_t head_dim, std::size_t group) {
  const std::size_t groups = (head_dim + group - 1) / group;
  std::vector<Binary32> x;
  for (std::size_t d = 0; d < head_dim; ++d) {
    const Binary32 scale = Binary32::of(rows.scales[row * groups + d / group]);
    x.push_back(Binary32::integer(rows.int8[row * head_dim + d]) * scale);
  }
  return x;
}

}  // namespace

bool quantize(StoredRows& rows, std::span<const float> x, std::size_t group) {
  for (std::size_t from = 0; from < x.size(); from += group) {
    const std::size_t end = std::min(from + group, x.size());

    // r = x / col [group], and its largest magnitude.
    std::vector<Binary32> r;
    Binary32 largest;
    for (std::size_t d = from; d < end; ++d) {
      Binary32 quotient = Binary32::of(x[d]);
      if (!rows.columns.empty()) quotient = quotient / Binary32::of(rows.columns[d]);
      if (!quotient.is_finite()) return false;
      largest = maximum(largest, magnitude(quotient));
      r.push_back(quotient);
    }

    // s = max(absmax(r) / 127, 1e-12), finite because r is; q = round(r / s), at most 127 and a rounding.
    const Binary32 scale = maximum(smallest_scale, largest / Binary32::integer(127));
    rows.scales.push_back(scale.carrier());
    for (const Binary32 quotient : r) rows.int8.push_back(nearest_int8(quotient / scale));
  }
  return true;
}

std::optional<StoredRows> freeze(const StoredRows& rows, std::size_t head_dim, std::size_t group) {
  const std::size_t n = rows.int8.size() / head_dim;

  // col_d = max(√(Σ x̂_d² / n), 1e-6), rows ascending.
  std::vector<Binary32> sum(head_dim);  // +0
  for (std::size_t row = 0; row < n; ++row) {
    const std::vector<Binary32> x = dequantized(rows, row, head_dim, group);
    for (std::size_t d = 0; d < head_dim; ++d) sum[d] = fma(x[d], x[d], sum[d]);
  }
  StoredRows frozen;
  for (std::size_t d = 0; d < head_dim; ++d) {
    const Binary32 mean = sum[d] / Binary32::integer(static_cast<std::int64_t>(n));
    const Binary32 column = maximum(smallest_column, sqrt(mean));
    if (!column.is_finite()) return std::nullopt;
    frozen.columns.push_back(column.carrier());
  }

  // The rows once more, measured against it.
  for (std::size_t row = 0; row < n; ++row) {
    std::vector<float> x;
    for (const Binary32 element : dequantized(rows, row, head_dim, group)) x.push_back(element.carrier());
    if (!quantize(frozen, x, group)) return std::nullopt;
  }
  return frozen;
}

}  // namespace kvcert::reference
