// The laws of int8 storage, chunks, eviction, the ring, linear layers and the O(1) overlay, each once, over the concept.
#include "certify/laws/chunks.hpp"
#include "certify/laws/int8.hpp"
#include "certify/laws/overlay.hpp"
#include "certify/laws/ring.hpp"
#include "tests/property.hpp"

using namespace kvcert;

BOOST_AUTO_TEST_SUITE(laws)

// Law 2, chunk = sequence, for chunked attention, in every storage.
LAW(2, chunk_attention, 500, any, 100, 8'000)

// Laws 2, 5 and 6 for int8, on both sides of the freeze.
LAW(2, int8_chunk_is_sequence, 60, finite, 20, 4'000)
LAW(5, int8_rollback, 60, finite, 20, 4'000)
LAW(6, int8_snapshot, 60, finite, 20, 4'000)
LAW(9, int8_refuses, 60, finite, 20, 4'000)
LAW(14, int8_constant_row, 300, finite, 4, 4'000)

// Laws 5–7 and 11 on the ring.
LAW(5, ring_rollback, 100, finite, 4, 1'000)
LAW(6, ring_comes_back, 100, finite, 4, 1'000)
LAW(11, ring_forgets, 100, finite, 4, 1'000)

// Linear layers.
LAW(7, linear_layer, 200, finite, 4, 1'000)

// Law 12, the O(1) overlay.
LAW(12, overlay_counts, 60, finite, 4, 600)
LAW(12, overlay_is_constant, 60, finite, 4, 600)
LAW(12, overlay_exact_only, 60, finite, 4, 600)

// Law 15, eviction.
LAW(15, eviction, 500, any, 100, 8'000)

// Every query head of a step gets what it gets when it is the only one, however many there are: implementations take them in
// blocks.
BOOST_AUTO_TEST_CASE_TEMPLATE(many_heads_are_answered_one_by_one, Engine, tests::Engines) {
  const Engine engine;
  if (!tests::has(engine)) {
    std::cout << "NOT RUN: many heads on " << engine.name() << ", which this machine lacks\n";
    return;
  }
  using Cache = typename Engine::Cache;
  using certify::must;
  const Geometry geometry{2, 5};
  const std::size_t dim = geometry.head_dim, row = geometry.num_kv_heads * dim, window = 3;
  const auto numbers = [](std::size_t n, std::uint64_t salt) {
    certify::Random random(salt);
    std::vector<float> drawn(n);
    for (float& x : drawn) x = random.normal();
    return drawn;
  };
  auto ring = must(engine.make(geometry), "create"), rows = must(engine.make(geometry), "create");
  must(ring.install_bounded(window), "install_bounded");
  const auto rope = must(Cache::Rope::create(window, std::vector{1.0F, 0.25F}, 1), "Rope::create");
  const auto sinks = numbers(2 * row, 7);
  const auto k = numbers(row, 8), v = numbers(row, 9);
  const auto step = [&](Cache layer, std::span<const float> q) {  // a copy, so that each step is the same one
    std::vector<float> out(q.size());
    must(layer.bounded_step(q, k, v, {sinks, sinks}, rope, 0.5F, q.size() / dim, out), "bounded_step");
    return out;
  };
  for (std::uint64_t i = 0; i < 4; ++i) {
    std::vector<float> out(row);
    must(ring.bounded_step(numbers(row, 10 + i), numbers(row, 20 + i), numbers(row, 30 + i), {}, rope, 0.5F, geometry.num_kv_heads, out), "bounded_step");
    must(rows.append(numbers(row, 20 + i), numbers(row, 30 + i)), "append");
  }
  for (const std::size_t fan_out : {63, 64, 65, 130}) {
    const std::vector<float> q = numbers(fan_out * row, fan_out);
    const auto of = [&](const std::vector<float>& all, std::size_t kv, std::size_t head) {
      return std::span(all).subspan((kv * fan_out + head) * dim, dim);
    };
    const std::vector<float> together = step(ring, q);
    std::vector<float> group(fan_out * dim), alone(dim);
    for (std::size_t head = 0; head < fan_out; ++head) {
      std::vector<float> pair(of(q, 0, head).begin(), of(q, 0, head).end());
      pair.insert(pair.end(), of(q, 1, head).begin(), of(q, 1, head).end());
      const std::vector<float> one = step(ring, pair);
      for (std::size_t kv = 0; kv < 2; ++kv)
        BOOST_TEST(certify::bits(of(together, kv, head)) == certify::bits(std::span(one).subspan(kv * dim, dim)),
                   "ring, fan-out " << fan_out << ", KV head " << kv << ", query head " << head);
    }
    for (std::size_t kv = 0; kv < 2; ++kv) {
      Query query{.q_group = std::span(q).subspan(kv * fan_out * dim, fan_out * dim), .kv_head = kv, .scale = 0.5F};
      must(rows.attend_group(query, group, {}), "attend_group");
      for (std::size_t head = 0; head < fan_out; ++head) {
        query.q_group = of(q, kv, head);
        must(rows.attend_group(query, alone, {}), "attend_group");
        BOOST_TEST(certify::bits(std::span(group).subspan(head * dim, dim)) == certify::bits(alone),
                   "rows, fan-out " << fan_out << ", KV head " << kv << ", query head " << head);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
