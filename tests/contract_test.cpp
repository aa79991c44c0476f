// The corners of the contract that no law over random cases reaches: sizes that cannot be, inputs that are the layer's own
// memory, lengths that no record can carry, copies.
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <thread>

#include "certify/environment.hpp"
#include "certify/laws/exactness.hpp"
#include "certify/laws/law.hpp"
#include "certify/random.hpp"
#include "reference/evaluate.hpp"
#include "tests/property.hpp"

using namespace kvcert;

namespace {

constexpr std::size_t huge = std::size_t{1} << 62U;

template <class T>
std::string code_of(const Result<T>& result) {
  return result ? "accepted" : std::string(name(result.error().code));
}

/// A test on every engine of this machine; what a machine lacks is announced.
#define ON_EVERY_ENGINE(test_name)                                                                            \
  template <class Engine>                                                                                     \
  void test_name##_on([[maybe_unused]] const Engine& engine);                                                                  \
  BOOST_AUTO_TEST_CASE_TEMPLATE(test_name, Engine, tests::Engines) {                                          \
    if (tests::has(Engine{})) return test_name##_on(Engine{});                                                \
    std::cout << "NOT RUN: " #test_name " on " << Engine{}.name() << ", which this machine lacks\n";          \
  }                                                                                                           \
  template <class Engine>                                                                                     \
  void test_name##_on([[maybe_unused]] const Engine& engine)

std::vector<float> numbers(std::size_t n, float first = 1.0F) {
  std::vector<float> result(n);
  std::iota(result.begin(), result.end(), first);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(contract)

ON_EVERY_ENGINE(impossible_geometries) {
  BOOST_TEST(code_of(engine.make({0, 4})) == "invalid_argument");
  BOOST_TEST(code_of(engine.make({4, 0})) == "invalid_argument");
  BOOST_TEST(code_of(engine.make({huge, 2})) == "invalid_argument");
  BOOST_TEST(code_of(engine.make({~std::size_t{0}, ~std::size_t{0}})) == "invalid_argument");
  BOOST_TEST(code_of(engine.make({huge, 1})) == "out_of_memory");
  // One head of 2^62 dimensions holds nothing yet, so it may exist; a row for it cannot.
  if (auto wide = engine.make({1, huge})) {
    BOOST_TEST(code_of(wide->append(numbers(4), numbers(4), {})) == "shape_mismatch");
    BOOST_TEST(code_of(wide->append_chunk({}, {}, 4, {})) == "invalid_argument");
    BOOST_TEST(code_of(wide->attend(numbers(3), 0)) == "shape_mismatch");
  }
}

ON_EVERY_ENGINE(a_new_layer) {
  auto layer = certify::must(engine.make({3, 5}), "create");
  BOOST_TEST(layer.seq_len() == 0U);
  BOOST_TEST(layer.wire_layer() == 0U);
  BOOST_TEST(layer.wire_identity() == 0U);
  BOOST_TEST(layer.linear_wire_allowed());
  BOOST_TEST(layer.sinks().empty());
  BOOST_TEST(!layer.alive().has_value());
  BOOST_TEST(layer.memory_bytes() == 0U);
  BOOST_TEST((layer.mode() == KvMode::f32));
  BOOST_TEST((layer.wire_kind() == WireKind::full));
}

ON_EVERY_ENGINE(memory_of_one_position) {
  auto layer = certify::must(engine.make({4, 8}), "create");
  certify::must(layer.append(numbers(32), numbers(32), {}), "append");
  BOOST_TEST(layer.memory_bytes() == 256U);
  const std::array<std::uint8_t, 4> half{1, 0, 1, 0};
  auto other = certify::must(engine.make({4, 8}), "create");
  certify::must(other.append(numbers(32), numbers(32), half), "append");
  BOOST_TEST(other.memory_bytes() == 128U);
  BOOST_TEST(other.head_len(1).value() == 0U);
  BOOST_TEST(other.head_keys(2)->front() == 17.0F);
}

// Inputs may be the layer's own rows, while its storage grows under them.
ON_EVERY_ENGINE(inputs_that_are_views_of_the_layer) {
  auto layer = certify::must(engine.make({1, 3}), "create");
  std::vector<float> expected = numbers(3);
  certify::must(layer.append(expected, expected, {}), "append");
  for (int i = 0; i < 200; ++i) {
    certify::must(layer.append(layer.head_keys(0)->last(3), layer.head_values(0)->first(3), {}), "append of its own rows");
    expected.insert(expected.end(), {1.0F, 2.0F, 3.0F});
  }
  for (int i = 0; i < 3; ++i) {
    const std::size_t n = layer.seq_len();
    certify::must(layer.append_chunk(*layer.head_values(0), *layer.head_keys(0), n, {}), "append_chunk of all its rows");
    expected.insert(expected.end(), expected.begin(), expected.end());
  }
  BOOST_TEST(!certify::first_difference(*layer.head_keys(0), expected).has_value());
  BOOST_TEST(!certify::first_difference(*layer.head_values(0), expected).has_value());

  certify::must(layer.accumulate_imp(numbers(layer.seq_len())), "accumulate_imp");
  certify::must(layer.accumulate_imp(layer.importance()), "accumulate_imp of itself");
  BOOST_TEST(layer.importance()[4] == 10.0F);
  certify::must(layer.set_sinks(numbers(6)), "set_sinks");
  certify::must(layer.set_sinks(layer.sinks().subspan(2)), "set_sinks of its own sinks");
  BOOST_TEST(!certify::first_difference(layer.sinks(), numbers(4, 3.0F)).has_value());

  const Query query{.q_group = layer.head_keys(0)->first(6), .kv_head = 0, .scale = 0.1F, .sinks = layer.sinks().first(2)};
  const std::vector<float> q = numbers(3);
  std::vector<float> twice(q);
  twice.insert(twice.end(), q.begin(), q.end());
  const auto sinks = numbers(2, 3.0F);
  const Query copy{.q_group = twice, .kv_head = 0, .scale = 0.1F, .sinks = sinks};
  BOOST_TEST(!certify::difference(certify::ask(layer, query, 99, {}), certify::ask(layer, copy, 99, {})).has_value());
}

ON_EVERY_ENGINE(an_import_from_the_layers_own_memory) {
  // A record laid into importance: the bytes that import reads are memory that import replaces.
  auto small = certify::must(engine.make({1, 1}), "create");
  certify::must(small.append(numbers(1), numbers(1), {}), "append");
  const auto record = certify::must(small.export_wire(WireFormat::f32), "export");
  std::vector<float> carrier(record.size() / 4);
  std::memcpy(carrier.data(), record.data(), record.size());
  auto layer = certify::must(engine.make({1, 1}), "create");
  for (std::size_t i = 0; i < carrier.size(); ++i) certify::must(layer.append(numbers(1), numbers(1), {}), "append");
  // +0 plus x is x, but for −0 and NaN, which this record does not hold.
  certify::must(layer.accumulate_imp(carrier), "accumulate_imp");
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(layer.importance().data());
  certify::must(layer.import_wire({bytes, record.size()}), "import from its own importance");
  BOOST_TEST(certify::must(layer.export_wire(WireFormat::f32), "export") == record, boost::test_tools::per_element());
}

ON_EVERY_ENGINE(copies_are_independent) {
  auto layer = certify::must(engine.make({2, 3}), "create");
  certify::must(layer.append(numbers(6), numbers(6), {}), "append");
  certify::must(layer.set_sinks(numbers(2)), "set_sinks");
  auto copy = layer;
  const auto before = certify::observe(layer);
  certify::must(copy.append(numbers(6, 9), numbers(6, 9), {}), "append");
  certify::must(copy.accumulate_imp(numbers(2)), "accumulate_imp");
  copy.clear_sinks();
  copy.set_wire_layer(8);
  BOOST_TEST(!certify::difference(certify::observe(layer), before).has_value());
  copy = layer;
  BOOST_TEST(!certify::difference(certify::observe(copy), before).has_value());
  auto& self = copy;
  copy = self;
  BOOST_TEST(!certify::difference(certify::observe(copy), before).has_value());
  const auto moved = std::move(copy);
  BOOST_TEST(!certify::difference(certify::observe(moved), before).has_value());
}

ON_EVERY_ENGINE(calls_with_nothing_to_do) {
  auto layer = certify::must(engine.make({2, 3}), "create");
  certify::must(layer.append_chunk({}, {}, 0, {}), "append_chunk of nothing");
  BOOST_TEST(!layer.alive().has_value());
  certify::must(layer.accumulate_imp({}), "accumulate_imp of nothing");
  certify::must(layer.truncate_last(5), "truncate_last of nothing");
  std::vector<float> acc = numbers(3);
  certify::must(layer.attend_group(Query{.kv_head = 1}, {}, acc), "a query without heads");
  BOOST_TEST(code_of(layer.attend_group(Query{.kv_head = 2}, {}, acc)) == "head_out_of_range");
  BOOST_TEST(code_of(layer.attend_group(Query{.scale = NAN}, {}, acc)) == "invalid_argument");
  BOOST_TEST(!certify::first_difference(acc, numbers(3)).has_value());
  const auto attended = certify::must(layer.attend(numbers(3), 0), "attend on an empty layer");
  BOOST_TEST(!certify::first_difference(attended.output, std::vector<float>(3, 0.0F)).has_value());
  BOOST_TEST(attended.probabilities.empty());
}

ON_EVERY_ENGINE(sizes_of_records) {
  using Cache = typename Engine::Cache;
  const auto size = [](Geometry g, std::uint64_t t, std::size_t live, std::uint64_t linear, WireFormat f) {
    return Cache::wire_bytes(g, t, live, linear, f);
  };
  BOOST_TEST(size({1, 1}, 0, 0, 0, WireFormat::f32).value() == 64U);
  BOOST_TEST(size({3, 5}, 4, 2, 7, WireFormat::f32).value() == 56U + 4 * (7 + 4) + 3 * 8 + 2 * 2 * 4 * 4 * 5);
  BOOST_TEST(size({3, 5}, 4, 2, 7, WireFormat::f16).value() == 56U + 4 * (7 + 4) + 3 * 8 + 2 * 2 * 2 * 4 * 5);
  constexpr std::uint64_t top = 0xFFFFFFFF;
  const auto refused = [&](Geometry g, std::uint64_t t, std::size_t live, std::uint64_t linear, std::uint64_t found) {
    const auto result = size(g, t, live, linear, WireFormat::f32);
    BOOST_TEST(code_of(result) == "length_overflow");
    if (!result) BOOST_TEST((result.error().expected == top && result.error().found == found), result.error().message);
  };
  refused({1, 1}, top + 1, 0, 0, top + 1);
  refused({top + 1, 1}, 1, 0, 0, top + 1);
  refused({1, top + 1}, 1, 0, 0, top + 1);
  refused({1, 1}, 1, 0, top + 1, top + 1);
  refused({1, 65536}, 65536, 1, 0, std::uint64_t{65536} * 65536);
  refused({top + 2, top + 3}, top + 4, 1, top + 5, top + 4);  // the first field in record order is seq_len
  BOOST_TEST(size({1, 65536}, 65536, 0, 0, WireFormat::f32).value() == 56U + 4 * 65536 + 8);  // all heads dead: lengths are 0
  BOOST_TEST(size({1, top}, 1, 1, 0, WireFormat::f32).value() == 56U + 4 + 8 + 8 * top);
  BOOST_TEST(size({top, top}, top, 0, top, WireFormat::f16).value() == 56 + 8 * top + 8 * top);
}

ON_EVERY_ENGINE(sizes_at_the_edge) {
  using Cache = typename Engine::Cache;
  // More live heads than heads count as all heads.
  BOOST_TEST(Cache::wire_bytes({1, 2}, 9, 3, 0, WireFormat::f32).value() == Cache::wire_bytes({1, 2}, 9, 1, 0, WireFormat::f32).value());
  // Every field fits, and the whole does not fit 2^63 − 1.
  constexpr std::size_t top = 0xFFFFFFFF;
  BOOST_TEST(code_of(Cache::wire_bytes({top, 1}, top, top, 0, WireFormat::f32)) == "invalid_argument");
}

// Beside is not over: outputs may touch inputs and each other end to end.
ON_EVERY_ENGINE(adjacent_memory_does_not_overlap) {
  auto layer = certify::must(engine.make({1, 3}), "create");
  certify::must(layer.append(numbers(3), numbers(3), {}), "append");
  std::vector<float> memory(3 + 3 + 1 + 1, 0.5F);
  const std::span<float> all(memory);
  const Query query{.q_group = all.subspan(3, 3), .kv_head = 0, .scale = 1.0F, .sinks = all.subspan(7, 1)};
  BOOST_TEST(code_of(layer.attend_group(query, all.first(3), all.subspan(6, 1))) == "accepted");
  const Query before{.q_group = all.first(3), .kv_head = 0, .scale = 1.0F, .sinks = all.subspan(6, 1)};
  BOOST_TEST(code_of(layer.attend_group(before, all.subspan(3, 3), all.subspan(7, 1))) == "accepted");
}

// Runs of heads longer than any generator's, with a sink of its own for each.
ON_EVERY_ENGINE(many_query_heads) {
  certify::TestCase test = certify::generate(5, certify::Domain::finite, {40, 4'000});
  test.alive.assign(test.alive.size(), 1);
  test.upto = test.positions;
  certify::Random random(17);
  test.q.clear();
  test.sinks.clear();
  for (std::size_t i = 0; i < 150 * test.geometry.head_dim; ++i) test.q.push_back(random.normal());
  for (std::size_t head = 0; head < 150; ++head) test.sinks.push_back(random.normal() * 3);
  const auto outcome = certify::laws::canonical_bits(engine, test);
  BOOST_TEST((outcome.verdict == certify::Verdict::holds), outcome.sentence);
}

// A fused multiply-add whose exact value lies between a midpoint of the subnormals and a double that looks like it.
ON_EVERY_ENGINE(fma_near_the_smallest_subnormal) {
  certify::TestCase test;
  test.geometry = {1, 17};
  test.alive = {1};
  test.positions = test.upto = 1;
  test.q.assign(17, 0.0F);
  test.k.assign(17, 0.0F);
  test.v.assign(17, 1.0F);
  test.q[0] = 1.0F;  // lane 0 becomes c, then fma(a, b, c)
  test.k[0] = std::bit_cast<float>(0x007ffffdU);
  test.q[16] = 0x1.000002p-75F;
  test.k[16] = 0x1.fffffcp-76F;
  test.scale = 0x1p126F;  // so that the score shows the last bit
  test.sinks = {1.0F};
  const auto outcome = certify::laws::canonical_bits(engine, test);
  BOOST_TEST((outcome.verdict == certify::Verdict::holds), outcome.sentence);
}

// The caller's DAZ must not take a subnormal cap for no cap, in the reference either.
ON_EVERY_ENGINE(a_subnormal_cap_under_the_callers_modes) {
  for (float cap : {0x1p-149F, 0x1p-127F}) {
    certify::TestCase test = certify::generate(9, certify::Domain::finite, {40, 4'000});
    test.softcap = cap;
    const auto outcome = certify::environment_is_neutral(engine, test);
    BOOST_TEST((outcome.verdict == certify::Verdict::holds), outcome.sentence);
  }
}

ON_EVERY_ENGINE(the_default_scale) {
  using Cache = typename Engine::Cache;
  for (std::size_t dim = 1; dim <= 4096; ++dim) {
    // Hardware division and root are correctly rounded, and these run in the default environment.
    BOOST_TEST_REQUIRE(certify::bits(Cache::default_scale(dim)) == certify::bits(1.0F / std::sqrt(static_cast<float>(dim))));
  }
  BOOST_TEST(std::isinf(Cache::default_scale(0)));
  certify::Random random(5);
  for (int i = 0; i < 2000; ++i) {
    const auto dim = random.bits() >> random.below(64);
    BOOST_TEST_REQUIRE(certify::bits(Cache::default_scale(dim)) == certify::bits(reference::canonical_default_scale(dim)));
  }
}

ON_EVERY_ENGINE(const_calls_on_several_threads) {
  const auto test = certify::generate(11, certify::Domain::finite, {300, 40'000});
  const auto layer = certify::filled_layer(engine, test);
  const auto expected = certify::ask(layer, test);
  std::array<int, 4> wrong{};
  std::vector<std::thread> threads;
  for (int& mine : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) mine += certify::difference(certify::ask(layer, test), expected).has_value() ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  BOOST_TEST(std::accumulate(wrong.begin(), wrong.end(), 0) == 0);
}

// The first of the f16 values that do not fit, in record order: by tensor, head and element.
ON_EVERY_ENGINE(f16_overflow_names_the_place) {
  auto layer = certify::must(engine.make({2, 2}), "create");
  std::vector<float> k = numbers(4);
  std::vector<float> v = numbers(4);
  v[1] = 65519.996F;  // rounds to 65504
  certify::must(layer.append(k, v, {}), "append");
  BOOST_TEST(layer.export_wire(WireFormat::f16).has_value());
  v[0] = INFINITY;  // travels as infinity
  v[1] = -65520.0F;
  k[2] = 1.0e30F;
  certify::must(layer.append(k, v, {}), "append");
  const auto result = layer.export_wire(WireFormat::f16);
  BOOST_REQUIRE(!result.has_value());
  const Error& error = result.error();
  BOOST_TEST((error.code == ErrorCode::f16_overflow));
  BOOST_TEST((error.tensor == Tensor::values));  // head 0's values come before head 1's keys
  BOOST_TEST(error.head == 0U);
  BOOST_TEST(error.element == 3U);
  BOOST_TEST(error.expected == certify::bits(65504.0F));
  BOOST_TEST(error.found == certify::bits(-65520.0F));
  BOOST_TEST(layer.export_wire(WireFormat::f32).has_value());
}

// KVCERT_ISA: a name that this machine cannot run is an error, not another kernel.
BOOST_AUTO_TEST_CASE(the_environment_chooses_kernels) {
  const char* saved = std::getenv("KVCERT_ISA");
  const std::string before = saved == nullptr ? "" : saved;
  for (auto isa : optimized::available_isas()) {
    setenv("KVCERT_ISA", std::string(optimized::name(isa)).c_str(), 1);
    BOOST_TEST((optimized::LayerKvCache::create({1, 1})->isa() == isa));
  }
  for (const char* bad : {"avx9", "AVX2", "", "scalar "}) {
    setenv("KVCERT_ISA", bad, 1);
    BOOST_TEST(code_of(optimized::LayerKvCache::create({1, 1})) == "invalid_argument", bad);
    BOOST_TEST(code_of(optimized::LayerKvCache::create({1, 1}, optimized::Isa::scalar)) == "accepted");
  }
  saved == nullptr ? unsetenv("KVCERT_ISA") : setenv("KVCERT_ISA", before.c_str(), 1);
}

// CMF_KV: the storage that a caller may ask the environment for; a layer never does.
ON_EVERY_ENGINE(the_environment_names_a_storage) {
  const char* saved = std::getenv("CMF_KV");
  const std::string before = saved == nullptr ? "" : saved;
  const std::vector<std::pair<const char*, KvMode>> named{
      {"q8", KvMode::q8},   {"q8_2f", KvMode::q8}, {"q8k", KvMode::q8_keys}, {"q8v", KvMode::q8_values}, {"f32", KvMode::f32},
      {"", KvMode::f32},    {"Q8", KvMode::f32},   {"q8 ", KvMode::f32},     {"q8_2", KvMode::f32},      {"q8kv", KvMode::f32},
      {"q8_keys", KvMode::f32}};
  for (const auto& [text, mode] : named) {
    setenv("CMF_KV", text, 1);
    BOOST_TEST((kv_mode_from_env() == mode), "CMF_KV=" << text);
    BOOST_TEST((certify::must(engine.make({1, 2}), "create").mode() == KvMode::f32), "a layer reads CMF_KV=" << text);
    BOOST_TEST((certify::must(Engine::Cache::create({1, 2}, kv_mode_from_env()), "create").mode() == mode));
  }
  unsetenv("CMF_KV");
  BOOST_TEST((kv_mode_from_env() == KvMode::f32));
  if (saved != nullptr) setenv("CMF_KV", before.c_str(), 1);
}

BOOST_AUTO_TEST_SUITE_END()
