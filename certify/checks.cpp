#include "certify/checks.hpp"

#include <chrono>
#include <map>

#include "certify/closed_forms.hpp"
#include "certify/environment.hpp"
#include "certify/laws/accuracy.hpp"
#include "certify/laws/atomic.hpp"
#include "certify/laws/attention.hpp"
#include "certify/laws/chunks.hpp"
#include "certify/laws/exactness.hpp"
#include "certify/laws/int8.hpp"
#include "certify/laws/overlay.hpp"
#include "certify/laws/ring.hpp"
#include "certify/laws/seal.hpp"
#include "certify/laws/state.hpp"
#include "certify/player.hpp"
#include "certify/probes.hpp"

namespace kvcert::certify {
namespace {

/// FNV-1a over the bits of what an engine wrote: for comparing runs, not for security.
void add_to_digest(std::uint64_t& digest, std::span<const float> numbers) {
  for (float x : numbers) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      digest = (digest ^ ((bits(x) >> shift) & 0xFFU)) * 0x100000001B3U;
    }
  }
}

std::uint64_t mix(std::uint64_t seed, const std::string& name, std::size_t index) {
  std::uint64_t mixed = seed ^ 0xCBF29CE484222325U;
  for (char c : name) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return mixed + 0x9E3779B97F4A7C15U * (index + 1);
}

std::string promise_of_probe(const std::string& name) {
  static const std::map<std::string, std::string> promises{
      {"window", "the mean of exactly the visible positions"},
      {"head map", "each query head reads its own KV head"},
      {"sink mass", "each head's sink, once, uncapped, without a value"},
      {"poison", "rows that must not be read are not read"},
      {"softcap", "c · tanh(s / c), after scaling"},
      {"scale", "the scale, once"},
      {"one key", "one visible row is the answer"},
      {"shift", "large common scores cancel"},
      {"no key", "no visible row gives +0"}};
  return promises.at(name);
}

template <class Engine>
class Planner {
 public:
  Planner(const Engine& engine, std::uint64_t seed, unsigned percent) : engine_(engine), seed_(seed), percent_(percent) {
    plan_.tally = std::make_shared<Tally>();
    plan_.digest = std::make_shared<std::uint64_t>(0xCBF29CE484222325U);
  }

  Plan take() { return std::move(plan_); }

  void law(int number, const std::string& name, const std::string& promise, std::size_t cases, Domain domain, Sizes sizes,
           std::function<Outcome(const TestCase&)> holds_for) {
    Check check;
    check.group = fmt::format("law {}", number);
    check.name = name;
    check.promise = promise;
    check.cases = std::max<std::size_t>(1, cases * percent_ / 100);
    check.generate = [=, seed = seed_](std::size_t index) { return generate(mix(seed, name, index), domain, sizes); };
    check.run = [=](std::size_t, const TestCase& test) { return holds_for(test); };
    plan_.checks.push_back(std::move(check));
  }

  /// One check per kind of probe; its cases are the probes of that kind.
  void probes() {
    std::vector<std::shared_ptr<std::vector<Probe>>> kinds;
    for (auto& probe : all_probes()) {
      if (kinds.empty() || kinds.back()->front().name != probe.name) kinds.push_back(std::make_shared<std::vector<Probe>>());
      kinds.back()->push_back(std::move(probe));
    }
    for (const auto& kind : kinds) {
      Check check;
      check.group = "probe";
      check.name = kind->front().name;
      check.promise = promise_of_probe(check.name);
      check.verdict_if_held = check.name == "no key" ? Judgement::bit_identical : Judgement::within_bound;
      check.cases = kind->size();
      check.shrinkable = false;
      check.generate = [kind](std::size_t index) { return kind->at(index).test; };
      check.run = [engine = engine_, kind](std::size_t index, const TestCase&) {
        Tally tally;
        const Probe& probe = kind->at(index);
        Outcome outcome = run_probe(engine, probe, tally);
        if (outcome.verdict == Verdict::violated) outcome.sentence = probe.question + "; " + outcome.sentence;
        return outcome;
      };
      plan_.checks.push_back(std::move(check));
    }
  }

