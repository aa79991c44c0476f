// Law 9, atomic: a refused call leaves every observable bit as it was, and reports the first fault of the contract's order.
#pragma once

#include <cmath>
#include <limits>

#include "certify/laws/law.hpp"
#include "certify/laws/state.hpp"
#include "certify/random.hpp"

namespace kvcert::certify::laws {

/// Calls an operation that must be refused with `code`, on a copy of `layer`, and looks at everything afterwards.
template <class Cache, class Call>
std::optional<std::string> refusal(const Cache& layer, const char* what, ErrorCode code, const Call& call) {
  auto target = layer;
  const auto before = observe(target);
  const auto result = call(target);
  if (result) return fmt::format("{} was accepted, expected {}", what, name(code));
  const Error& error = result.error();
  if (error.code != code) return fmt::format("{} gave {} ({}), expected {}", what, name(error.code), error.message, name(code));
  if (error.message.empty()) return fmt::format("{} gave {} without a sentence", what, name(code));
  if (auto found = difference(observe(target), before)) return fmt::format("{} was refused but changed {}", what, *found);
  return std::nullopt;
}

template <class Engine>
Outcome atomic(const Engine& engine, const TestCase& test) {
  using Cache = typename Engine::Cache;
  const Cache layer = lived_in_layer(engine, test);
  const auto [heads, dim] = test.geometry;
  const std::size_t row = test.row_floats();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> k(row + 1, 1.0F), out(test.q.size() + dim, 7.0F), acc(test.positions + 3, 7.0F);
  const std::vector<std::uint8_t> too_many(heads + 1, 1);
  std::vector<std::uint8_t> other = test.alive;
  other[0] = other[0] == 0;
  const std::span<const float> good(k.data(), row);
  const std::span<const float> longer(k);

  // A query with one thing wrong; out and acc must stay as they were too.
  const auto query_refusal = [&](const char* what, ErrorCode code, auto change) {
    return refusal(layer, what, code, [&](Cache& target) {
      Query query = test.query();
      std::span<float> o(out.data(), test.q.size());
      std::span<float> a(acc);
      change(query, o, a);
      const auto out_before = out;
      const auto acc_before = acc;
      auto result = target.attend_group_upto(query, test.upto, o, a);
      if (!result && (first_difference(out, out_before) || first_difference(acc, acc_before))) {
        result.error().code = ErrorCode::out_of_memory;  // no such fault here: shown as an unexpected code
        result.error().message = "it wrote to an output before refusing";
      }
      return result;
    });
  };
  using Q = Query&;
  using S = std::span<float>&;
  std::vector<float> one_sink_more(test.heads() + 1, 0.0F);

  std::optional<std::string> found;
  const auto check = [&](std::optional<std::string> result) {
    if (!found) found = std::move(result);
  };
  check(refusal(layer, "append with a key too long", ErrorCode::shape_mismatch,
                [&](Cache& c) { return c.append(longer, good, test.alive); }));
  check(refusal(layer, "append with a value too short", ErrorCode::shape_mismatch,
                [&](Cache& c) { return c.append(good, good.first(row - 1), test.alive); }));
  check(refusal(layer, "append with a flag too many", ErrorCode::shape_mismatch,
                [&](Cache& c) { return c.append(good, good, too_many); }));
  check(refusal(layer, "append_chunk of two positions with rows for one", ErrorCode::shape_mismatch,
                [&](Cache& c) { return c.append_chunk(good, good, 2, test.alive); }));
  check(refusal(layer, "append_chunk of no position with a row", ErrorCode::shape_mismatch,
                [&](Cache& c) { return c.append_chunk(good, {}, 0, test.alive); }));
  if (row > 1) {
    check(refusal(layer, "append_chunk whose size wraps", ErrorCode::invalid_argument,
                  [&](Cache& c) { return c.append_chunk(good, good, ~std::size_t{0} / row + 2, test.alive); }));
  }
  check(refusal(layer, "append_chunk of 2^63 positions", ErrorCode::invalid_argument,
                [&](Cache& c) { return c.append_chunk(good, good, std::size_t{1} << 63U, test.alive); }));
  if (test.positions > 0) {
    check(refusal(layer, "append with other live heads", ErrorCode::alive_changed,
                  [&](Cache& c) { return c.append(good, good, other); }));
    check(refusal(layer, "append_chunk of nothing with other live heads", ErrorCode::alive_changed,
                  [&](Cache& c) { return c.append_chunk({}, {}, 0, other); }));
  }
  check(refusal(layer, "append with a bad length and other live heads", ErrorCode::shape_mismatch,
                [&](Cache& c) { return c.append(longer, good, other); }));
  check(refusal(layer, "accumulate_imp longer than the sequence", ErrorCode::shape_mismatch,
                [&](Cache& c) { return c.accumulate_imp(acc); }));
  check(refusal(layer, "set_sinks of nothing", ErrorCode::shape_mismatch, [&](Cache& c) { return c.set_sinks({}); }));
  if (heads > 1) {
    check(refusal(layer, "set_sinks of no multiple of KVH", ErrorCode::shape_mismatch, [&](Cache& c) {
      return c.set_sinks(std::vector<float>(heads + 1, 0.0F));
    }));
  }
  for (std::size_t head : {heads, ~std::size_t{0}}) {
    check(refusal(layer, "head_keys", ErrorCode::head_out_of_range, [&](Cache& c) { return c.head_keys(head); }));
    check(refusal(layer, "head_values", ErrorCode::head_out_of_range, [&](Cache& c) { return c.head_values(head); }));
    check(refusal(layer, "head_len", ErrorCode::head_out_of_range, [&](Cache& c) { return c.head_len(head); }));
    check(refusal(layer, "attend with a bad length in a head that is not there", ErrorCode::head_out_of_range,
                  [&](Cache& c) { return c.attend(longer, head); }));
    check(query_refusal("a query for a head that is not there, with a bad scale", ErrorCode::head_out_of_range,
                        [&](Q q, S, S) { q.kv_head = head, q.scale = nan; }));
  }
  check(refusal(layer, "attend with a query too long", ErrorCode::shape_mismatch, [&](Cache& c) {
    return c.attend(std::vector<float>(dim + 1, 1.0F), test.kv_head);
  }));
  if (dim > 1) {
    check(query_refusal("a query of no multiple of head_dim, with a bad cap", ErrorCode::shape_mismatch,
                        [&](Q q, S o, S) { q.q_group = q.q_group.subspan(1), o = o.subspan(1), q.softcap = -1; }));
  }
  check(query_refusal("an output too short", ErrorCode::shape_mismatch, [&](Q, S o, S) { o = o.subspan(1); }));
  check(query_refusal("a sink too many", ErrorCode::shape_mismatch, [&](Q q, S, S) { q.sinks = one_sink_more; }));
  for (float bad : {nan, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    check(query_refusal("a scale that is not finite", ErrorCode::invalid_argument, [&](Q q, S, S) { q.scale = bad; }));
    check(query_refusal("a softcap that is not finite", ErrorCode::invalid_argument,
                        [&](Q q, S, S) { q.softcap = bad; }));
  }
  check(query_refusal("a negative softcap", ErrorCode::invalid_argument, [&](Q q, S, S) { q.softcap = -0x1p-149F; }));
  check(query_refusal("an accumulator inside the output", ErrorCode::invalid_argument,
                      [&](Q, S o, S a) { a = o.last(1); }));
  const std::size_t size = test.q.size();
  check(query_refusal("an output over the query", ErrorCode::invalid_argument, [&](Q q, S o, S) {
    q.q_group = std::span<const float>(out).first(size), o = std::span(out).subspan(size > 1 ? 1 : 0, size);
  }));
  check(query_refusal("an accumulator over the query", ErrorCode::invalid_argument,
                      [&](Q q, S, S a) { q.q_group = std::span<const float>(out).first(size), a = std::span(out); }));
  const std::size_t n = test.heads();
  check(query_refusal("an output over the sinks", ErrorCode::invalid_argument,
                      [&](Q q, S o, S) { q.sinks = std::span<const float>(o).last(n); }));
  check(query_refusal("an accumulator over the sinks", ErrorCode::invalid_argument, [&](Q q, S, S a) {
    q.sinks = std::span<const float>(one_sink_more).first(n), a = std::span(one_sink_more).subspan(n - 1, 2);
  }));
  if (test.positions > 0) {
    // A view is read-only, but nothing stops a caller from casting; the cache has to notice.
    const auto writable = [](std::span<const float> view) { return std::span(const_cast<float*>(view.data()), view.size()); };
    check(refusal(layer, "an accumulator over the layer's importance", ErrorCode::invalid_argument, [&](Cache& c) {
      return c.attend_group(test.query(), std::span(out).first(size), writable(c.importance()));
    }));
    check(refusal(layer, "an accumulator over the layer's sinks", ErrorCode::invalid_argument, [&](Cache& c) {
      return c.attend_group(test.query(), std::span(out).first(size), writable(c.sinks()));
    }));
    if (!layer.linear_state().empty()) {
      check(refusal(layer, "an accumulator over the layer's recurrent vector", ErrorCode::invalid_argument, [&](Cache& c) {
        return c.attend_group(test.query(), std::span(out).first(size), writable(c.linear_state()));
      }));
    }
    const auto rows = layer.v_heads()[test.kv_head].size();
    if (rows > 0) {
      check(refusal(layer, "an accumulator over the layer's values", ErrorCode::invalid_argument, [&](Cache& c) {
        return c.attend_group(test.query(), std::span(out).first(size), writable(c.v_heads()[test.kv_head]).last(1));
      }));
    }
    if (rows >= size) {
      check(refusal(layer, "an output over the layer's keys", ErrorCode::invalid_argument, [&](Cache& c) {
        return c.attend_group(test.query(), writable(c.k_heads()[test.kv_head]).first(size), acc);
      }));
    }
  }
  if (found) return violated(*found);
  return holds();
}

}  // namespace kvcert::certify::laws
