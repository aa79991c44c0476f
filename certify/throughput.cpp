#include "certify/throughput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "certify/laws/law.hpp"
#include "certify/random.hpp"

namespace kvcert::certify {
namespace {

using Clock = std::chrono::steady_clock;

std::string with_prefix(double x, const char* unit) {
  return x >= 1e6 ? fmt::format("{:.3g} million {}", x / 1e6, unit) : x >= 1e4 ? fmt::format("{:.3g} thousand {}", x / 1e3, unit) : fmt::format("{:.4g} {}", x, unit);
}

std::string duration(double nanoseconds) {
  return nanoseconds >= 1e6 ? fmt::format("{:.3g} ms", nanoseconds / 1e6) : nanoseconds >= 1e3 ? fmt::format("{:.3g} µs", nanoseconds / 1e3) : fmt::format("{:.3g} ns", nanoseconds);
}

/// The middle of the times that `work` took, called for a tenth of a second and at least three times.
template <class Work>
double middle_seconds(const Work& work) {
  std::vector<double> taken;
  for (const auto begin = Clock::now(); taken.size() < 3 || Clock::now() - begin < std::chrono::milliseconds(100);) {
    const auto from = Clock::now();
    work();
    taken.push_back(std::chrono::duration<double>(Clock::now() - from).count());
  }
  std::nth_element(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2), taken.end());
  return taken[taken.size() / 2];
}

}  // namespace

nlohmann::json to_json(const std::vector<Throughput>& throughput) {
  nlohmann::json list = nlohmann::json::array();
  for (const Throughput& t : throughput) {
    nlohmann::json entry{{"part", t.part},       {"measured", t.measured},         {"unit", t.unit},
                         {"calls", t.calls},     {"count", t.count},               {"seconds", t.seconds},
                         {"per_second", t.per_second()}, {"nanoseconds_each", t.nanoseconds_each()}};
    if (t.visible_rows) entry["visible_rows_each"] = *t.visible_rows;
    list.push_back(std::move(entry));
  }
  return list;
}

std::string speed_text(const Throughput& t) {
  return fmt::format("{}/s, {} each{}", with_prefix(t.per_second(), t.unit.c_str()), duration(t.nanoseconds_each()),
                     t.visible_rows ? fmt::format(" over {:.{}f} rows", *t.visible_rows, *t.visible_rows < 100 ? 1 : 0) : "");
}

std::vector<Throughput> measure_throughput(const OptimizedEngine& engine) {
  constexpr std::size_t heads = 8, dim = 128, fan_out = 4, positions = 1024;
  Random random(1);
  const auto numbers = [&](std::size_t n) {
    std::vector<float> tensor(n);
    for (float& x : tensor) x = random.normal();
    return tensor;
  };
  const auto k = numbers(positions * heads * dim), v = numbers(positions * heads * dim), q = numbers(heads * fan_out * dim);
  auto layer = must(engine.make({heads, dim}), "create");
  Throughput append{"append", fmt::format("inside append, {} positions one by one into a layer of {} KV heads × {} in f32 that was emptied and keeps its memory", positions, heads, dim), "rows", positions, positions * heads, 0, {}};
  append.seconds = middle_seconds([&] {
    layer.clear();
    for (std::size_t p = 0; p < positions; ++p) {
      must(layer.append(std::span(k).subspan(p * heads * dim, heads * dim), std::span(v).subspan(p * heads * dim, heads * dim), {}), "append");
    }
  });
  Throughput attend{"attend", fmt::format("inside attend_group, {} query heads on {} KV heads × {}, {} positions of f32", heads * fan_out, heads, dim, positions), "queries", heads, heads * fan_out, 0, double{positions}};
  std::vector<float> out(fan_out * dim);
  attend.seconds = middle_seconds([&] {
    for (std::size_t head = 0; head < heads; ++head) {
      const Query query{.q_group = std::span(q).subspan(head * fan_out * dim, fan_out * dim), .kv_head = head, .scale = 0.088388346F, .first = 0, .softcap = 0, .sinks = {}};
      must(layer.attend_group(query, out, {}), "attend_group");
    }
  });
  for (Throughput* t : {&append, &attend}) t->measured += ", the middle of many repetitions, one thread";
  return {append, attend};
}

}  // namespace kvcert::certify