  /// A check whose cases are questions of its own; `ask(index)` puts them. The generated case is only there to be filed.
  void form(const std::string& name, const std::string& promise, std::size_t cases, std::function<Outcome(std::size_t)> ask) {
    Check check;
    check.group = "probe";
    check.name = name;
    check.promise = promise;
    check.verdict_if_held = Judgement::within_bound;
    check.cases = cases;
    check.shrinkable = false;
    check.generate = [](std::size_t) { return generate(1, Domain::finite, {.max_rows = 1, .max_floats = 1}); };
    check.run = [=](std::size_t index, const TestCase&) { return ask(index); };
    plan_.checks.push_back(std::move(check));
  }

  /// Closed forms through every call that attends.
  void closed_forms() {
    const Engine engine = engine_;
    const std::size_t windows = std::size(closed_windows), maps = std::size(head_maps);
    form("group window", "windows 1 to 64, empty to three wraps", windows, [=](std::size_t i) {
      Tally tally;
      return group_windows(engine, closed_windows[i], tally);
    });
    form("chunk window", "the same, in chunks larger than the window", windows, [=](std::size_t i) {
      Tally tally;
      return chunk_windows(engine, closed_windows[i], tally);
    });
    form("ring window", "the same, in a bounded layer's ring", windows, [=](std::size_t i) {
      Tally tally;
      return ring_windows(engine, closed_windows[i], tally);
    });
    form("heads, all calls", "head maps 8/2 6/2 6/3 12/4 4/1 in each call", 3 * maps, [=](std::size_t i) {
      constexpr Asked asked[] = {Asked::group, Asked::chunk, Asked::ring};
      Tally tally;
      return head_map_holds(engine, asked[i / maps], head_maps[i % maps], tally);
    });
    form("sink of ln 2", "over two zero logits: one half", 1, [=](std::size_t) {
      Tally tally;
      return sink_of_ln_2(engine, tally);
    });
  }

