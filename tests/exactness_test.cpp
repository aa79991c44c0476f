// Laws 4, 13, 14 and the exact half of 16: bits against the canonical arithmetic, values against the real numbers.
#include "certify/laws/exactness.hpp"

#include <bit>

#include "certify/environment.hpp"
#include "certify/probes.hpp"
#include "tests/property.hpp"

using namespace kvcert;

namespace kvcert::certify::laws {
template <class Engine>
Outcome environment(const Engine& engine, const TestCase& test) {
  return environment_is_neutral(engine, test);
}
}  // namespace kvcert::certify::laws

BOOST_AUTO_TEST_SUITE(exactness)

// Law 13, ISA: 2,000 queries (20,000 in full) over every head_dim, fan-out 1–8, 0–600 rows, windows, sinks, softcap, and
// inputs from subnormal to overflow: reference and optimized, on every ISA = canonical, bit for bit.
BOOST_AUTO_TEST_CASE(law_13_canonical_bits) {
  const auto engines = tests::engines_present("law 13 canonical bits");
  BOOST_TEST_REQUIRE(!engines.empty());
  tests::check_law(2'000, certify::Domain::any, {600, 120'000}, [&](const certify::TestCase& test) {
    const certify::laws::CanonicalAnswers canonical(test);
    const auto asked = [&](const auto& engine) {
      auto outcome = certify::laws::canonical_bits(engine, test, canonical);
      if (outcome.verdict == certify::Verdict::violated) outcome.sentence = engine.name() + ": " + outcome.sentence;
      return outcome;
    };
    auto outcome = asked(tests::Reference{});
    for (std::size_t i = 0; i < engines.size() && outcome.verdict == certify::Verdict::holds; ++i) outcome = asked(engines[i]);
    return outcome;
  });
}

// Law 13 too: flush-to-zero, denormals-are-zero and rounding modes of the caller change no bit, and come back.
LAW(13, environment, 60, any, 100, 8'000)

// Law 4, sink = one more column of value 0.
LAW(4, sink_is_a_column, 100, finite, 80, 8'000)

// Law 14, accuracy: within the bound of the real value.
BOOST_AUTO_TEST_CASE_TEMPLATE(law_14_accuracy, Engine, tests::Engines) {
  const Engine engine;
  if (!tests::has(engine)) {
    std::cout << "NOT RUN: law 14 accuracy on " << engine.name() << ", which this machine lacks\n";
    return;
  }
  certify::Tally tally;
  tests::check_law(200, certify::Domain::finite, {80, 8'000},
                   [&](const certify::TestCase& test) { return certify::laws::accuracy(engine, test, tally); });
  BOOST_TEST_MESSAGE("worst error " << tally.worst_over_bound << " of the bound over " << tally.numbers << " numbers");
  BOOST_TEST(tally.numbers > 0U);
  BOOST_TEST(tally.worst_over_bound < 1.0);
  BOOST_TEST(tally.worst_over_bound > 0.0);  // a bound that no error ever approaches would be no measure
}

BOOST_AUTO_TEST_CASE(law_14_exact_is_rounded) {
  tests::check_law(150, certify::Domain::finite, {80, 8'000}, certify::laws::exact_is_rounded);
}

// A bound that passes everything would pass law 14: outputs moved by twice the bound must be called wrong.
BOOST_AUTO_TEST_CASE(law_14_judge_bites) {
  tests::check_law(150, certify::Domain::finite, {80, 8'000}, certify::laws::judge_bites);
}

BOOST_AUTO_TEST_CASE(law_16_exact_symmetries) {
  tests::check_law(60, certify::Domain::finite, {80, 8'000}, certify::laws::exact_symmetries);
}

// Two scores that differ by 6e-77, so that an output of −0 or +0 is what 1e-77 rounds to.
BOOST_AUTO_TEST_CASE(law_16_exact_symmetries_of_what_underflows) {
  certify::TestCase test;
  test.geometry = {1, 10};
  test.alive = {1};
  test.positions = test.upto = 2;
  test.scale = 1;
  test.k.assign(20, 0.0F), test.v.assign(20, 0.0F), test.q.assign(10, 0.0F);
  test.k[18] = std::bit_cast<float>(0x806908C0U), test.q[8] = std::bit_cast<float>(0x8041E3D1U);
  test.v[9] = 2, test.v[19] = -2;
  for (std::uint64_t salt = 0; salt < 40; ++salt) {
    test.salt = salt;
    const certify::Outcome outcome = certify::laws::exact_symmetries(test);
    BOOST_TEST((outcome.verdict == certify::Verdict::holds), outcome.sentence);
  }
}

// Probes: closed forms, each with its nearby wrong answers further off than twice the bound.
BOOST_AUTO_TEST_CASE_TEMPLATE(probes, Engine, tests::Engines) {
  const Engine engine;
  if (!tests::has(engine)) {
    std::cout << "NOT RUN: probes on " << engine.name() << ", which this machine lacks\n";
    return;
  }
  for (const auto& probe : certify::all_probes()) {
    certify::Tally tally;
    const auto outcome = certify::run_probe(engine, probe, tally);
    BOOST_TEST((outcome.verdict == certify::Verdict::holds), probe.name << ", " << probe.question << ": " << outcome.sentence);
    BOOST_TEST(tally.numbers > 0U);
  }
}

// Every named wrong answer of every probe is recognised, by name.
BOOST_AUTO_TEST_CASE(probes_recognise_their_wrong_answers) {
  std::size_t recognised = 0;
  for (const auto& probe : certify::all_probes()) {
    const std::size_t dim = probe.test.geometry.head_dim;
    for (std::size_t head = 0; head < probe.test.heads(); ++head) {
      for (const auto& hypothesis : probe.wrong[head]) {
        std::vector<float> out;
        for (std::size_t h = 0; h < probe.test.heads(); ++h) {
          out.insert(out.end(), dim, static_cast<float>(h == head ? hypothesis.value : probe.right[h]));
        }
        certify::Tally tally;
        const auto outcome = certify::judge_probe(probe, out, tally);
        BOOST_TEST((outcome.verdict == certify::Verdict::violated), probe.question << ": \"" << hypothesis.behaviour << "\" passed");
        BOOST_TEST(outcome.sentence.find("as if") != std::string::npos, outcome.sentence);
        ++recognised;
      }
    }
  }
  BOOST_TEST(recognised > 200U);
}

BOOST_AUTO_TEST_SUITE_END()
