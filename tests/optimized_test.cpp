// What is particular to the optimized cache, beyond the laws that it shares with the reference: the caller's
// floating-point environment, allocation, threads, dispatch, its own memory as an argument, sizes that nothing can
// hold.
#include <boost/test/unit_test.hpp>
#include <mpfr.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "optimized/attend.hpp"
#include "optimized/binary16.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "tests/allocations.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using namespace kvcert;
using optimized::Isa;
using optimized::LayerKvCache;
#if KVCERT_COUNTS_ALLOCATIONS
using tests::allocations;
#endif

std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

std::vector<float> numbers(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& x : values) x = static_cast<float>(static_cast<int>(random() >> 8) - (1 << 23)) * 0x1p-22F;
  return values;
}

LayerKvCache layer_with(Geometry geometry, Isa isa, std::size_t rows, std::uint32_t seed = 1) {
  LayerKvCache layer = LayerKvCache::create(geometry, isa).value();
  const std::size_t n = rows * geometry.num_kv_heads * geometry.head_dim;
  BOOST_REQUIRE(layer.append_chunk(numbers(n, seed), numbers(n, seed + 1), rows).has_value());
  return layer;
}

/// A query that takes every branch: fan-out 5, window, softcap, sinks with a subnormal, tiny numbers that a flush would
/// kill.
struct Asked {
  std::vector<float> q = numbers(5 * 24, 7);
  std::vector<float> sinks{0.5F, -3.0F, 1e-40F, -std::numeric_limits<float>::infinity(), 2.0F};
  std::vector<float> out = std::vector<float>(5 * 24);
  std::vector<float> acc = std::vector<float>(100, 1e-41F);

  Query query() const {
    return {.q_group = q, .kv_head = 1, .scale = 0.3F, .first = 5, .softcap = 20.0F, .sinks = sinks};
  }
  std::vector<std::uint32_t> ask(const LayerKvCache& layer) {
    std::ranges::fill(acc, 1e-41F);
    BOOST_REQUIRE(layer.attend_group(query(), out, acc).has_value());
    std::vector<std::uint32_t> result = bits(out);
    const std::vector<std::uint32_t> more = bits(acc);
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }
};

LayerKvCache asked_layer(Isa isa) {
  LayerKvCache layer = layer_with({2, 24}, isa, 90);
  std::vector<float> tiny = numbers(2 * 24, 9);
  for (float& x : tiny) x *= 0x1p-128F;  // subnormal keys and values
  BOOST_REQUIRE(layer.append(tiny, tiny).has_value());
  return layer;
}

