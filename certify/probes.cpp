#include "certify/probes.hpp"

#include <cmath>
#include <limits>

namespace kvcert::certify {
namespace {

/// A case with one KV head layout, `heads` zero queries, and K, V filled by a function of (position, KV head).
template <class Key, class Value>
TestCase layout(Geometry geometry, std::size_t heads, std::size_t positions, const Key& key, const Value& value) {
  TestCase test;
  test.geometry = geometry;
  test.alive.assign(geometry.num_kv_heads, 1);
  test.positions = positions;
  for (std::size_t p = 0; p < positions; ++p) {
    for (std::size_t head = 0; head < geometry.num_kv_heads; ++head) {
      for (std::size_t d = 0; d < geometry.head_dim; ++d) {
        test.k.push_back(d == 0 ? key(p, head) : 0.0F);
        test.v.push_back(value(p, head));
      }
    }
  }
  test.q.assign(heads * geometry.head_dim, 0.0F);
  test.upto = positions;
  return test;
}

float any_key(std::size_t position, std::size_t head) { return static_cast<float>((position * 7 + head) % 5) - 2.0F; }
float position_value(std::size_t position, std::size_t) { return static_cast<float>(position); }

/// Mean of positions from … to − 1.
double mean(std::size_t from, std::size_t to) { return (static_cast<double>(from) + static_cast<double>(to) - 1) / 2; }

void window(std::vector<Probe>& probes) {
  for (std::size_t W : std::initializer_list<std::size_t>{1, 2, 3, 4, 64}) {
    for (std::size_t seen : {W, W + 1, 2 * W + 3}) {
      for (std::size_t after : std::initializer_list<std::size_t>{0, 1, 5}) {  // rows past upto, which must not be seen
        TestCase test = layout({2, 4}, 3, seen + after, any_key, position_value);
        test.kv_head = 1;
        test.upto = seen;
        test.first = seen - W;
        const double right = mean(seen - W, seen);
        std::vector<Hypothesis> wrong;
        if (seen > W) wrong.push_back({"the window held one row more", mean(seen - W - 1, seen)});
        if (W > 1) wrong.push_back({"the window held one row less", mean(seen - W + 1, seen)});
        if (after > 0) wrong.push_back({"it saw the row after the last visible one", mean(seen - W, seen + 1)});
        if (seen > W) wrong.push_back({"it ignored where the window begins", mean(0, seen)});
        if (W > 1) wrong.push_back({"it missed the newest row", mean(seen - W, seen - 1)});
        probes.push_back({"window",
                          fmt::format("q = 0, V = position, {} rows stored, rows {}..{} visible", seen + after, seen - W,
                                      seen - 1),
                          std::move(test), std::vector<double>(3, right), {wrong, wrong, wrong}});
      }
    }
  }
}

void head_map(std::vector<Probe>& probes) {
  for (auto [query_heads, kv_heads] : {std::pair{8, 2}, {6, 2}, {6, 3}, {12, 4}, {4, 1}}) {
    const auto fan_out = static_cast<std::size_t>(query_heads / kv_heads);
    for (std::size_t head = 0; head < static_cast<std::size_t>(kv_heads); ++head) {
      TestCase test = layout({static_cast<std::size_t>(kv_heads), 5}, fan_out, 3, any_key,
                             [](std::size_t, std::size_t h) { return static_cast<float>(h + 1); });
      test.kv_head = head;
      std::vector<Hypothesis> wrong;
      for (std::size_t other = 0; other < static_cast<std::size_t>(kv_heads); ++other) {
        if (other != head) wrong.push_back({fmt::format("it read KV head {}", other), static_cast<double>(other + 1)});
      }
      probes.push_back({"head map", fmt::format("V = KV head + 1, {} query heads on {} KV heads, KV head {}", query_heads,
                                                kv_heads, head),
                        std::move(test), std::vector<double>(fan_out, static_cast<double>(head + 1)),
                        std::vector(fan_out, wrong)});
    }
  }
}

void sink_mass(std::vector<Probe>& probes) {
  const std::vector<float> sinks{0.6931472F, 3.0F, -2.0F, 0.0F};
  for (std::size_t rows : std::initializer_list<std::size_t>{1, 2, 17}) {
    TestCase test = layout({1, 3}, sinks.size(), rows, any_key, [](std::size_t, std::size_t) { return 1.0F; });
    test.sinks = sinks;
    test.softcap = 2.0F;  // rows score 0, which no cap changes; a sink that was capped would show
    Probe probe{"sink mass", fmt::format("q = 0, V = 1, {} rows, a sink per head", rows), std::move(test), {}, {}};
    const auto n = static_cast<double>(rows);
    for (std::size_t head = 0; head < sinks.size(); ++head) {
      const double mass = std::exp(double{sinks[head]});
      probe.right.push_back(n / (n + mass));
      std::vector<Hypothesis> wrong{{"the sink was dropped", 1.0},
                                    {"the sink was counted twice", n / (n + 2 * mass)},
                                    {"the sink had a value of 1", (n + mass) / (n + mass)}};
      if (sinks[head] != 0) {
        wrong.push_back({"the sink was soft-capped", n / (n + std::exp(2.0 * std::tanh(double{sinks[head]} / 2.0)))});
      }
      for (std::size_t other = 0; other < sinks.size(); ++other) {
        if (other == head) continue;
        wrong.push_back({fmt::format("it used the sink of head {}", other), n / (n + std::exp(double{sinks[other]}))});
      }
      probe.wrong.push_back(std::move(wrong));
    }
    probes.push_back(std::move(probe));
  }
}

void poison(std::vector<Probe>& probes) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3.0e38F}) {
    TestCase test = layout({2, 16}, 2, 40, any_key, position_value);
    test.kv_head = 1;
    test.first = 5;
    test.upto = 37;
    for (std::size_t p = 0; p < 40; ++p) {
      for (std::size_t at = p * 32; at < (p + 1) * 32; ++at) {
        const bool hidden = p < 5 || p >= 37 || at < p * 32 + 16;  // the other KV head as well
        if (hidden) test.k[at] = test.v[at] = bad;
      }
    }
    probes.push_back({"poison", fmt::format("rows that must not be read hold {}", bad), std::move(test),
                      std::vector<double>(2, mean(5, 37)), {{}, {}}});
  }
}

