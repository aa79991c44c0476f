// The harness is tested too: broken engines, each a known class of fault, must be caught by the law named for it; cases
// survive their JSON; the shrinker ends at something small.
#include <cmath>
#include <nlohmann/json.hpp>

#include "certify/certificate.hpp"
#include "certify/checks.hpp"
#include "certify/laws/atomic.hpp"
#include "certify/laws/attention.hpp"
#include "certify/laws/exactness.hpp"
#include "certify/laws/state.hpp"
#include "certify/probes.hpp"
#include "tests/property.hpp"

using namespace kvcert;
using certify::Domain;
using certify::TestCase;
using certify::Verdict;

namespace {

enum class Fault {
  window_too_wide,
  window_too_narrow,
  reads_ahead,
  sink_dropped,
  sink_twice,
  softcap_dropped,
  importance_overwritten,
  stale_row_after_rollback,
  rollback_by_one_too_few,
  snapshot_without_importance,
  restore_keeps_length,
  clear_keeps_a_row,
  clear_loses_sinks,
  import_half_done,
  accepts_trailing_bytes,
  heads_share_the_first_sink,
  nan_weight_not_skipped,
  chunk_loses_its_last_row,
  output_off_by_one_ulp,
  scale_twice,
};

/// The optimized cache with one thing wrong.
template <Fault fault>
class Broken : public optimized::LayerKvCache {
  using Base = optimized::LayerKvCache;

 public:
  explicit Broken(Base base) : Base(std::move(base)) {}
  static Result<Broken> create(Geometry geometry, KvMode mode = KvMode::f32) {
    return Broken(*Base::create(geometry, mode, optimized::Isa::scalar));
  }

  Result<void> append_chunk(std::span<const float> k, std::span<const float> v, std::size_t n, Alive alive = {}) {
    auto result = Base::append_chunk(k, v, n, alive);
    if (fault == Fault::chunk_loses_its_last_row && result && n > 3) {
      auto last = Base::truncate_last(1);
      return Base::append(k.first(k.size() / n), v.first(v.size() / n), alive);
    }
    return result;
  }

  Result<void> attend_group(const Query& query, std::span<float> out, std::span<float> acc) const {
    return attend_group_upto(query, ~std::size_t{0}, out, acc);
  }

  Result<void> attend_group_upto(Query query, std::size_t upto, std::span<float> out, std::span<float> acc) const {
    std::vector<float> sinks(query.sinks.begin(), query.sinks.end());
    if (fault == Fault::window_too_wide && query.first > 0) --query.first;
    if (fault == Fault::window_too_narrow) ++query.first;
    if (fault == Fault::reads_ahead && upto < Base::seq_len()) ++upto;
    if (fault == Fault::sink_dropped) query.sinks = {};
    if (fault == Fault::softcap_dropped) query.softcap = 0;
    if (fault == Fault::scale_twice && std::isfinite(query.scale * query.scale)) query.scale *= query.scale;
    if (fault == Fault::sink_twice) {
      for (float& x : sinks) x += 0.6931472F;
      query.sinks = sinks;
    }
    if (fault == Fault::heads_share_the_first_sink && !sinks.empty()) {
      sinks.assign(sinks.size(), sinks[0]);
      query.sinks = sinks;
    }
    if (fault == Fault::importance_overwritten) std::fill(acc.begin(), acc.end(), 0.0F);
    auto result = Base::attend_group_upto(query, upto, out, acc);
    if (fault == Fault::output_off_by_one_ulp && result && out.size() > 5) out[5] = std::nextafter(out[5], 1e30F);
    if (fault == Fault::nan_weight_not_skipped && result) {
      for (float& x : out) x += 0.0F * Base::head_values(query.kv_head)->back();
    }
    return result;
  }

  Result<void> truncate_last(std::size_t n) {
    if (fault == Fault::rollback_by_one_too_few && n > 1) --n;
    if (fault == Fault::stale_row_after_rollback && n > 0 && Base::seq_len() > n) {
      auto result = Base::truncate_last(n);
      for (const auto rows : Base::k_heads()) {
        if (!rows.empty()) const_cast<float*>(rows.data())[rows.size() - 1] += 1.0F;
      }
      return result;
    }
    return Base::truncate_last(n);
  }

  Result<void> restore(const typename Base::Snapshot& saved) {
    const auto length = Base::seq_len();
    auto result = Base::restore(saved);
    if (fault == Fault::snapshot_without_importance && result) {
      for (const float& x : Base::importance()) const_cast<float&>(x) = 0.0F;
    }
    if (fault == Fault::restore_keeps_length && result && length < Base::seq_len()) return Base::truncate_last(1);
    return result;
  }

  void clear() {
    if (fault == Fault::clear_keeps_a_row && Base::seq_len() > 0) return static_cast<void>(Base::truncate_last(Base::seq_len() - 1));
    Base::clear();
    if (fault == Fault::clear_loses_sinks) Base::clear_sinks();
  }