  void laws() {
    const Sizes small{.max_rows = 200, .max_floats = 30'000};
    const Sizes tiny{.max_rows = 80, .max_floats = 8'000};
    const Engine engine = engine_;
    law(1, "grouping", "a group of heads = its heads one by one", 800, Domain::any, small,
        [=](const TestCase& t) { return laws::grouping(engine, t); });
    law(2, "chunk is sequence", "any split of a prompt gives the same bits", 800, Domain::any, small,
        [=](const TestCase& t) { return laws::chunk_is_sequence(engine, t); });
    law(3, "window hides", "hidden rows may hold anything", 800, Domain::any, small,
        [=](const TestCase& t) { return laws::window_hides(engine, t); });
    law(3, "window is mask", "a window = scores of −∞ before it", 800, Domain::any, small,
        [=](const TestCase& t) { return laws::window_is_mask(engine, t); });
    law(4, "sink is a column", "a sink = one more column of value 0", 240, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::sink_is_a_column(engine, t); });
    plan_.checks.back().verdict_if_held = Judgement::within_bound;
    law(5, "rollback", "append n, truncate n = nothing happened", 800, Domain::any, small,
        [=](const TestCase& t) { return laws::rollback(engine, t); });
    law(6, "snapshot", "restore = the past, and nothing is shared", 800, Domain::any, small,
        [=](const TestCase& t) { return laws::snapshot(engine, t); });
    law(7, "round trip", "import of export = the layer", 800, Domain::any, small,
        [=](const TestCase& t) { return laws::round_trip(engine, t); });
    law(8, "canonical record", "accepted bytes are written again", 800, Domain::any, tiny,
        [=](const TestCase& t) { return laws::canonical_record(engine, t); });
    law(9, "atomic", "a refused call changes nothing", 400, Domain::any, tiny,
        [=](const TestCase& t) { return laws::atomic(engine, t); });
    plan_.checks.back().verdict_if_held = Judgement::holds;
    law(10, "clear", "cleared = new", 800, Domain::any, small, [=](const TestCase& t) { return laws::clear(engine, t); });
    law(13, "canonical bits", "the bits of the canonical arithmetic", 2400, Domain::any, {},
        [=, digest = plan_.digest](const TestCase& t) {
          const Answer answer = ask(filled_layer(engine, t), t);
          add_to_digest(*digest, answer.out);
          add_to_digest(*digest, answer.acc);
          return laws::canonical_bits(engine, t);
        });
    law(14, "accuracy", "the real value, and an error below its bound", 800, Domain::finite, tiny,
        [=, tally = plan_.tally](const TestCase& t) { return laws::accuracy(engine, t, *tally); });
    plan_.checks.back().verdict_if_held = Judgement::within_bound;
    law(16, "values scale", "values times 2^e, outputs times 2^e", 600, Domain::finite, small,
        [=](const TestCase& t) { return laws::values_scale(engine, t); });
    law(16, "group copies", "a KV group stored twice answers twice", 600, Domain::any, small,
        [=](const TestCase& t) { return laws::group_copies(engine, t); });
    law(16, "minus infinity", "rows of score −∞ change nothing", 600, Domain::any, small,
        [=](const TestCase& t) { return laws::minus_infinity_rows(engine, t); });
  }

  /// int8 storage, chunks, eviction, the ring, linear layers, the O(1) overlay.
  void whole_contract() {
    const Sizes small{.max_rows = 100, .max_floats = 8'000};
    const Sizes tiny{.max_rows = 4, .max_floats = 1'000};
    const Engine engine = engine_;
    law(2, "chunk attention", "a chunk = its positions one by one", 800, Domain::any, small,
        [=](const TestCase& t) { return laws::chunk_attention(engine, t); });
    law(2, "int8 chunks", "int8 rows, appended in any chunks, freeze included", 150, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::int8_chunk_is_sequence(engine, t); });
    law(5, "int8 rollback", "int8 rows taken back, outside a freeze", 150, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::int8_rollback(engine, t); });
    law(6, "int8 snapshot", "int8 rows, columns and mode come back", 150, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::int8_snapshot(engine, t); });
    law(9, "int8 refusal", "what is not finite is refused, and changes nothing", 150, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::int8_refuses(engine, t); });
    law(14, "int8 accuracy", "int8 rows: canonical, and within their bound", 120, Domain::finite, tiny,
        [=, tally = plan_.tally](const TestCase& t) { return laws::int8_accuracy(engine, t, *tally); });
    plan_.checks.back().verdict_if_held = Judgement::within_bound;
    law(14, "ring accuracy", "a ring's steps: canonical, and within their bound", 120, Domain::finite, tiny,
        [=, tally = plan_.tally](const TestCase& t) { return laws::bounded_accuracy(engine, t, *tally); });
    plan_.checks.back().verdict_if_held = Judgement::within_bound;
    law(14, "int8 constant row", "a constant row comes back within 2 ulp", 800, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::int8_constant_row(engine, t); });
    law(5, "ring rollback", "steps taken back to depth 64, no deeper", 200, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::ring_rollback(engine, t); });
    law(6, "ring comes back", "snapshots and records of a ring", 200, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::ring_comes_back(engine, t); });
    law(11, "ring forgets", "a function of the last min(T, W) inserts", 200, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::ring_forgets(engine, t); });
    law(7, "linear layer", "commit, scratch, accept, record", 400, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::linear_layer(engine, t); });
    law(12, "overlay counts", "every row in sinks, ring or far field, once", 100, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::overlay_counts(engine, t); });
    law(12, "overlay constant", "constant memory, groups as in the layer", 100, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::overlay_is_constant(engine, t); });
    law(12, "overlay exact-only", "short sequences: exact attention, within the bound", 100, Domain::finite, tiny,
        [=](const TestCase& t) { return laws::overlay_exact_only(engine, t); });
    plan_.checks.back().verdict_if_held = Judgement::within_bound;
    law(12, "overlay seal", "M solves its system as well as rounding allows", 60, Domain::finite, tiny,
        [=](const TestCase& t) {
          laws::SealTally tally;
          return laws::seal_residual(engine, t, tally);
        });
    plan_.checks.back().verdict_if_held = Judgement::within_bound;
    law(15, "eviction", "the kept set, in order, everything aligned", 800, Domain::any, small,
        [=](const TestCase& t) { return laws::eviction(engine, t); });
    law(13, "histories", "any operations in any order: as the reference", 400, Domain::finite, tiny, [=](const TestCase& t) {
      Coverage coverage;
      const auto found = difference_in_history(ReferenceEngine{}, engine, generate_history(t.salt, 60), coverage);
      return found ? violated(*found) : holds();
    });
    plan_.checks.back().shrinkable = false;  // the history is drawn from the case's salt, which has no simpler neighbours
  }

  /// What does not depend on an engine: the exact mode, and the judge.
  void exact_mode() {
    const Sizes tiny{.max_rows = 80, .max_floats = 8'000};
    law(14, "exact is rounded", "no binary32 is nearer to the real value", 600, Domain::finite, tiny,
        [](const TestCase& t) { return laws::exact_is_rounded(t); });
    plan_.checks.back().verdict_if_held = Judgement::holds;
    form("exact windows", "the exact mode gives the rounded mean", std::size(closed_windows),
         [](std::size_t i) { return exact_windows(closed_windows[i]); });
    plan_.checks.back().verdict_if_held = Judgement::holds;
    law(16, "exact symmetries", "permuted rows, shifted scores: the same", 400, Domain::finite, tiny,
        [](const TestCase& t) { return laws::exact_symmetries(t); });
    law(14, "judge bites", "outputs moved by twice the bound are wrong", 400, Domain::finite, tiny,
        [](const TestCase& t) { return laws::judge_bites(t); });
    plan_.checks.back().verdict_if_held = Judgement::holds;
  }

  void environment() {
    law(13, "environment", "FTZ, DAZ and rounding modes change no bit", 160, Domain::any, {.max_rows = 100, .max_floats = 8'000},
        [engine = engine_](const TestCase& t) { return environment_is_neutral(engine, t); });
    plan_.checks.back().group = "environment";
    plan_.checks.back().name = "modes";
  }

 private:
  Engine engine_;
  std::uint64_t seed_;
  unsigned percent_;
  Plan plan_;
};

template <class Engine>
Plan whole_plan(const Engine& engine, std::uint64_t seed, unsigned percent) {
  Planner<Engine> planner(engine, seed, percent);
  planner.probes();
  planner.closed_forms();
  planner.laws();
  planner.whole_contract();
  planner.environment();
  return planner.take();
}

}  // namespace

