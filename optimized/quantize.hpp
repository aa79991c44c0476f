// int8 rows: one row to int8 and back, and the column field. All but quantizable() in the default floating-point
// environment, which is the caller's to set. Canonical bits, see docs/arithmetic.md; nothing here is fast yet.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvcert::optimized {

/// Whether x [n], x / columns, and so everything that is derived from them, is finite. columns: [n] or nullptr.
bool quantizable(const float* x, const float* columns, std::size_t n);

/// r = x / columns; per group of `group` channels s = max(absmax(r) / 127, 1e-12), q = r / s rounded half away, clamped
/// to ±127. x quantizable. q [n], scales [⌈n / group⌉].
void quantize_row(const float* x, const float* columns, std::size_t n, std::size_t group, std::int8_t* q,
                  float* scales);

/// x̂ = q · s (without columns). x [n].
void dequantize_row(const std::int8_t* q, const float* scales, std::size_t n, std::size_t group, float* x);

/// columns[d] = max(√(mean over rows of x̂_d²), 1e-6); false where one is not finite. rows ≥ 1; scratch [n].
bool column_field(const std::int8_t* q, const float* scales, std::size_t rows, std::size_t n, std::size_t group,
                  float* columns, float* scratch);

}  // namespace kvcert::optimized