/// Two keys that score +x and −x, values 1 and 0: the first one's probability is 1 / (1 + e^(−2·score)).
void softcap(std::vector<Probe>& probes) {
  const auto first_weight = [](double score) { return 1 / (1 + std::exp(-2 * score)); };
  for (auto [x, cap, scale] : {std::tuple{1.0F, 0.5F, 1.0F}, {20.0F, 1.0F, 1.0F}, {3.0F, 2.0F, 0.5F}, {-4.0F, 2.0F, 0.25F}}) {
    TestCase test = layout({1, 2}, 1, 2, [x](std::size_t p, std::size_t) { return p == 0 ? x : -x; },
                           [](std::size_t p, std::size_t) { return p == 0 ? 1.0F : 0.0F; });
    test.q = {1.0F, 0.0F};
    test.scale = scale;
    test.softcap = cap;
    const double s = double{x} * double{scale};
    const double c = cap;
    std::vector<Hypothesis> wrong{{"the cap was dropped", first_weight(s)},
                                  {"it computed s · tanh(s / c)", 0.5},
                                  {"it clamped instead of tanh", first_weight(std::fmax(-c, std::fmin(c, s)))},
                                  {"it left out the factor c", first_weight(std::tanh(s / c))}};
    if (c == 1.0) wrong.pop_back();  // there the factor is 1
    if (scale != 1) {
      wrong.push_back({"it capped before scaling", first_weight(double{scale} * c * std::tanh(double{x} / c))});
      wrong.push_back({"it did not scale", first_weight(c * std::tanh(double{x} / c))});
    }
    std::erase_if(wrong, [&](const Hypothesis& h) { return std::fabs(h.value - first_weight(c * std::tanh(s / c))) < 1e-4; });
    probes.push_back({"softcap", fmt::format("two keys scoring ±{}, cap {}", s, cap), std::move(test),
                      {first_weight(c * std::tanh(s / c))}, {wrong}});
  }
}

void scale(std::vector<Probe>& probes) {
  const auto first_weight = [](double score) { return 1 / (1 + std::exp(-2 * score)); };
  for (std::size_t dim : std::initializer_list<std::size_t>{4, 64}) {
    const float x = 1.5F;
    TestCase test = layout({1, dim}, 1, 2, [x](std::size_t p, std::size_t) { return p == 0 ? x : -x; },
                           [](std::size_t p, std::size_t) { return p == 0 ? 1.0F : 0.0F; });
    test.q[0] = 1.0F;
    const double factor = 1 / std::sqrt(static_cast<double>(dim));
    test.scale = static_cast<float>(factor);
    probes.push_back({"scale", fmt::format("two keys scoring ±1.5 · scale, head_dim {}", dim), std::move(test),
                      {first_weight(x * factor)},
                      {{{"it did not scale", first_weight(x)},
                        {"it scaled twice", first_weight(x * factor * factor)},
                        {"it scaled by 1 / head_dim", first_weight(x / static_cast<double>(dim))}}}});
    if (dim == 4) probes.back().wrong[0].pop_back();  // 1 / 4 is also the scale taken twice
  }
}