template <class F>
void on_every_isa(F f) {
  for (const Isa isa : optimized::available_isas())
    BOOST_TEST_CONTEXT(optimized::name(isa)) { f(isa); }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(optimized_cache)

BOOST_AUTO_TEST_CASE(every_isa_gives_the_same_bits_and_is_the_one_that_ran) {
  const auto truth = Asked().ask(asked_layer(Isa::scalar));
  on_every_isa([&](Isa isa) {
    const LayerKvCache layer = asked_layer(isa);
    BOOST_TEST((layer.isa() == isa));
    for (const Isa other : optimized::available_isas()) {
      const std::uint64_t before = kernel_calls(other);
      BOOST_TEST(Asked().ask(layer) == truth);
      BOOST_TEST((kernel_calls(other) > before) == (other == isa));
    }
  });
}

#if defined(__x86_64__)
// A library built with -ffast-math switches FTZ and DAZ on for the whole process; others change the rounding.
BOOST_AUTO_TEST_CASE(the_callers_float_environment_has_no_say_and_comes_back) {
  on_every_isa([](Isa isa) {
    LayerKvCache layer = asked_layer(isa);
    const auto truth = Asked().ask(layer);
    const std::vector<float> ones(50, 1e-41F);
    const unsigned standard = _mm_getcsr();
    for (const unsigned mode :
         {0x8040U, 0x2000U, 0x4000U, 0x6000U, 0xE040U, 0x003FU}) {  // FTZ+DAZ, down, up, zero, sticky flags
      Asked asked;
      LayerKvCache copy = layer;
      const float tiny_cap = std::bit_cast<float>(std::uint32_t{1});
      std::vector<float> out(24);
      const auto first_head = std::span<const float>(asked.q).first(24);
      _mm_setcsr(0x1F80U | mode);
      const bool answered = layer.attend_group(asked.query(), asked.out, asked.acc).has_value();
      const unsigned after = _mm_getcsr();
      const auto again = layer.attend(first_head, 0);
      const bool added = copy.accumulate_imp(ones).has_value() && copy.accumulate_imp(ones).has_value();
      // DAZ would take this soft cap for 0, which is "off".
      const bool capped = layer.attend_group({.q_group = first_head, .softcap = tiny_cap}, out, {}).has_value();
      const float scale = LayerKvCache::default_scale(3);
      const unsigned last = _mm_getcsr();
      _mm_setcsr(standard);
      BOOST_TEST((answered && again && added && capped));
      BOOST_TEST(after == (0x1F80U | mode));
      BOOST_TEST(last == (0x1F80U | mode));
      BOOST_TEST(bits(std::span(&scale, 1))[0] == 0x3F13CD3AU);
      std::vector<std::uint32_t> found = bits(asked.out);
      const auto more = bits(asked.acc);
      found.insert(found.end(), more.begin(), more.end());
      BOOST_TEST(found == truth);
      BOOST_TEST(bits(again->output) == bits(layer.attend(first_head, 0)->output));
      BOOST_TEST(bits(copy.importance())[0] == 2 * std::bit_cast<std::uint32_t>(1e-41F));
      std::vector<float> expected(24);
      BOOST_REQUIRE(layer.attend_group({.q_group = first_head, .softcap = tiny_cap}, expected, {}).has_value());
      BOOST_TEST(bits(out) == bits(expected));
    }
  });
}
#endif

#if KVCERT_COUNTS_ALLOCATIONS
BOOST_AUTO_TEST_CASE(a_warm_attend_group_allocates_nothing) {
  on_every_isa([](Isa isa) {
    const LayerKvCache layer = asked_layer(isa);
    Asked asked;
    BOOST_REQUIRE(layer.attend_group(asked.query(), asked.out, asked.acc).has_value());
    const std::uint64_t before = allocations;
    bool answered = true;
    for (std::size_t upto = 0; upto < 100; ++upto)
      answered = answered && layer.attend_group_upto(asked.query(), upto, asked.out, asked.acc).has_value();
    BOOST_TEST(answered);
    BOOST_TEST(allocations == before);
  });
}

BOOST_AUTO_TEST_CASE(a_warm_attend_chunk_allocates_nothing) {
  on_every_isa([](Isa isa) {
    const LayerKvCache layer = asked_layer(isa);
    const Asked asked;  // its query heads, taken for as many positions of one head
    const std::size_t positions = asked.query().q_group.size() / layer.geometry().head_dim;
    Query query = asked.query();
    query.sinks = {};
    std::vector<float> out(query.q_group.size()), acc(layer.seq_len());
    const auto ask = [&](std::size_t s0, std::size_t window) {
      return layer.attend_chunk(query, positions, s0, window, out, acc).has_value();
    };
    bool answered = ask(layer.seq_len() - positions, 0);
    const std::uint64_t before = allocations;
    for (std::size_t s0 = 0; s0 + positions <= layer.seq_len(); ++s0)
      for (const std::size_t window : {std::size_t{0}, std::size_t{1}, std::size_t{7}}) answered = answered && ask(s0, window);
    BOOST_TEST(answered);
    BOOST_TEST(allocations == before);
  });
}
#endif

BOOST_AUTO_TEST_CASE(const_calls_on_several_threads) {
  on_every_isa([](Isa isa) {
    const LayerKvCache layer = asked_layer(isa);
    const auto truth = Asked().ask(layer);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) wrong += Asked().ask(layer) == truth ? 0 : 1;
      });
    for (std::thread& thread : threads) thread.join();
    BOOST_TEST(wrong == 0);
  });
}

BOOST_AUTO_TEST_CASE(the_environment_chooses_or_the_layer_is_refused) {
  const char* set = std::getenv("KVCERT_ISA");
  const std::string saved = set == nullptr ? "" : set;
  on_every_isa([](Isa isa) {
    setenv("KVCERT_ISA", std::string(name(isa)).c_str(), 1);
    BOOST_TEST((LayerKvCache::create({1, 1})->isa() == isa));
  });
  for (const char* bad : {"", "sse", "AVX2", "avx2 ", "scalar,avx2"}) {
    setenv("KVCERT_ISA", bad, 1);
    const auto layer = LayerKvCache::create({1, 1});
    BOOST_TEST((layer.error().code == ErrorCode::invalid_argument));
    BOOST_TEST(layer.error().message.find("scalar") != std::string::npos);
    BOOST_TEST(LayerKvCache::create({1, 1}, Isa::scalar).has_value());
  }
  unsetenv("KVCERT_ISA");
  BOOST_TEST((LayerKvCache::create({1, 1})->isa() == optimized::available_isas().back()));
  if (set != nullptr) setenv("KVCERT_ISA", saved.c_str(), 1);
  BOOST_TEST((LayerKvCache::create({1, 1}, static_cast<Isa>(200)).error().code == ErrorCode::invalid_argument));
}

