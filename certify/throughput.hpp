// How fast a part of an engine was, as a certificate states it. Nothing is judged by it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "certify/engine.hpp"

namespace kvcert::certify {

/// So many of `unit` in so many seconds.
struct Throughput {
  std::string part;      ///< what was timed: "attend"
  std::string measured;  ///< from where to where, and on what
  std::string unit;      ///< "queries": one query head of one position; "rows": a key and a value of one KV head
  std::uint64_t calls = 0, count = 0;
  double seconds = 0;
  std::optional<double> visible_rows;  ///< queries: how many rows one of them saw, on average

  double per_second() const { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
  double nanoseconds_each() const { return count > 0 ? seconds * 1e9 / static_cast<double>(count) : 0; }
};

nlohmann::json to_json(const std::vector<Throughput>& throughput);
/// "3.21 million queries/s, 312 ns each".
std::string speed_text(const Throughput& throughput);

/// The built-in cache at one fixed piece of work: 8 KV heads of 128, 32 query heads, 1,024 positions of f32, one thread. A fifth of a second.
std::vector<Throughput> measure_throughput(const OptimizedEngine& engine);

}  // namespace kvcert::certify