  Result<void> import_wire(std::span<const std::uint8_t> bytes) {
    if (fault == Fault::accepts_trailing_bytes) {
      auto first = Base::import_wire(bytes);
      if (!first && first.error().code == ErrorCode::trailing_bytes) return Base::import_wire(bytes.first(first.error().expected));
      return first;
    }
    auto result = Base::import_wire(bytes);
    if (fault == Fault::import_half_done && !result) Base::clear();
    return result;
  }
};

template <Fault fault>
struct BrokenEngine {
  using Cache = Broken<fault>;
  Result<Cache> make(Geometry geometry) const { return Cache::create(geometry); }
  std::string name() const { return "broken"; }
};

/// How many of 200 cases show the fault; an exception counts as one, as it does in certify.
template <class Law>
int caught(const Law& law, Domain domain = Domain::any) {
  int n = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const TestCase test = certify::generate(seed, domain, {60, 4'000});
    try {
      n += law(test).verdict == Verdict::violated ? 1 : 0;
    } catch (const std::exception&) {
      ++n;
    }
  }
  return n;
}

#define CAUGHT_BY(law_name, fault_name)                                                                  \
  BOOST_TEST(caught([](const TestCase& test) {                                                           \
               return certify::laws::law_name(BrokenEngine<Fault::fault_name>{}, test);                  \
             }) > 0,                                                                                     \
             #fault_name " is not caught by " #law_name)

template <Fault fault>
bool caught_by_probe(const std::string& name) {
  bool found = false;
  for (const auto& probe : certify::all_probes()) {
    certify::Tally tally;
    if (probe.name != name) continue;
    found = found || certify::run_probe(BrokenEngine<fault>{}, probe, tally).verdict == Verdict::violated;
  }
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(harness)

BOOST_AUTO_TEST_CASE(broken_engines_are_caught_by_the_law_named_for_them) {
  CAUGHT_BY(window_hides, window_too_wide);
  CAUGHT_BY(window_is_mask, window_too_narrow);
  CAUGHT_BY(window_hides, reads_ahead);
  CAUGHT_BY(sink_is_a_column, sink_dropped);
  CAUGHT_BY(sink_is_a_column, sink_twice);
  CAUGHT_BY(grouping, heads_share_the_first_sink);
  CAUGHT_BY(grouping, importance_overwritten);
  CAUGHT_BY(grouping, output_off_by_one_ulp);
  CAUGHT_BY(chunk_is_sequence, chunk_loses_its_last_row);
  CAUGHT_BY(rollback, stale_row_after_rollback);
  CAUGHT_BY(rollback, rollback_by_one_too_few);
  CAUGHT_BY(snapshot, snapshot_without_importance);
  CAUGHT_BY(snapshot, restore_keeps_length);
  CAUGHT_BY(clear, clear_keeps_a_row);
  CAUGHT_BY(clear, clear_loses_sinks);
  CAUGHT_BY(canonical_record, import_half_done);
  CAUGHT_BY(canonical_record, accepts_trailing_bytes);
  CAUGHT_BY(minus_infinity_rows, nan_weight_not_skipped);
  CAUGHT_BY(canonical_bits, softcap_dropped);
  CAUGHT_BY(canonical_bits, scale_twice);
}

BOOST_AUTO_TEST_CASE(broken_engines_are_caught_by_probes) {
  BOOST_TEST(caught_by_probe<Fault::window_too_wide>("window"));
  BOOST_TEST(caught_by_probe<Fault::window_too_narrow>("window"));
  BOOST_TEST(caught_by_probe<Fault::reads_ahead>("window"));
  BOOST_TEST(caught_by_probe<Fault::sink_dropped>("sink mass"));
  BOOST_TEST(caught_by_probe<Fault::sink_twice>("sink mass"));
  BOOST_TEST(caught_by_probe<Fault::heads_share_the_first_sink>("sink mass"));
  BOOST_TEST(caught_by_probe<Fault::softcap_dropped>("softcap"));
  BOOST_TEST(caught_by_probe<Fault::scale_twice>("scale"));
}

// Faults that a flat tolerance of 5e-4 would let through are still faults for the bound: it does not take canonical bits.
BOOST_AUTO_TEST_CASE(the_bound_alone_catches_a_dropped_softcap) {
  const auto by_bound = [](const TestCase& test) {
    if (test.softcap == 0 || test.rows() == 0) return certify::not_exercised();
    certify::Tally tally;
    const auto answer = certify::ask(certify::filled_layer(BrokenEngine<Fault::softcap_dropped>{}, test), test);
    return certify::judge(test, answer.out, {}, tally);
  };
  BOOST_TEST(caught(by_bound, Domain::finite) > 20);
}

// Outside the hypotheses, and without a claim to canonical bits, an answer is not judged; that is never a pass.
BOOST_AUTO_TEST_CASE(what_the_bound_does_not_cover_is_not_judged) {
  TestCase test = certify::generate(3, Domain::finite, {20, 400});
  test.alive.assign(test.alive.size(), 1);
  test.upto = test.positions;
  test.first = 0;
  BOOST_REQUIRE(test.rows() > 0U);
  test.q.assign(test.q.size(), INFINITY);
  certify::Tally tally;
  const std::vector<float> out(test.q.size(), 1.0F);
  BOOST_TEST((certify::judge(test, out, {}, tally).verdict == Verdict::holds));
  BOOST_TEST(tally.heads[certify::Judgement::not_judged] == test.heads());
  BOOST_TEST(tally.heads[certify::Judgement::within_bound] == 0U);
  BOOST_TEST(tally.numbers == 0U);

  certify::Check check;
  check.cases = 20;
  check.verdict_if_held = certify::Judgement::within_bound;
  check.generate = [&](std::size_t) { return test; };
  check.run = [](std::size_t, const TestCase&) { return certify::not_exercised(); };
  BOOST_TEST((certify::run(check, [] {}).verdict == certify::Judgement::not_judged));
  certify::Certificate certificate;
  certify::Section section;
  section.has_outputs = true;
  section.findings.push_back(certify::run(check, [] {}));
  certificate.sections.push_back(section);
  BOOST_TEST(!certificate.holds());
  check.run = [](std::size_t index, const TestCase&) { return index < 15 ? certify::not_exercised() : certify::holds(); };
  certificate.sections[0].findings[0] = certify::run(check, [] {});
  BOOST_TEST(certificate.holds());
  check.run = [](std::size_t index, const TestCase&) { return index < 19 ? certify::holds() : certify::violated("so"); };
  certificate.sections[0].findings[0] = certify::run(check, [] {});
  BOOST_TEST(!certificate.holds());
}

BOOST_AUTO_TEST_CASE(without_a_row_only_zero_passes) {
  TestCase test = certify::generate(3, Domain::finite, {20, 400});
  test.upto = 0;
  certify::Tally tally;
  std::vector<float> out(test.q.size(), 0.0F);
  BOOST_TEST((certify::judge(test, out, {}, tally).verdict == Verdict::holds));
  out.back() = -0.0F;
  BOOST_TEST((certify::judge(test, out, {}, tally).verdict == Verdict::violated));
}

BOOST_AUTO_TEST_CASE(a_failing_case_shrinks_to_something_small) {
  const BrokenEngine<Fault::sink_twice> broken;
  const auto fails = [&](const TestCase& test) {
    return certify::laws::sink_is_a_column(broken, test).verdict == Verdict::violated;
  };
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    TestCase test = certify::generate(seed, Domain::finite, {60, 4'000});
    if (!fails(test)) continue;
    test = certify::shrink(std::move(test), fails);
    BOOST_TEST(fails(test));
    BOOST_TEST(test.positions == 1U);
    BOOST_TEST(test.geometry.head_dim == 1U);
    BOOST_TEST(test.geometry.num_kv_heads == 1U);
    BOOST_TEST(test.heads() == 1U);
    return;
  }
  BOOST_FAIL("no case failed");
}

BOOST_AUTO_TEST_CASE(shrinking_always_ends) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::size_t trials = 0;
    certify::shrink(certify::generate(seed, Domain::any, {20, 400}), [&](const TestCase&) { return ++trials > 0; }, 5000);
    BOOST_TEST(trials < 5000U);
  }
}

BOOST_AUTO_TEST_CASE(cases_survive_their_json) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const TestCase test = certify::generate(seed, Domain::any, {60, 4'000});
    BOOST_TEST((certify::test_case_from_json(nlohmann::json::parse(certify::to_json(test).dump())) == test));
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_case_is_refused_with_a_sentence) {
  const auto good = certify::to_json(certify::generate(3, Domain::any, {20, 400}));
  std::vector<std::pair<std::string, nlohmann::json>> bad{
      {"kv_heads", 0},     {"kv_heads", -1},         {"head_dim", 1u << 30U}, {"head_dim", "4"},   {"alive", {1, 2}},
      {"alive", {}},       {"positions", 1u << 19U}, {"k", "00"},             {"k", 5},            {"v", "zz"},
      {"kv_head", 77},     {"heads", 0},             {"q", ""},               {"sinks", "0000803f0"}, {"scale", ""},
      {"softcap", "ABCDEF00"}, {"salt", -3},         {"acc", nullptr},        {"first", 1.5},      {"upto", true}};
  for (const auto& [field, value] : bad) {
    auto json = good;
    json[field] = value;
    BOOST_CHECK_THROW(certify::test_case_from_json(json), std::runtime_error);
  }
  for (const auto& [field, value] : good.items()) {
    auto json = good;
    json.erase(field);
    BOOST_CHECK_THROW(certify::test_case_from_json(json), std::runtime_error);
  }
  BOOST_CHECK_THROW(certify::test_case_from_json(nlohmann::json::parse("[1]")), std::runtime_error);
}

// The same seed is the same case, today and on any machine: the certificate's seed means something.
BOOST_AUTO_TEST_CASE(cases_are_fixed_by_their_seed) {
  BOOST_TEST(certify::generate(42, Domain::any).salt == 13930160852258120406U);
  BOOST_TEST((certify::generate(42, Domain::any) == certify::generate(42, Domain::any)));
}

BOOST_AUTO_TEST_SUITE_END()
