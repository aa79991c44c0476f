// Law 14 for int8 rows and for the bounded anchor, and the two bounds themselves: against the bound of f32 attention where the
// same numbers can be said in both ways, and that they bite.
#include "certify/bound_rows.hpp"

#include <cmath>

#include "certify/laws/accuracy.hpp"
#include "certify/random.hpp"
#include "tests/property.hpp"

using namespace kvcert;
using certify::HeadBound;

namespace {

void expect_equal(const HeadBound& rows, const HeadBound& f32, double slack, const char* what) {
  BOOST_TEST_REQUIRE(rows.not_covered == f32.not_covered);
  for (std::size_t d = 0; d < rows.bound.size(); ++d) {
    BOOST_TEST_REQUIRE(std::fabs(rows.bound[d] - f32.bound[d]) <= slack * f32.bound[d], what << ": " << rows.bound[d] << " and " << f32.bound[d]);
    BOOST_TEST_REQUIRE(std::fabs(rows.exact[d] - f32.exact[d]) <= 1e-14 * std::fabs(f32.exact[d]), what << ": " << rows.exact[d]);
    BOOST_TEST_REQUIRE(std::fabs(rows.unit[d] - f32.unit[d]) <= 1e-9 * f32.unit[d], what);
  }
}

std::vector<float> draw(certify::Random& random, std::size_t n) {
  std::vector<float> numbers(n);
  for (float& x : numbers) x = random.normal();
  return numbers;
}

template <class Engine, class Law>
void accuracy_law(const Engine& engine, std::size_t cases, certify::Sizes sizes, const Law& law) {
  if (!tests::has(engine)) {
    std::cout << "NOT RUN: law 14 on " << engine.name() << ", which this machine lacks\n";
    return;
  }
  certify::Tally tally;
  tests::check_law(cases, certify::Domain::finite, sizes, [&](const certify::TestCase& test) { return law(engine, test, tally); });
  const std::uint64_t heads = tally.judged() + tally.heads[certify::Judgement::not_judged];
  std::cout << "    " << engine.name() << ": worst error " << tally.worst_over_bound << " of the bound over " << tally.numbers << " numbers; "
            << heads - tally.judged() << " of " << heads << " heads not judged\n";
  BOOST_TEST(tally.numbers > 0U);
  BOOST_TEST(tally.worst_over_bound < 1.0);
  BOOST_TEST(tally.worst_over_bound > 0.01);  // a bound that no error approaches would be no measure
  BOOST_TEST(tally.judged() * 2 > heads);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bound_rows)

BOOST_AUTO_TEST_CASE_TEMPLATE(law_14_int8_accuracy, Engine, tests::Engines) {
  accuracy_law(Engine{}, 60, {20, 4'000}, [](const auto& engine, const certify::TestCase& test, certify::Tally& tally) {
    return certify::laws::int8_accuracy(engine, test, tally);
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(law_14_bounded_accuracy, Engine, tests::Engines) {
  accuracy_law(Engine{}, 60, {4, 1'000}, [](const auto& engine, const certify::TestCase& test, certify::Tally& tally) {
    return certify::laws::bounded_accuracy(engine, test, tally);
  });
}

// int8 rows whose scales and columns are powers of two are f32 rows: the bound is that of f32 attention with the roundings
// that int8 adds. The one term it has besides is the last product's underflow.
BOOST_AUTO_TEST_CASE(int8_is_f32_with_more_roundings) {
  certify::Random random(30);
  std::size_t compared = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t dim = random.pick<std::size_t>({1, 3, 16, 17, 32, 33, 65}), n = random.between(1, 20);
    const std::size_t groups = (dim + 31) / 32;
    std::vector<std::int8_t> k8(n * dim), v8(n * dim);
    for (auto* tensor : {&k8, &v8}) {
      for (auto& x : *tensor) x = static_cast<std::int8_t>(static_cast<int>(random.below(255)) - 127);
    }
    const auto power = [&](int low, int high) { return std::ldexp(1.0F, low + static_cast<int>(random.below(static_cast<std::size_t>(high - low + 1)))); };
    std::vector<float> k_scales(n * groups), v_scales(n), k_columns(dim), v_columns(dim), k(n * dim), v(n * dim), q = draw(random, dim);
    for (auto* tensor : {&k_scales, &v_scales}) {
      for (float& x : *tensor) x = power(-9, -5);
    }
    for (auto* tensor : {&k_columns, &v_columns}) {
      for (float& x : *tensor) x = power(-2, 2);
    }
    std::vector<float> turned = q;
    for (std::size_t d = 0; d < dim; ++d) turned[d] *= k_columns[d];
    for (std::size_t at = 0; at < n * dim; ++at) {
      k[at] = k_scales[at / dim * groups + at % dim / 32] * static_cast<float>(k8[at]);
      v[at] = v_scales[at / dim] * static_cast<float>(v8[at]);
    }
    const bool int8_keys = trial % 3 != 1, int8_values = trial % 3 != 2;
    certify::Int8Input in{.q = q, .keys = {}, .values = {}, .scale = random.pick({0.25F, 1.0F, -0.3F}), .softcap = random.pick({0.0F, 5.0F}), .sink = std::nullopt};
    if (random.chance(1, 2)) in.sink = random.normal();
    if (int8_keys) in.keys.int8 = Q8Rows{k8, k_scales, k_columns}; else in.keys.f32 = k;
    if (int8_values) in.values.int8 = Q8Rows{v8, v_scales, v_columns}; else in.values.f32 = v;
    auto parameters = certify::canonical_parameters(dim, n);
    if (int8_keys) parameters.h_q = 1 + (std::min<std::size_t>(dim, 32) + 15) / 16 + 4 + groups;
    if (int8_values) parameters.h_v += 2;
    auto expected = certify::evaluate_bound({.q = int8_keys ? turned : q, .keys = k, .values = v, .scale = in.scale, .softcap = in.softcap, .sink = in.sink}, parameters);
    if (!expected.not_covered.empty()) continue;
    for (std::size_t d = 0; d < dim && int8_values; ++d) {
      for (auto* numbers : {&expected.bound, &expected.exact, &expected.unit}) (*numbers)[d] *= double{v_columns[d]};
    }
    expect_equal(certify::evaluate_int8_bound(in), expected, 1e-6, "int8");
    ++compared;
  }
  BOOST_TEST(compared > 150U);
}

// A ring whose table turns nothing is plain attention with two more roundings in a window key's dot, and sinks without them.
BOOST_AUTO_TEST_CASE(bounded_without_a_turn_is_f32_with_two_more_roundings) {
  certify::Random random(31);
  for (int trial = 0; trial < 100; ++trial) {
    const std::size_t dim = random.between(2, 40), n = random.between(1, 20), half = random.between(1, dim / 2);
    const auto q = draw(random, dim), k = draw(random, n * dim), v = draw(random, n * dim);
    const std::vector<float> cos(n * half, 1.0F), sin(n * half, 0.0F);
    certify::BoundedInput in{.q = q, .sink_keys = {}, .sink_values = {}, .keys = {}, .values = {}, .cos = cos, .sin = sin, .half = half, .scale = 0.5F};
    for (std::size_t p = 0; p < n; ++p) in.keys.push_back(std::span(k).subspan(p * dim, dim)), in.values.push_back(std::span(v).subspan(p * dim, dim));
    auto parameters = certify::canonical_parameters(dim, n);
    const certify::HeadInput plain{.q = q, .keys = k, .values = v, .scale = 0.5F, .softcap = 0, .sink = std::nullopt};
    certify::BoundedInput all_sinks = in;
    all_sinks.sink_keys = k, all_sinks.sink_values = v, all_sinks.keys.clear(), all_sinks.values.clear();
    expect_equal(certify::evaluate_bounded_bound(all_sinks), certify::evaluate_bound(plain, parameters), 1e-9, "sinks");
    parameters.h_q += 2;
    expect_equal(certify::evaluate_bounded_bound(in), certify::evaluate_bound(plain, parameters), 1e-9, "window");
  }
}

// Turned by an angle at which a component cancels: the bound counts what was cancelled, so it must exceed that of the turned
// query said as f32.
BOOST_AUTO_TEST_CASE(bounded_counts_what_a_turn_cancels) {
  const std::vector<float> q{1.0F, 1.0F}, k{1.0F, 0.0F}, other{-1.0F, 0.5F}, one{1.0F, 1.0F}, zero{0.0F, 0.0F}, cos{0.75F, 0.75F}, sin{0.6875F, 0.6875F};
  certify::BoundedInput in{.q = q, .sink_keys = {}, .sink_values = {}, .keys = {k, other}, .values = {one, zero}, .cos = cos, .sin = sin, .half = 1, .scale = 1.0F};
  const auto bound = certify::evaluate_bounded_bound(in);
  const std::vector<float> turned{0.0625F, 1.4375F};
  std::vector<float> keys = k, values = one;
  keys.insert(keys.end(), other.begin(), other.end());
  values.insert(values.end(), zero.begin(), zero.end());
  auto parameters = certify::canonical_parameters(2, 2);
  parameters.h_q += 2;
  const auto plain = certify::evaluate_bound({.q = turned, .keys = keys, .values = values, .scale = 1.0F, .softcap = 0, .sink = std::nullopt}, parameters);
  BOOST_TEST(std::fabs(bound.exact[0] - plain.exact[0]) < 1e-15);
  BOOST_TEST(bound.bound[0] > plain.bound[0] * 1.5);
}

BOOST_AUTO_TEST_CASE(they_bite) {
  certify::Random random(32);
  const std::size_t dim = 8, n = 5;
  const auto q = draw(random, dim);
  std::vector<std::int8_t> k8(n * dim, 3), v8(n * dim, 100);
  for (auto& x : k8) x = static_cast<std::int8_t>(static_cast<int>(random.below(255)) - 127);
  const std::vector<float> scales(n, 0.01F), columns(dim, 0.7F);
  const certify::Int8Input int8{.q = q, .keys = {{}, Q8Rows{k8, scales, columns}}, .values = {{}, Q8Rows{v8, scales, columns}}, .scale = 0.35F, .softcap = 0, .sink = 1.0F};
  const auto moved = [&](const HeadBound& bound, double by) {
    std::vector<float> out;
    for (std::size_t d = 0; d < dim; ++d) out.push_back(static_cast<float>(bound.exact[d] + by * bound.bound[d]));
    return out;
  };
  const auto verdict = [](const HeadBound& bound, std::span<const float> out) {
    certify::Tally tally;
    return certify::laws::outside(bound, out, "moved", tally).has_value();
  };
  const auto first = certify::evaluate_int8_bound(int8);
  BOOST_TEST_REQUIRE(first.not_covered == "");
  for (double by : {0.0, 0.8, -0.8, 1.2, -1.2, 2.0}) {
    const auto out = moved(first, by);
    BOOST_TEST(verdict(certify::evaluate_int8_bound(int8, out), out) == (std::fabs(by) > 1), by << " of the int8 bound");
  }
  const auto k = draw(random, n * dim), v = draw(random, n * dim);
  const std::vector<float> cos(n, 0.8F), sin(n, 0.6F);
  certify::BoundedInput ring{.q = q, .sink_keys = k, .sink_values = v, .keys = {}, .values = {}, .cos = cos, .sin = sin, .half = 1, .scale = 0.35F};
  ring.keys.push_back(std::span(k).first(dim)), ring.values.push_back(std::span(v).last(dim));
  const auto second = certify::evaluate_bounded_bound(ring);
  BOOST_TEST_REQUIRE(second.not_covered == "");
  for (double by : {0.0, 0.8, -0.8, 1.2, -1.2, 2.0}) {
    const auto out = moved(second, by);
    BOOST_TEST(verdict(certify::evaluate_bounded_bound(ring, out), out) == (std::fabs(by) > 1), by << " of the ring's bound");
  }
}

// What the derivation has no terms for is counted as not judged, with the reason, and no pass.
BOOST_AUTO_TEST_CASE(subnormal_intermediates_are_not_judged) {
  std::vector<std::int8_t> k8{127, -127}, v8{127, 127};
  std::vector<float> q{1.0F}, scales{0.01F, 0.01F}, columns{1.0F};
  const auto why = [&] {
    const certify::Int8Input in{.q = q, .keys = {{}, Q8Rows{k8, scales, columns}}, .values = {{}, Q8Rows{v8, scales, columns}}, .scale = 1.0F, .softcap = 0, .sink = std::nullopt};
    return certify::evaluate_int8_bound(in).not_covered;
  };
  BOOST_TEST(why() == "");
  q = {0x1p-130F};
  BOOST_TEST(why() == "a query times its column may be subnormal");
  q = {0x1p-110F};
  BOOST_TEST(why() == "a group's score may be subnormal");
  q = {40.0F};
  BOOST_TEST(why() == "a weight may be subnormal");  // the second row's: e^-101.6
  q = {INFINITY};
  BOOST_TEST(why() == "an input is not finite");
  certify::Tally tally;
  HeadBound none;
  none.not_covered = "a reason";
  BOOST_TEST(!certify::laws::outside(none, {}, "", tally).has_value());
  BOOST_TEST(tally.heads[certify::Judgement::not_judged] == 1U);
  BOOST_TEST(tally.judged() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