Plan plan(const OptimizedEngine& engine, std::uint64_t seed, unsigned percent) {
  Plan result = whole_plan(engine, seed, percent);
  Check ran;
  ran.group = "environment";
  ran.name = "kernel ran";
  ran.promise = fmt::format("the {} kernels were the ones that computed", engine.name());
  ran.verdict_if_held = Judgement::holds;
  ran.shrinkable = false;
  ran.generate = [](std::size_t) { return only_its_kernels_case(); };
  ran.run = [engine](std::size_t, const TestCase& test) { return only_its_kernels_run(engine, test); };
  result.checks.push_back(std::move(ran));
  return result;
}

Plan plan(const ReferenceEngine& engine, std::uint64_t seed, unsigned percent) { return whole_plan(engine, seed, percent); }

Plan exact_plan(std::uint64_t seed, unsigned percent) {
  Planner<ReferenceEngine> planner({}, seed, percent);
  planner.exact_mode();
  return planner.take();
}

Outcome run_case(const Check& check, std::size_t index, const TestCase& test) {
  try {
    return check.run(index, test);
  } catch (const std::exception& fault) {
    return violated(fault.what());
  }
}

Finding run(const Check& check, const std::function<void()>& tick) {
  const auto begin = std::chrono::steady_clock::now();
  Finding finding;
  for (std::size_t index = 0; index < check.cases; ++index) {
    TestCase test = check.generate(index);
    Outcome outcome = run_case(check, index, test);
    ++finding.cases;
    finding.not_exercised += outcome.verdict == Verdict::not_exercised ? 1 : 0;
    tick();
    if (outcome.verdict != Verdict::violated) continue;
    finding.verdict = Judgement::wrong;
    finding.index = index;
    if (check.shrinkable) {
      test = shrink(std::move(test), [&](const TestCase& c) { return run_case(check, index, c).verdict == Verdict::violated; });
      outcome = run_case(check, index, test);
    }
    finding.sentence = outcome.sentence;
    finding.smallest = std::move(test);
    break;
  }
  if (finding.verdict != Judgement::wrong && 4 * (finding.cases - finding.not_exercised) >= finding.cases) {
    finding.verdict = check.verdict_if_held;
  }
  finding.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return finding;
}

}  // namespace kvcert::certify