BOOST_AUTO_TEST_CASE(inputs_may_be_views_of_the_layer_while_it_grows) {
  LayerKvCache layer = LayerKvCache::create({2, 3}, Isa::scalar).value();
  BOOST_REQUIRE(layer.append(numbers(6, 1), numbers(6, 2)).has_value());
  BOOST_REQUIRE(layer.append(numbers(6, 3), numbers(6, 4)).has_value());
  for (int i = 0; i < 6; ++i) {  // one head's T rows make T / 2 positions of both heads
    const auto keys = *layer.head_keys(0);
    const auto values = *layer.head_values(1);
    const std::vector<float> k(keys.begin(), keys.end()), v(values.begin(), values.end());
    const std::size_t before = layer.seq_len(), n = keys.size() / 6;
    BOOST_REQUIRE(layer.append_chunk(keys.first(n * 6), values.first(n * 6), n, *layer.alive()).has_value());
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t h = 0; h < 2; ++h) {
        BOOST_TEST(bits(layer.head_keys(h)->subspan((before + p) * 3, 3)) ==
                   bits(std::span(k).subspan((p * 2 + h) * 3, 3)));
        BOOST_TEST(bits(layer.head_values(h)->subspan((before + p) * 3, 3)) ==
                   bits(std::span(v).subspan((p * 2 + h) * 3, 3)));
      }
  }
  const std::vector<float> mass = numbers(layer.seq_len(), 5);
  BOOST_REQUIRE(layer.accumulate_imp(mass).has_value());
  const std::size_t positions = layer.importance().size() / 6;
  BOOST_REQUIRE(
      layer.append_chunk(layer.importance().first(positions * 6), layer.importance().first(positions * 6), positions)
          .has_value());
  BOOST_TEST(bits(layer.head_keys(0)->last(3)) == bits(std::span(mass).subspan((positions * 2 - 2) * 3, 3)));
  BOOST_REQUIRE(layer.accumulate_imp(layer.importance()).has_value());
  BOOST_TEST(layer.importance()[0] == 2 * mass[0]);
  BOOST_REQUIRE(layer.set_sinks(std::span(mass).first(4)).has_value());
  BOOST_REQUIRE(layer.set_sinks(layer.sinks().subspan(2)).has_value());
  BOOST_TEST(bits(layer.sinks()) == bits(std::span(mass).subspan(2, 2)));

  const auto before = bits(*layer.head_keys(0));
  std::vector<float> out(3);
  const auto refused = [&](std::span<const float> output, std::span<const float> acc, std::span<const float> q) {
    const auto writable = [](std::span<const float> s) {
      return std::span<float>(const_cast<float*>(s.data()), s.size());
    };
    return layer.attend_group({.q_group = q}, writable(output), writable(acc)).error().code ==
           ErrorCode::invalid_argument;
  };
  const std::vector<float> q = numbers(6, 8);
  const auto first = std::span(q).first(3);
  BOOST_TEST(refused(layer.head_keys(0)->first(3), {}, first));
  BOOST_TEST(refused(layer.head_values(1)->last(3), {}, first));
  BOOST_TEST(refused(layer.importance().first(3), {}, first));
  BOOST_TEST(refused(out, layer.importance(), first));
  BOOST_TEST(refused(out, layer.sinks(), first));
  BOOST_TEST(refused(std::span(q).subspan(2, 3), {}, first));
  BOOST_TEST(refused(out, std::span(out).last(1), first));
  std::vector<float> long_out(layer.seq_len() * 3);
  BOOST_TEST(layer.attend_group({.q_group = *layer.head_keys(1)}, long_out, {}).has_value());
  BOOST_TEST(bits(*layer.head_keys(0)) == before);
}

