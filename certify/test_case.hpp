// The input of every law: one layer with its rows, and one question to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "kvcert/geometry.hpp"
#include "kvcert/query.hpp"

namespace kvcert::certify {

/// A history (positions appended in order) and a query. Laws that need more choices, such as where to split a prompt or
/// how deep to roll back, take them from `salt`, so that a case is the whole of what a failure needs to be run again.
struct TestCase {
  Geometry geometry{1, 1};
  std::vector<std::uint8_t> alive;  ///< [KVH], 1 = alive
  std::size_t positions = 0;
  std::vector<float> k, v;  ///< [positions][KVH × HD]

  std::size_t kv_head = 0;
  std::size_t first = 0, upto = 0;
  float scale = 1, softcap = 0;
  std::vector<float> q;      ///< [heads × HD]
  std::vector<float> sinks;  ///< empty or [heads]
  std::vector<float> acc;    ///< the importance accumulator before the call, any length
  std::uint64_t salt = 0;

  std::size_t heads() const { return q.size() / geometry.head_dim; }
  std::size_t row_floats() const { return geometry.num_kv_heads * geometry.head_dim; }
  /// Rows that the queried head stores.
  std::size_t stored() const { return alive[kv_head] != 0 ? positions : 0; }
  std::size_t rows() const { return stored() < upto ? stored() : upto; }
  /// The earliest visible row after clamping; 0 where there is no row.
  std::size_t first_visible() const { return rows() == 0 ? 0 : (first < rows() ? first : rows() - 1); }

  std::span<const float> k_at(std::size_t position) const {
    return std::span(k).subspan(position * row_floats(), row_floats());
  }
  std::span<const float> v_at(std::size_t position) const {
    return std::span(v).subspan(position * row_floats(), row_floats());
  }
  /// The query as the cache takes it; spans point into this case.
  Query query() const {
    return {.q_group = q, .kv_head = kv_head, .scale = scale, .first = first, .softcap = softcap, .sinks = sinks};
  }
  /// Rows of the queried head alone, [stored() × HD].
  std::vector<float> head_rows(const std::vector<float>& tensor) const;

  friend bool operator==(const TestCase& a, const TestCase& b);  // by bits
};

/// Tensors travel as hex of little-endian binary32, so that NaN payloads survive.
nlohmann::json to_json(const TestCase& test);
/// Throws std::runtime_error with a sentence for a person if the object is no case.
TestCase test_case_from_json(const nlohmann::json& json);

}  // namespace kvcert::certify
