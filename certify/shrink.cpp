// How a failing case is made smaller. Every candidate is a whole, valid case: tensors are cut with the sizes they follow.
#include <algorithm>
#include <cmath>

#include "certify/generate.hpp"

namespace kvcert::certify {
namespace {

/// Copies the part of a [outer][heads][dim] tensor that remains when some positions, heads and dimensions are dropped.
std::vector<float> cut(const std::vector<float>& from, std::size_t heads, std::size_t dim, std::size_t first,
                       std::size_t count, std::size_t first_head, std::size_t new_heads, std::size_t new_dim) {
  std::vector<float> result;
  result.reserve(count * new_heads * new_dim);
  for (std::size_t outer = first; outer < first + count; ++outer) {
    for (std::size_t head = first_head; head < first_head + new_heads; ++head) {
      const auto row = from.begin() + static_cast<std::ptrdiff_t>((outer * heads + head) * dim);
      result.insert(result.end(), row, row + static_cast<std::ptrdiff_t>(new_dim));
    }
  }
  return result;
}

TestCase with_positions(const TestCase& test, std::size_t first, std::size_t count) {
  TestCase smaller = test;
  const auto [heads, dim] = test.geometry;
  smaller.positions = count;
  smaller.k = cut(test.k, heads, dim, first, count, 0, heads, dim);
  smaller.v = cut(test.v, heads, dim, first, count, 0, heads, dim);
  smaller.first = std::min(test.first, count);
  smaller.upto = std::min(test.upto, count);
  if (smaller.acc.size() > count) smaller.acc.resize(count);
  return smaller;
}

TestCase with_one_kv_head(const TestCase& test) {
  TestCase smaller = test;
  const auto [heads, dim] = test.geometry;
  smaller.geometry.num_kv_heads = 1;
  smaller.alive = {test.alive[test.kv_head]};
  smaller.kv_head = 0;
  smaller.k = cut(test.k, heads, dim, 0, test.positions, test.kv_head, 1, dim);
  smaller.v = cut(test.v, heads, dim, 0, test.positions, test.kv_head, 1, dim);
  return smaller;
}

TestCase with_head_dim(const TestCase& test, std::size_t new_dim) {
  TestCase smaller = test;
  const auto [heads, dim] = test.geometry;
  smaller.geometry.head_dim = new_dim;
  smaller.k = cut(test.k, heads, dim, 0, test.positions, 0, heads, new_dim);
  smaller.v = cut(test.v, heads, dim, 0, test.positions, 0, heads, new_dim);
  smaller.q = cut(test.q, 1, dim, 0, test.heads(), 0, 1, new_dim);
  return smaller;
}

TestCase with_query_heads(const TestCase& test, std::size_t first, std::size_t count) {
  TestCase smaller = test;
  const std::size_t dim = test.geometry.head_dim;
  smaller.q = cut(test.q, 1, dim, first, count, 0, 1, dim);
  if (!test.sinks.empty()) {
    const auto from = test.sinks.begin() + static_cast<std::ptrdiff_t>(first);
    smaller.sinks.assign(from, from + static_cast<std::ptrdiff_t>(count));
  }
  return smaller;
}

/// A tensor with every number replaced by `simpler_number`, if that changes anything. A tensor of zeros and ones is simple
/// enough: filling it again would undo what shrinking single numbers won, for ever.
template <class Function>
void offer_values(std::vector<TestCase>& candidates, const TestCase& test, Function simpler_number) {
  for (auto member : {&TestCase::k, &TestCase::v, &TestCase::q, &TestCase::sinks, &TestCase::acc}) {
    const auto& tensor = test.*member;
    if (std::all_of(tensor.begin(), tensor.end(), [](float x) { return x == 0.0F || x == 1.0F; })) continue;
    TestCase candidate = test;
    for (float& x : candidate.*member) x = simpler_number(x);
    if (!(candidate == test)) candidates.push_back(std::move(candidate));
  }
}

}  // namespace

std::vector<TestCase> simpler(const TestCase& test) {
  std::vector<TestCase> candidates;
  const auto offer = [&](TestCase candidate) {
    if (!(candidate == test)) candidates.push_back(std::move(candidate));
  };
  const std::size_t n = test.positions;
  for (std::size_t keep : {std::size_t{0}, n / 4, n / 2, n - n / 4, n - 1}) {
    if (keep < n) offer(with_positions(test, 0, keep));
    if (keep < n && keep > 0) offer(with_positions(test, n - keep, keep));
  }
  if (test.geometry.num_kv_heads > 1) offer(with_one_kv_head(test));
  const std::size_t dim = test.geometry.head_dim;
  for (std::size_t keep : {std::size_t{1}, dim / 4, dim / 2, dim - 1}) {
    if (keep >= 1 && keep < dim) offer(with_head_dim(test, keep));
  }
  const std::size_t heads = test.heads();
  for (std::size_t head = 0; heads > 1 && head < heads; ++head) offer(with_query_heads(test, head, 1));
  if (heads > 2) offer(with_query_heads(test, 0, heads - 1));

  const auto offer_change = [&](auto change) {
    TestCase candidate = test;
    change(candidate);
    offer(std::move(candidate));
  };
  offer_change([](TestCase& c) { c.sinks.clear(); });
  offer_change([](TestCase& c) { c.acc.clear(); });
  offer_change([](TestCase& c) { c.softcap = 0; });
  offer_change([](TestCase& c) { c.scale = 1; });
  offer_change([](TestCase& c) { c.first = 0; });
  offer_change([](TestCase& c) { c.first = c.first / 2; });
  offer_change([](TestCase& c) { c.upto = c.positions; });
  offer_change([](TestCase& c) { c.salt = c.salt % 16; });
  offer_change([](TestCase& c) { std::fill(c.alive.begin(), c.alive.end(), std::uint8_t{1}); });

  offer_values(candidates, test, [](float) { return 0.0F; });
  offer_values(candidates, test, [](float) { return 1.0F; });
  offer_values(candidates, test, [](float x) { return std::isfinite(x) && std::fabs(x) < 1e6F ? std::rint(x) : x; });
  if (n * dim <= 64) {  // only now is it worth looking at single numbers
    for (auto member : {&TestCase::k, &TestCase::v, &TestCase::q}) {
      for (std::size_t i = 0; i < (test.*member).size(); ++i) {
        if ((test.*member)[i] != 0.0F) offer_change([&](TestCase& c) { (c.*member)[i] = 0.0F; });
      }
    }
  }
  return candidates;
}

}  // namespace kvcert::certify
