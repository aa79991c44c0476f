// Many layers as one cache.
#include "kvcert/kv_cache.hpp"

#include "certify/laws/law.hpp"
#include "tests/property.hpp"

using namespace kvcert;

BOOST_AUTO_TEST_SUITE(kv_cache)

using Caches = std::tuple<KvCache<reference::LayerKvCache>, KvCache<optimized::LayerKvCache>>;

BOOST_AUTO_TEST_CASE_TEMPLATE(layers_as_one, Cache, Caches) {
  using certify::must;
  auto cache = must(Cache::create(3, 2, 4, 6), "create");
  BOOST_TEST(cache.num_layers() == 3U);
  BOOST_TEST((cache.layer(3) == nullptr));
  BOOST_TEST(cache.layer(2)->wire_layer() == 2U);
  BOOST_TEST(cache.seq_len() == 0U);
  BOOST_TEST(!cache.needs_eviction());
  const std::vector<float> row(8, 0.5F);
  for (int i = 0; i < 6; ++i) must(cache.layer(0)->append(row, row, {}), "append");
  must(cache.layer(1)->set_wire_kind(WireKind::linear), "set_wire_kind");
  must(cache.layer(1)->linear_commit(std::vector<float>(5), 9), "linear_commit");
  must(cache.layer(1)->linear_set_scratch(std::vector<float>(7)), "linear_set_scratch");
  must(cache.layer(2)->install_bounded(3), "install_bounded");
  BOOST_TEST(cache.seq_len() == 9U);
  BOOST_TEST(cache.needs_eviction());
  BOOST_TEST(cache.recurrent_state_bytes() == 4U * (5 + 7));
  BOOST_TEST(cache.attention_state_bytes() == 4U * (2 * 6 * 8) + 4U * (2 * 2 * 3 * 4) + 8);
  BOOST_TEST(cache.total_memory_bytes() == cache.attention_state_bytes() + 4U * 5);

  const auto copy = cache;
  BOOST_TEST(must(cache.evict(4, EvictionPolicy::recent), "evict") == 2U);
  BOOST_TEST(cache.layer(0)->seq_len() == 4U);
  BOOST_TEST(cache.layer(1)->seq_len() == 9U);
  BOOST_TEST(copy.layer(0)->seq_len() == 6U);
  BOOST_TEST(!cache.needs_eviction());
  BOOST_TEST(must(cache.evict(1, EvictionPolicy::by_mass), "evict") == 3U);
}

// In all layers or in none: one aborted layer, and nothing goes anywhere.
BOOST_AUTO_TEST_CASE_TEMPLATE(eviction_is_all_or_nothing, Cache, Caches) {
  using certify::must;
  auto cache = must(Cache::create(2, 1, 2, 6), "create");
  const std::vector<float> row(2, 0.5F);
  for (int i = 0; i < 14; ++i) must(cache.layer(0)->append(row, row, {}), "append");
  must(cache.layer(1)->o1_begin({4, 2, 1, O1Rect::fm}), "o1_begin");
  for (int i = 0; i < 14; ++i) {
    must(cache.layer(1)->append(row, row, {}), "append");
    must(cache.layer(1)->o1_push_q(row), "o1_push_q");
  }
  BOOST_TEST(!cache.layer(1)->o1_seal(2).has_value());
  BOOST_TEST((cache.layer(1)->state() == LayerState::aborted));
  const auto refused = cache.evict(3, EvictionPolicy::by_mass);
  BOOST_TEST((!refused && refused.error().code == ErrorCode::wrong_state));
  BOOST_TEST(cache.layer(0)->seq_len() == 14U);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(impossible_caches, Cache, Caches) {
  BOOST_TEST((Cache::create(std::size_t{1} << 33U, 1, 1, 1).error().code == ErrorCode::invalid_argument));
  BOOST_TEST((Cache::create(1, 0, 1, 1).error().code == ErrorCode::invalid_argument));
  BOOST_TEST(Cache::create(0, 1, 1, 1).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
