// Closed forms through every call that attends, on every engine; and engines that are broken on purpose, each of which must be
// called what it is.
#include "certify/closed_forms.hpp"

#include "tests/property.hpp"

using namespace kvcert;
using certify::Asked;
using certify::Outcome;
using certify::Tally;
using certify::Verdict;

namespace {

enum class Fault { one_row_more, one_row_less, stale_slot, row_ahead, tiled_heads, first_head_only, sink_dropped, sink_twice };

/// The optimized cache with one thing wrong in all of its calls.
template <Fault fault>
class Broken : public optimized::LayerKvCache {
  using Base = optimized::LayerKvCache;

 public:
  explicit Broken(Base base) : Base(std::move(base)) {}

  Result<void> attend_group(const Query& query, std::span<float> out, std::span<float> acc) const {
    return attend_group_upto(query, Base::seq_len(), out, acc);
  }

  Result<void> attend_group_upto(Query query, std::size_t upto, std::span<float> out, std::span<float> acc) const {
    const auto [kv_heads, dim] = Base::geometry();
    const std::size_t group = query.kv_head, n = query.q_group.size() / dim;
    for (std::size_t i = 0; i < n && fault == Fault::tiled_heads; ++i) {
      Query one = query;
      one.q_group = query.q_group.subspan(i * dim, dim);
      one.kv_head = (group * n + i) % kv_heads;
      if (auto result = Base::attend_group_upto(one, upto, out.subspan(i * dim, dim), acc); !result) return result;
    }
    if (fault == Fault::tiled_heads) return {};
    std::vector<float> sinks(query.sinks.begin(), query.sinks.end());
    for (float& x : sinks) x += 0.6931472F;
    if (fault == Fault::one_row_more && query.first > 0) --query.first;
    if (fault == Fault::one_row_less && query.first > 0) ++query.first;
    if (fault == Fault::row_ahead) ++upto;
    if (fault == Fault::stale_slot && query.first > 0) --query.first, --upto;
    if (fault == Fault::first_head_only) query.kv_head = 0;
    if (fault == Fault::sink_dropped) query.sinks = {};
    if (fault == Fault::sink_twice) query.sinks = sinks;
    return Base::attend_group_upto(query, upto, out, acc);
  }

  Result<void> attend_chunk(const Query& query, std::size_t b, std::size_t s0, std::size_t window, std::span<float> out, std::span<float> acc) const {
    const std::size_t part = query.q_group.size() / b;
    for (std::size_t i = 0; i < b; ++i) {
      Query one = query;
      one.q_group = query.q_group.subspan(i * part, part);
      one.first = window != 0 && s0 + i + 1 > window ? s0 + i + 1 - window : 0;
      if (auto result = attend_group_upto(one, s0 + i + 1, out.subspan(i * part, part), acc); !result) return result;
    }
    return {};
  }

  Result<void> install_bounded(std::size_t window) { return Base::install_bounded(window + more()); }

  Result<void> bounded_step(std::span<const float> q, std::span<const float> k, std::span<const float> v, BoundedSinks sinks, const Rope& rope,
                            float scale, std::size_t query_heads, std::span<float> out) {
    const auto [heads, dim] = Base::geometry();
    const std::size_t W = Base::bounded_window(), slot = static_cast<std::size_t>(Base::seq_len() % W);
    if (fault == Fault::stale_slot && Base::seq_len() >= W) {  // attends before the newest row is in its slot
      Base before = *this;
      std::vector<float> old_k, old_v;
      for (std::size_t head = 0; head < heads; ++head) {
        const auto at = (head * W + slot) * dim;
        for (float x : Base::bounded_keys().subspan(at, dim)) old_k.push_back(x);
        for (float x : Base::bounded_values().subspan(at, dim)) old_v.push_back(x);
      }
      std::vector<float> unused(out.size());
      auto result = before.bounded_step(q, old_k, old_v, sinks, rope, scale, query_heads, out);
      return result ? Base::bounded_step(q, k, v, sinks, rope, scale, query_heads, unused) : result;
    }
    auto mine = more() == 0 ? rope : *Rope::create(W, std::vector<float>(rope.half(), 0.5F), 1.0F);
    std::vector<float> mixed(v.begin(), v.end());
    for (std::size_t at = 0; at < mixed.size() && fault == Fault::first_head_only; ++at) mixed[at] = v[at % dim];
    auto result = Base::bounded_step(q, k, mixed, sinks, mine, scale, query_heads, out);
    if (fault == Fault::tiled_heads && result) {
      const std::vector<float> right(out.begin(), out.end());
      const std::size_t fan_out = query_heads / heads;
      for (std::size_t at = 0; at < out.size(); ++at) out[at] = right[at / dim % heads * fan_out * dim + at % dim];
    }
    return result;
  }