BOOST_AUTO_TEST_CASE(sizes_that_nothing_can_hold_are_errors) {
  const auto code = [](std::size_t heads, std::size_t head_dim) {
    const auto layer = LayerKvCache::create({heads, head_dim}, Isa::scalar);
    return layer ? std::string("made") : std::string(name(layer.error().code));
  };
  const std::size_t huge = std::size_t{1} << 62;
  BOOST_TEST(code(0, 1) == "invalid_argument");
  BOOST_TEST(code(1, 0) == "invalid_argument");
  BOOST_TEST(code(huge, 2) == "invalid_argument");
  BOOST_TEST(code(SIZE_MAX, SIZE_MAX) == "invalid_argument");
  BOOST_TEST(code(huge, 1) == "out_of_memory");
  BOOST_TEST(code(std::size_t{1} << 50, 8) == "out_of_memory");
  BOOST_TEST(code(1, huge) == "made");
  LayerKvCache layer = LayerKvCache::create({1, huge}, Isa::scalar).value();
  BOOST_TEST((layer.append_chunk({}, {}, 3).error().code == ErrorCode::invalid_argument));
  BOOST_TEST((layer.append({}, {}).error().code == ErrorCode::shape_mismatch));
  std::ostringstream text;
  text << layer;
  BOOST_TEST(text.str().find('\n') == std::string::npos);

  // A layer that was moved from is empty and usable.
  LayerKvCache full = layer_with({2, 3}, Isa::scalar, 5);
  const LayerKvCache taken = std::move(full);
  BOOST_TEST(full.seq_len() == 0U);
  BOOST_TEST(full.append(numbers(6, 1), numbers(6, 2)).has_value());
  BOOST_TEST(taken.seq_len() == 5U);
}

BOOST_AUTO_TEST_CASE(default_scale_is_rounded_twice_and_no_more) {
  mpfr_t root, scale;
  mpfr_init2(root, 24);
  mpfr_init2(scale, 24);
  std::mt19937_64 random(11);
  for (std::uint64_t i = 1; i < 200000; ++i) {
    std::uint64_t n = i < 100000 ? i : random() >> (i % 64);
    if (i % 8 == 7)
      n = (n & 0x7FFFFFFF) * (n & 0x7FFFFFFF) + i % 3 - 1;  // next to squares: ties and near ties of the root
    if (n == 0) continue;
    mpfr_t exact;
    mpfr_init2(exact, 64);
    mpfr_set_uj(exact, n, MPFR_RNDN);
    mpfr_sqrt(root, exact, MPFR_RNDN);
    mpfr_ui_div(scale, 1, root, MPFR_RNDN);
    BOOST_REQUIRE_EQUAL(LayerKvCache::default_scale(n), mpfr_get_flt(scale, MPFR_RNDN));
    mpfr_clear(exact);
  }
  mpfr_clear(root);
  mpfr_clear(scale);
  BOOST_TEST(LayerKvCache::default_scale(0) == std::numeric_limits<float>::infinity());
}

// Every binary16 there and back; every midpoint, and its neighbours, to the even side.
BOOST_AUTO_TEST_CASE(binary16_conversions) {
  for (std::uint32_t half = 0; half < 0x10000; ++half)
    BOOST_REQUIRE_EQUAL(optimized::to_binary16(optimized::from_binary16(static_cast<std::uint16_t>(half))), half);
  for (std::uint32_t half = 0; half < 0x7BFF; ++half) {
    const auto value = [](std::uint32_t h) {
      return std::bit_cast<float>(optimized::from_binary16(static_cast<std::uint16_t>(h)));
    };
    const float low = value(half), high = value(half + 1);
    const std::uint32_t middle = std::bit_cast<std::uint32_t>(low + (high - low) / 2);  // exact
    BOOST_REQUIRE_EQUAL(optimized::to_binary16(middle - 1), half);
    BOOST_REQUIRE_EQUAL(optimized::to_binary16(middle + 1), half + 1);
    BOOST_REQUIRE_EQUAL(optimized::to_binary16(middle), half % 2 == 0 ? half : half + 1);
    BOOST_REQUIRE_EQUAL(optimized::to_binary16(middle | 0x80000000), (half % 2 == 0 ? half : half + 1) | 0x8000);
  }
  BOOST_TEST(optimized::to_binary16(0x477FEFFF) == 0x7BFF);
  BOOST_TEST((!optimized::overflows_binary16(0x477FEFFF) && optimized::overflows_binary16(0xC77FF000)));
  BOOST_TEST((!optimized::overflows_binary16(0x7F800000) && !optimized::overflows_binary16(0x7F800001)));
  BOOST_TEST(optimized::to_binary16(0xFF800001) == 0xFE00);
  BOOST_TEST(optimized::to_binary16(0x7F802000) == 0x7C01);
}

BOOST_AUTO_TEST_SUITE_END()
