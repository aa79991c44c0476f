// Making and catching errors.
#pragma once

#include <expected>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "kvcert/error.hpp"

namespace kvcert::optimized {

inline std::unexpected<Error> failure(ErrorCode code, std::uint64_t expected, std::uint64_t found,
                                      std::string message) {
  return std::unexpected(Error{.code = code, .expected = expected, .found = found, .message = std::move(message)});
}

/// "q has 7 floats, 8 expected".
inline std::unexpected<Error> wrong_length(const char* what, std::uint64_t expected, std::uint64_t found) {
  return failure(
      ErrorCode::shape_mismatch, expected, found,
      std::string(what) + " has " + std::to_string(found) + " elements, " + std::to_string(expected) + " expected");
}

/// What f returns; out_of_memory (with a message that fits a string's own storage) where memory could not be had, or
/// where no container could be so long.
template <class F>
auto catching_memory(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return failure(ErrorCode::out_of_memory, 0, 0, "out of memory");
  } catch (const std::length_error&) {
    return failure(ErrorCode::out_of_memory, 0, 0, "out of memory");
  }
}

}  // namespace kvcert::optimized
