// Storing rows as int8. Storage has no exact value of its own: these are canonical bits, and attention takes them as given.
//
// One scale per group of channels follows a row's magnitude; the column field, fixed once from the rows seen by then,
// evens out channels that are large in every row, which would otherwise cost their whole group its resolution.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "reference/sequence_state.hpp"

namespace kvcert::reference {

/// Appends row x [head_dim] to int8 rows, measured against their columns. `group` channels share a scale: 32 of keys, all
/// of a value row. False if x, a quotient or a scale is not finite;
/// then `rows` may hold part of the row. Throws std::bad_alloc.
bool quantize(StoredRows& rows, std::span<const float> x, std::size_t group);

/// int8 rows [n × head_dim] without columns, as rows with columns fixed from them: col_d = √(mean of x̂_d²), at least 1e-6.
/// nullopt if a column or a quotient is not finite. Throws std::bad_alloc.
std::optional<StoredRows> freeze(const StoredRows& rows, std::size_t head_dim, std::size_t group);

}  // namespace kvcert::reference