void few_keys(std::vector<Probe>& probes) {
  TestCase one = layout({2, 7}, 2, 1, [](std::size_t, std::size_t) { return 1.0e30F; },
                        [](std::size_t, std::size_t) { return 0.1F; });
  one.scale = 0x1p-100F;
  one.q.assign(one.q.size(), 1.0F);
  probes.push_back({"one key", "one visible row with a large score", one, std::vector<double>(2, double{0.1F}),
                    {{{"it weighed nothing", 0.0}}, {{"it weighed nothing", 0.0}}}});
  TestCase last = layout({1, 3}, 1, 9, any_key, position_value);
  last.first = 1000;  // clamped: the newest row stays visible
  probes.push_back({"one key", "a window that begins past the rows", last, {8.0}, {{{"it saw nothing", 0.0}}}});

  for (float low : {-6.0e4F, -100.0F, 6.0e4F}) {
    TestCase test = layout({1, 3}, 1, 4, [low](std::size_t, std::size_t) { return low; }, position_value);
    test.q[0] = 1.0F;
    test.scale = 1.0F;
    probes.push_back({"shift", fmt::format("four equal scores of {}", low), std::move(test), {1.5},
                      {{{"every weight vanished", 0.0}, {"only the first row counted", 0.0}, {"only the last row counted", 3.0}}}});
  }
}

void no_key(std::vector<Probe>& probes) {
  for (bool dead : {false, true}) {
    TestCase test = layout({2, 6}, 2, dead ? 5 : 0, any_key, [](std::size_t, std::size_t) { return 9.0F; });
    if (dead) test.alive[0] = 0;
    test.sinks = {2.0F, std::numeric_limits<float>::infinity()};
    probes.push_back({"no key", dead ? "a dead head, with sinks" : "an empty layer, with sinks", std::move(test),
                      {0.0, 0.0}, {{}, {}}});
  }
  TestCase hidden = layout({1, 6}, 1, 5, any_key, [](std::size_t, std::size_t) { return 9.0F; });
  hidden.upto = 0;
  probes.push_back({"no key", "rows stored, upto 0", std::move(hidden), {0.0}, {{{"it saw rows anyway", 9.0}}}});
}

}  // namespace

std::vector<Probe> all_probes() {
  std::vector<Probe> probes;
  window(probes);
  head_map(probes);
  sink_mass(probes);
  poison(probes);
  softcap(probes);
  scale(probes);
  few_keys(probes);
  no_key(probes);
  return probes;
}

Outcome judge_probe(const Probe& probe, std::span<const float> out, Tally& tally) {
  const TestCase& test = probe.test;
  const std::size_t dim = test.geometry.head_dim;
  const HeadCase rows(test);
  for (std::size_t head = 0; head < test.heads(); ++head) {
    const double right = probe.right[head];
    const auto got = out.subspan(head * dim, dim);
    std::vector<double> allowed(dim, 0.0);  // without rows the answer is +0, exactly
    if (test.rows() > 0) {
      const auto parameters = canonical_parameters(dim, test.rows() - test.first_visible());
      const auto bound = evaluate_bound(rows.input(test, head), parameters);
      if (!bound.not_covered.empty()) return violated("the probe lies outside the bound's hypotheses: " + bound.not_covered);
      allowed = bound.bound;
      // A closed form in binary64 is off by a few parts in 2^53.
      for (double& x : allowed) x += std::fabs(right) * 0x1p-48;
    }
    for (const Hypothesis& hypothesis : probe.wrong[head]) {
      if (!(std::fabs(hypothesis.value - right) > 2 * allowed[0])) {
        return violated(fmt::format("the probe cannot tell {} from {} (\"{}\")", right, hypothesis.value, hypothesis.behaviour));
      }
    }
    for (std::size_t d = 0; d < dim; ++d) {
      const double error = std::fabs(double{got[d]} - right);
      if (error <= allowed[d]) continue;
      std::string sentence = fmt::format("head {}: expected {:.9g} ± {:.2g}, engine answered {}", head, right, allowed[d],
                                         show(got[d]));
      for (const Hypothesis& hypothesis : probe.wrong[head]) {
        if (std::fabs(hypothesis.value - double{got[d]}) <= 2 * allowed[d]) {
          sentence += fmt::format(": it answers as if {}", hypothesis.behaviour);
          break;
        }
      }
      ++tally.heads[Judgement::wrong];
      return violated(sentence);
    }
    ++tally.heads[Judgement::within_bound];
    tally.numbers += dim;
  }
  return holds();
}

}  // namespace kvcert::certify
