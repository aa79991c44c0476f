// int8 rows back to floats, and the column field, which freezes once in a sequence. In the default floating-point
// environment, which is the caller's to set. Canonical bits, see docs/arithmetic.md. Rows to int8: kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvcert::optimized {

/// x̂ = q · s (without columns). x [n].
void dequantize_row(const std::int8_t* q, const float* scales, std::size_t n, std::size_t group, float* x);

/// columns[d] = max(√(mean over rows of x̂_d²), 1e-6); false where one is not finite. rows ≥ 1; scratch [n].
bool column_field(const std::int8_t* q, const float* scales, std::size_t rows, std::size_t n, std::size_t group,
                  float* columns, float* scratch);

}  // namespace kvcert::optimized
