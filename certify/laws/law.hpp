// What a law answers about one case, and the few steps that all laws share.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "certify/bits.hpp"
#include "certify/observe.hpp"
#include "certify/test_case.hpp"
#include "kvcert/layer_cache.hpp"

namespace kvcert::certify {

/// A case can be too small for a law to say anything (no hidden row, say); that is counted apart, never as a pass.
enum class Verdict : std::uint8_t { holds, not_exercised, violated };

struct Outcome {
  Verdict verdict = Verdict::holds;
  std::string sentence;  ///< violated: what was expected and what came
};

inline Outcome holds() { return {}; }
inline Outcome not_exercised() { return {Verdict::not_exercised, {}}; }
inline Outcome violated(std::string sentence) { return {Verdict::violated, std::move(sentence)}; }
/// Violated if a difference was found.
inline Outcome unless(const std::optional<std::string>& difference, const std::string& context) {
  return difference ? violated(context + ": " + *difference) : holds();
}

/// A call that had to succeed was refused; the runner turns it into a violation.
struct UnexpectedRefusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class T>
T must(Result<T> result, const char* call) {
  if (!result) {
    throw UnexpectedRefusal(fmt::format("{} was refused with {}: {}", call, name(result.error().code),
                                        result.error().message));
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// An empty layer of the case's geometry.
template <class Engine>
typename Engine::Cache empty_layer(const Engine& engine, const TestCase& test) {
  return must(engine.make(test.geometry), "create");
}

/// Appends positions from … to − 1 one at a time.
template <class Cache>
void append_positions(Cache& layer, const TestCase& test, std::size_t from, std::size_t to) {
  for (std::size_t position = from; position < to; ++position) {
    must(layer.append(test.k_at(position), test.v_at(position), test.alive), "append");
  }
}

/// The case's layer with all its positions appended in one chunk.
template <class Engine>
typename Engine::Cache filled_layer(const Engine& engine, const TestCase& test) {
  auto layer = empty_layer(engine, test);
  must(layer.append_chunk(test.k, test.v, test.positions, test.alive), "append_chunk");
  return layer;
}

/// What one attend_group_upto wrote.
struct Answer {
  std::vector<float> out;  ///< [heads × HD]
  std::vector<float> acc;
};

template <class Cache>
Answer ask(const Cache& layer, const Query& query, std::size_t upto, std::vector<float> acc) {
  Answer answer{std::vector<float>(query.q_group.size(), 123.0F), std::move(acc)};
  must(layer.attend_group_upto(query, upto, answer.out, answer.acc), "attend_group_upto");
  return answer;
}

template <class Cache>
Answer ask(const Cache& layer, const TestCase& test) {
  return ask(layer, test.query(), test.upto, test.acc);
}

inline std::optional<std::string> difference(const Answer& got, const Answer& expected) {
  if (auto found = difference("out", got.out, expected.out)) return found;
  return difference("acc", got.acc, expected.acc);
}

/// Two layers that must now look alike and go on alike: everything observable, and the case's query.
template <class A, class B>
std::optional<std::string> layer_difference(const A& a, const B& b, const TestCase& test) {
  if (auto found = difference(observe(a), observe(b))) return "they differ in " + *found;
  if (auto found = incoherence(a)) return found;
  if (auto found = difference(ask(a, test), ask(b, test))) return "the query's " + *found;
  return std::nullopt;
}

}  // namespace kvcert::certify
