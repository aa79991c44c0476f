// Refusals: how an error is worded, and the checks that several operations share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <locale>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "kvcert/error.hpp"
#include "kvcert/geometry.hpp"
#include "kvcert/storage.hpp"

namespace kvcert::reference {

/// The parts one after another, numbers in decimal.
template <class... Parts>
std::string sentence(const Parts&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  (text << ... << parts);
  return std::move(text).str();
}

/// A cache call's refusal.
inline std::unexpected<Error> refuse(ErrorCode code, std::uint64_t expected, std::uint64_t found, std::string message) {
  Error error;
  error.code = code;
  error.expected = expected;
  error.found = found;
  error.message = std::move(message);
  return std::unexpected(std::move(error));
}

/// The refusal of another check, handed on as this call's.
template <class T>
std::unexpected<Error> handed_on(const Result<T>& refused) {
  return std::unexpected(refused.error());
}

inline std::unexpected<Error> refuse_overlap(const char* output, const char* other) {
  return refuse(ErrorCode::invalid_argument, 0, 0, sentence(output, " overlaps ", other));
}

/// Runs a call's body, which throws when memory is short, and makes that a refusal. (The message is short enough to
/// need no memory of its own.)
template <class Body>
auto or_out_of_memory(Body body) -> decltype(body()) {
  const auto refused = [] { return refuse(ErrorCode::out_of_memory, 0, 0, "out of memory"); };
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return refused();
  } catch (const std::length_error&) {  // more than a vector may ever hold
    return refused();
  }
}

/// The product, unless it is over 2^63 − 1.
inline std::optional<std::uint64_t> checked_product(std::initializer_list<std::uint64_t> factors) {
  std::uint64_t product = 1;
  bool too_large = false;
  for (const std::uint64_t factor : factors) {
    if (factor == 0) return 0;  // whatever the others are
    too_large = too_large || product > max_count / factor;
    if (!too_large) product *= factor;
  }
  return too_large ? std::nullopt : std::optional(product);
}

/// Whether two spans share a byte. An empty span names no memory.
template <class T, class U>
bool overlap(std::span<const T> a, std::span<const U> b) {
  if (a.empty() || b.empty()) return false;
  const auto a_bytes = std::as_bytes(a);
  const auto b_bytes = std::as_bytes(b);
  const std::less<const std::byte*> before;  // a total order, also of pointers into different arrays
  return before(a_bytes.data(), b_bytes.data() + b_bytes.size()) &&
         before(b_bytes.data(), a_bytes.data() + a_bytes.size());
}

inline Result<void> check_head(std::size_t kv_head, const Geometry& geometry) {
  if (kv_head < geometry.num_kv_heads) return {};
  return refuse(ErrorCode::head_out_of_range, geometry.num_kv_heads, kv_head,
                sentence("kv_head is ", kv_head, ", but the layer has ", geometry.num_kv_heads,
                         " KV heads, counted from 0"));
}

inline Result<void> check_length(const char* argument, std::size_t found, std::uint64_t expected, const char* shape) {
  if (found == expected) return {};
  return refuse(ErrorCode::shape_mismatch, expected, found,
                sentence(argument, " has length ", found, ", but ", shape, " is ", expected));
}

inline Result<void> check_o1_config(const O1Config& config) {
  if (config.landmarks < 4) {
    return refuse(ErrorCode::invalid_argument, 4, config.landmarks,
                  sentence("landmarks is ", config.landmarks, ", but is at least 4"));
  }
  if (config.window < 1) return refuse(ErrorCode::invalid_argument, 1, 0, "the O(1) window is 0, but is at least 1");
  if (config.rect != O1Rect::aggregate && config.rect != O1Rect::fm) {
    return refuse(ErrorCode::invalid_argument, 1, static_cast<std::uint64_t>(config.rect),
                  "rect is neither aggregate nor fm");
  }
  return {};
}

}  // namespace kvcert::reference