 private:
  static constexpr std::size_t more() { return fault == Fault::one_row_more ? 1 : fault == Fault::one_row_less ? ~std::size_t{0} : 0; }
};

template <Fault fault>
struct BrokenEngine {
  using Cache = Broken<fault>;
  Result<Cache> make(Geometry geometry) const { return Cache(*optimized::LayerKvCache::create(geometry, optimized::Isa::scalar)); }
};

template <class Engine>
Outcome windows(const Engine& engine, Asked asked, std::size_t window, Tally& tally) {
  switch (asked) {
    case Asked::group: return certify::group_windows(engine, window, tally);
    case Asked::chunk: return certify::chunk_windows(engine, window, tally);
    default: return certify::ring_windows(engine, window, tally);
  }
}

constexpr Asked surfaces[] = {Asked::group, Asked::chunk, Asked::ring};

/// The fault is seen, and named, through every surface on which it can happen and in every window in which it shows.
template <Fault fault>
void is_named(const std::string& behaviour, std::initializer_list<Asked> where, std::size_t least_window = 1) {
  for (Asked asked : where) {
    for (std::size_t window : certify::closed_windows) {
      if (window < least_window) continue;
      Tally tally;
      const Outcome outcome = windows(BrokenEngine<fault>{}, asked, window, tally);
      BOOST_TEST((outcome.verdict == Verdict::violated), behaviour << " in a window of " << window << " is not seen");
      BOOST_TEST(outcome.sentence.find("as if " + behaviour) != std::string::npos, outcome.sentence);
    }
  }
}

template <Fault fault>
void head_fault_is_named(const std::string& behaviour, std::initializer_list<std::pair<std::size_t, std::size_t>> maps) {
  for (Asked asked : surfaces) {
    for (auto map : maps) {
      Tally tally;
      const Outcome outcome = certify::head_map_holds(BrokenEngine<fault>{}, asked, map, tally);
      BOOST_TEST((outcome.verdict == Verdict::violated), behaviour << " is not seen");
      BOOST_TEST(outcome.sentence.find("as if " + behaviour) != std::string::npos, outcome.sentence);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(closed_forms)

BOOST_AUTO_TEST_CASE(the_exact_mode_gives_the_rounded_mean) {
  for (std::size_t window : certify::closed_windows) {
    const auto outcome = certify::exact_windows(window);
    BOOST_TEST((outcome.verdict == Verdict::holds), outcome.sentence);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_window_every_call, Engine, tests::Engines) {
  if (!tests::has(Engine{})) {
    std::cout << "NOT RUN: closed forms on " << Engine{}.name() << ", which this machine lacks\n";
    return;
  }
  Tally tally;
  for (Asked asked : surfaces) {
    for (std::size_t window : certify::closed_windows) {
      const auto outcome = windows(Engine{}, asked, window, tally);
      BOOST_TEST((outcome.verdict == Verdict::holds), outcome.sentence);
    }
    for (auto map : certify::head_maps) {
      const auto outcome = certify::head_map_holds(Engine{}, asked, map, tally);
      BOOST_TEST((outcome.verdict == Verdict::holds), outcome.sentence);
    }
  }
  const auto outcome = certify::sink_of_ln_2(Engine{}, tally);
  BOOST_TEST((outcome.verdict == Verdict::holds), outcome.sentence);
  BOOST_TEST(tally.numbers > 20'000U);
}

BOOST_AUTO_TEST_CASE(broken_windows_are_called_what_they_are) {
  is_named<Fault::one_row_more>("the window held one row more", {Asked::group, Asked::chunk, Asked::ring});
  is_named<Fault::one_row_less>("the window held one row less", {Asked::group, Asked::chunk}, 2);
  is_named<Fault::one_row_less>("the window held one row less", {Asked::ring}, 2);
  is_named<Fault::row_ahead>("it saw the row ahead", {Asked::group, Asked::chunk});
  is_named<Fault::stale_slot>("the newest row's slot were stale", {Asked::group, Asked::chunk, Asked::ring});
}

BOOST_AUTO_TEST_CASE(broken_head_maps_are_called_what_they_are) {
  head_fault_is_named<Fault::tiled_heads>("query heads were tiled", {{8, 2}, {6, 2}, {6, 3}, {12, 4}});
  // KV head 0 instead of one's own; where tiling would have met KV head 0 too, that is the name it gets.
  for (Asked asked : surfaces) {
    Tally tally;
    const auto outcome = certify::head_map_holds(BrokenEngine<Fault::first_head_only>{}, asked, {6, 2}, tally);
    BOOST_TEST((outcome.verdict == Verdict::violated));
    BOOST_TEST(outcome.sentence.find("as if it read KV head 0") != std::string::npos, outcome.sentence);
  }
}

BOOST_AUTO_TEST_CASE(broken_sinks_are_called_what_they_are) {
  Tally tally;
  const auto dropped = certify::sink_of_ln_2(BrokenEngine<Fault::sink_dropped>{}, tally);
  BOOST_TEST(dropped.sentence.find("as if the sink were dropped") != std::string::npos, dropped.sentence);
  const auto twice = certify::sink_of_ln_2(BrokenEngine<Fault::sink_twice>{}, tally);
  BOOST_TEST(twice.sentence.find("as if the sink were counted twice") != std::string::npos, twice.sentence);
}

// An answer that no wrong form explains is wrong all the same, and an answer of another kind altogether has no name.
BOOST_AUTO_TEST_CASE(what_has_no_name_is_wrong_too) {
  const certify::WindowForms forms(4);
  const auto form = forms.at(Asked::group, 9, 12);
  BOOST_TEST(certify::misses(form, std::vector<float>{7.6F, 59.0F, 7.6F, 59.0F}).value().find("nearest wrong way") != std::string::npos);
  BOOST_TEST(certify::misses(form, std::vector<float>(4, NAN)).value().find("way of working") == std::string::npos);
  const auto right = forms.rounded(9);
  BOOST_TEST(!certify::misses(form, right).has_value());
  auto off = right;  // four rows: this very value, not one ulp beside it
  off[3] = std::nextafter(off[3], 0.0F);
  BOOST_TEST(certify::misses(form, off).has_value());
  const auto three = certify::WindowForms(3).at(Asked::group, 9, 12);  // three rows: within the bound
  off = certify::WindowForms(3).rounded(9);
  off[3] = std::nextafter(off[3], 0.0F);
  BOOST_TEST(!certify::misses(three, off).has_value());
  off[3] *= 1.0001F;
  BOOST_TEST(certify::misses(three, off).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
