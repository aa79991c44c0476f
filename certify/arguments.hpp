// Calls with any arguments: wrong lengths, sizes that cannot be, spans over each other and over the layer's own memory, numbers
// that are none, enumerators without a name, every call in every state. Bytes decide, so a fuzzer can; the two implementations
// make the same calls and have to answer alike. Nothing here may abort, whatever the bytes.
#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "certify/observe.hpp"
#include "kvcert/kv_cache.hpp"
#include "kvcert/layer_cache.hpp"

namespace kvcert::certify {

/// Decisions out of bytes; when they are used up every decision is 0.
class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool used_up() const { return at_ >= bytes_.size(); }
  std::size_t below(std::size_t n) { return byte() % n; }  // n ≤ 256
  std::uint64_t bits(int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8U | byte();
    return value;
  }
  template <class T>
  T pick(std::initializer_list<T> choices) { return choices.begin()[below(choices.size())]; }

 private:
  std::uint8_t byte() { return used_up() ? std::uint8_t{0} : bytes_[at_++]; }
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

template <LayerCache Cache>
class Caller {
 public:
  static constexpr std::size_t region_floats = 2400;

  explicit Caller(Cache layer, Choices choices) : layer_(std::move(layer)), choices_(choices) {
    for (std::size_t r = 0; r < regions_.size(); ++r) {
      regions_[r].resize(region_floats);
      for (std::size_t i = 0; i < region_floats; ++i) regions_[r][i] = static_cast<float>((i * 7 + r * 3) % 11) / 4.0F - 1.0F;
    }
  }

  bool used_up() const { return choices_.used_up(); }
  const Cache& layer() const { return layer_; }
  const std::array<std::vector<float>, 8>& memory() const { return regions_; }

  /// Brings the layer into one of its states, as well as the bytes go.
  void prelude() {
    const std::size_t T = choices_.below(90);
    switch (choices_.below(10)) {
      case 0: break;
      case 1: answer(layer_.set_mode(KvMode::q8)), append(T); break;
      case 2: answer(layer_.set_mode(KvMode::q8_keys)), append(T); break;
      case 3: answer(layer_.set_mode(KvMode::q8_values)), append(T); break;
      case 4: answer(layer_.install_bounded(1 + T % 5)); break;
      case 5: answer(layer_.set_wire_kind(WireKind::linear)); break;
      case 6:
      case 7:
      case 8: collect(T, choices_.below(3)); break;
      default: append(T); break;
    }
  }

  /// One call: its name and what it answered.
  std::string call() {
    const std::size_t which = choices_.below(calls + 4);
    if (which >= calls) return scribble();
    name_ = "";
    answer_ = "";
    one_of(which);
    return name_ + ": " + answer_;
  }
  static constexpr std::size_t calls = 45;

 private:
  std::size_t heads() const { return layer_.geometry().num_kv_heads; }
  std::size_t dim() const { return layer_.geometry().head_dim; }
  std::size_t row() const { return heads() * dim(); }

  template <class T>
  void answer(const Result<T>& result) {
    if (!result) {
      answer_ = name(result.error().code);
      return;
    }
    answer_ = "accepted";
    if constexpr (std::is_integral_v<T>) answer_ += fmt::format(" {}", *result);
  }
  bool accepted() const { return answer_.starts_with("accepted"); }

  // --- Arguments --------------------------------------------------------------------------------------------------------

  float scalar() {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (choices_.below(3) != 0) return choices_.pick({1.0F, 0.5F, 0.35355339F, 2.0F});
    if (choices_.below(8) == 0) return std::bit_cast<float>(static_cast<std::uint32_t>(choices_.bits(4)));
    return choices_.pick({std::numeric_limits<float>::quiet_NaN(), infinity, -infinity, 0.0F, -0.0F, 0x1p-149F, -0x1p-149F, 3.0e38F, -1.0F});
  }

  /// A count, right or beside `expected`, or one that no memory could hold. Between 2^12 and 2^50 there is none: a request that
  /// the system might grant would be a test of the machine.
  std::uint64_t count(std::uint64_t expected) {
    switch (choices_.below(8)) {
      case 0: return choices_.below(256);
      case 1: return choices_.pick<std::uint64_t>({0, 1, expected + 1, expected - 1, expected * 2});
      case 2: return choices_.pick<std::uint64_t>({std::uint64_t{1} << 50U, std::uint64_t{1} << 62U, (std::uint64_t{1} << 63U) - 1,
                                                   std::uint64_t{1} << 63U, ~std::uint64_t{0}, ~std::uint64_t{0} - expected});
      default: return expected;
    }
  }

  std::size_t head() { return static_cast<std::size_t>(choices_.below(8) == 0 ? count(heads()) : choices_.below(heads())); }

  /// Memory for an argument of `expected` floats whose usual place is region `home`.
  std::span<float> floats(std::size_t home, std::size_t expected) {
    auto& region = regions_[home];
    expected = std::min(expected, region_floats - 1);
    switch (choices_.below(20)) {
      case 0: return std::span(region).first(expected + 1);
      case 1: return std::span(region).first(expected == 0 ? 0 : expected - 1);
      case 2: return {};
      case 3: {  // over another argument
        auto& other = regions_[choices_.below(regions_.size())];
        const std::size_t at = choices_.below(16);
        return std::span(other).subspan(at, std::min(expected, region_floats - at));
      }
      case 4: {  // the layer's own memory
        const auto own = view();
        return std::span(const_cast<float*>(own.data()), own.size()).first(std::min(expected, own.size()));
      }
      default: return std::span(region).first(expected);
    }
  }

  std::span<const float> view() {
    const std::size_t h = choices_.below(heads());
    switch (choices_.below(12)) {
      case 0: return layer_.k_heads()[h];
      case 1: return layer_.v_heads()[h];
      case 2: return layer_.importance();
      case 3: return layer_.sinks();
      case 4: return layer_.linear_state();
      case 5: return layer_.linear_scratch().value_or(std::span<const float>{});
      case 6: return layer_.bounded_keys();
      case 7: return layer_.bounded_values();
      case 8: return layer_.head_q8_keys(h)->scales;
      case 9: return layer_.head_q8_values(h)->columns;
      case 10: {
        const auto views = layer_.o1_views();
        return views ? views->at(h).ring_keys : std::span<const float>{};
      }
      default: {
        const auto views = layer_.o1_views();
        return views ? views->at(h).heads.at(0).T : std::span<const float>{};
      }
    }
  }

  Alive alive() {
    flags_.assign(heads(), 1);
    if (choices_.below(4) != 0) return {};
    for (auto& flag : flags_) flag = static_cast<std::uint8_t>(choices_.below(3));
    if (choices_.below(4) == 0) flags_.push_back(1);
    return flags_;
  }

  O1Config config() {
    return {choices_.below(6) == 0 ? static_cast<std::size_t>(count(4)) : 4 + choices_.below(3),
            choices_.below(6) == 0 ? static_cast<std::size_t>(count(1)) : 1 + choices_.below(4),
            choices_.below(6) == 0 ? static_cast<std::size_t>(count(2)) : choices_.below(4),
            static_cast<O1Rect>(choices_.below(12) == 0 ? 7 : choices_.below(2))};
  }

  Query query(std::size_t positions) {
    const std::size_t n = choices_.below(4);
    Query query;
    query.q_group = floats(0, positions * n * dim());
    query.kv_head = head();
    query.scale = scalar();
    query.first = static_cast<std::size_t>(choices_.below(2) == 0 ? 0 : count(length()));
    query.softcap = choices_.below(2) == 0 ? 0.0F : scalar();
    if (choices_.below(2) == 0) query.sinks = floats(1, n);
    return query;
  }

  std::size_t length() const { return static_cast<std::size_t>(std::min<std::uint64_t>(layer_.seq_len(), 4096)); }

  // --- Calls ------------------------------------------------------------------------------------------------------------

  /// Calls `f` with arguments that were drawn between braces, hence from left to right: drawn between the parentheses of the call
  /// they would come in the order that a compiler likes, and one input would be another call elsewhere.
  template <class... A, class F>
  static auto with(std::tuple<A...> drawn, F f) { return std::apply(f, std::move(drawn)); }

  void append(std::size_t n) {
    n = std::min(n, region_floats / row());
    answer(layer_.append_chunk(std::span(regions_[4]).first(n * row()), std::span(regions_[5]).first(n * row()), n, {}));
  }

  /// A collecting layer of T positions; sealed if wanted and long enough, aborted if told another NH than pushed.
  void collect(std::size_t T, std::size_t how) {
    answer(layer_.o1_begin({4, 2, 1, O1Rect::aggregate}));
    for (std::size_t i = 0; i < T && i < 30; ++i) {
      append(1);
      if (accepted()) answer(layer_.o1_push_q(std::span(regions_[6]).subspan(i, 2 * row())));
    }
    if (how != 0) answer(layer_.o1_seal(how == 1 ? 2 * heads() : heads()));
  }

  /// Other numbers in a caller's memory.
  std::string scribble() {
    auto& region = regions_[choices_.below(regions_.size())];
    for (std::size_t i = choices_.below(64); i < region.size(); i += 1 + choices_.below(200)) region[i] = scalar();
    return "scribble";
  }

  void bounded_step() {
    const auto window = static_cast<std::size_t>(choices_.below(8) == 0 ? choices_.pick<std::uint64_t>({0, 1, (1U << 20U) + 1, ~std::uint64_t{0}})
                                                                         : std::max<std::size_t>(layer_.bounded_window(), 1));
    const std::size_t pairs = choices_.below(4) == 0 ? choices_.below(40) : std::max<std::size_t>(dim() / 2, 1);
    const std::vector<float> frequencies(pairs, choices_.below(8) == 0 ? scalar() : 0.5F);
    const auto rope = Cache::Rope::create(window, frequencies, choices_.below(8) == 0 ? scalar() : 1.0F);
    if (!rope) return answer(rope);
    const auto query_heads = static_cast<std::size_t>(count(heads() * (1 + choices_.below(2))));
    const std::size_t q = query_heads > 16 ? 0 : query_heads * dim(), sinks = choices_.below(3) * row();
    BoundedSinks weights{floats(2, sinks), floats(3, sinks)};
    const auto out = choices_.below(16) == 0 ? std::span(const_cast<float*>(rope->cos().data()), rope->cos().size()) : floats(7, q);
    answer(with(std::tuple{floats(0, q), floats(4, row()), floats(5, row()), scalar()}, [&](auto query, auto k, auto v, auto scale) {
      return layer_.bounded_step(query, k, v, weights, *rope, scale, query_heads, out); }));
  }

  void group() {
    const std::size_t t = choices_.below(40), fan_out = 1 + choices_.below(2);
    auto made = with(std::tuple{config(), static_cast<std::size_t>(count(dim())), static_cast<std::size_t>(count(fan_out)), floats(4, t * dim()),
                                floats(5, t * dim()), floats(6, t * fan_out * dim())},
                     [](auto... drawn) { return Cache::O1Group::prefill(drawn...); });
    answer(made);
    if (made) group_ = std::move(*made);
  }

  void group_step() {
    if (!group_) return;
    const std::size_t fan_out = 1 + choices_.below(2);
    const auto own = group_->view();
    const std::span<const float> k = own && choices_.below(4) == 0 ? own->ring_keys.first(std::min(own->ring_keys.size(), dim())) : floats(4, dim());
    answer(with(std::tuple{floats(0, fan_out * dim()), floats(5, dim()), floats(7, fan_out * dim())}, [&](auto q, auto v, auto out) {
      return group_->step(q, k, v, out); }));
  }

  void import() {
    if (choices_.below(2) == 0) {
      if (auto record = layer_.export_wire(WireFormat::f32)) record_ = std::move(*record);
    }
    for (std::size_t i = choices_.below(3); i > 0 && !record_.empty(); --i) {
      record_[static_cast<std::size_t>(choices_.bits(2)) % record_.size()] = static_cast<std::uint8_t>(choices_.bits(1));
    }
    if (choices_.below(4) == 0) record_.resize(static_cast<std::size_t>(choices_.bits(1)));
    answer(layer_.import_wire(record_));
  }

  void many_layers() {
    auto cache = with(std::tuple{static_cast<std::size_t>(count(2)), static_cast<std::size_t>(count(1)), static_cast<std::size_t>(count(2)), count(3)},
                      [](auto... drawn) { return KvCache<Cache>::create(drawn...); });
    answer(cache);
    if (!cache) return;
    answer(with(std::tuple{static_cast<std::size_t>(count(1)), static_cast<EvictionPolicy>(choices_.below(3))}, [&](auto keep, auto policy) {
      return cache->evict(keep, policy); }));
  }

  void one_of(std::size_t which) {
    const auto n = [&](std::uint64_t expected) { return static_cast<std::size_t>(count(expected)); };
    const auto call = [&](const char* name, const auto& result) { name_ = name, answer(result); };
    switch (which) {
      case 0: return call("append", with(std::tuple{floats(4, row()), floats(5, row()), alive()}, [&](auto k, auto v, auto flags) { return layer_.append(k, v, flags); }));
      case 1: {
        const std::size_t rows = choices_.below(8) == 0 ? 70 : choices_.below(6);
        return call("append_chunk", with(std::tuple{floats(4, rows * row()), floats(5, rows * row()), n(rows), alive()}, [&](auto k, auto v, auto positions, auto flags) {
          return layer_.append_chunk(k, v, positions, flags); }));
      }
      case 2: return call("attend", with(std::tuple{floats(0, dim()), head()}, [&](auto q, auto h) { return layer_.attend(q, h); }));
      case 3: return call("attend_group", with(std::tuple{query(1), floats(7, choices_.below(4) * dim()), floats(3, length())}, [&](auto asked, auto out, auto acc) {
        return layer_.attend_group(asked, out, acc); }));
      case 4:
      case 5: {
        const Query asked = query(1);
        return call("attend_group_upto", with(std::tuple{n(length()), floats(7, asked.q_group.size()), floats(3, choices_.below(80))}, [&](auto upto, auto out, auto acc) {
          return layer_.attend_group_upto(asked, upto, out, acc); }));
      }
      case 6:
      case 7: {
        const std::size_t b = choices_.below(5);
        const Query asked = query(b);
        return call("attend_chunk", with(std::tuple{n(b), n(length() > b ? length() - b : 0), n(choices_.below(5)), floats(7, asked.q_group.size()), floats(3, choices_.below(80))},
                                         [&](auto positions, auto s0, auto window, auto out, auto acc) { return layer_.attend_chunk(asked, positions, s0, window, out, acc); }));
      }
      case 8: return call("accumulate_imp", layer_.accumulate_imp(floats(3, length())));
      case 9: return call("truncate_last", layer_.truncate_last(n(choices_.below(3))));
      case 10: return call("evict_recent", layer_.evict_recent(n(length() / 2)));
      case 11: return call("evict_by_mass", with(std::tuple{n(length() / 2), n(1), n(2)}, [&](auto keep, auto sink, auto recent) { return layer_.evict_by_mass(keep, sink, recent); }));
      case 12: name_ = "clear"; return choices_.below(4) == 0 ? layer_.clear() : void();
      case 13: {
        auto saved = layer_.snapshot();
        call("snapshot", saved);
        if (saved) saved_.emplace(std::move(*saved));
        return;
      }
      case 14: return saved_ ? call("restore", layer_.restore(*saved_)) : void();
      case 15: return call("set_mode", layer_.set_mode(static_cast<KvMode>(choices_.below(6))));
      case 16: return call("set_wire_kind", layer_.set_wire_kind(static_cast<WireKind>(choices_.below(5))));
      case 17: return call("linear_commit", with(std::tuple{floats(2, choices_.below(6)), count(1)}, [&](auto state, auto positions) { return layer_.linear_commit(state, positions); }));
      case 18: return call("linear_set_scratch", layer_.linear_set_scratch(floats(2, choices_.below(6))));
      case 19: return call("linear_accept_scratch", layer_.linear_accept_scratch());
      case 20: return call("discard_linear_scratch", layer_.discard_linear_scratch());
      case 21: return call("install_bounded", layer_.install_bounded(n(3)));
      case 22:
      case 23:
      case 24: name_ = "bounded_step"; return bounded_step();
      case 25: {
        auto ring = layer_.bounded_snapshot();
        call("bounded_snapshot", ring);
        if (ring && *ring) ring_ = std::move(*ring);
        return;
      }
      case 26: return ring_ ? call("bounded_restore", layer_.bounded_restore(*ring_)) : void();
      case 27: return call("o1_begin", layer_.o1_begin(config()));
      case 28: return call("o1_push_q", layer_.o1_push_q(floats(6, 2 * row())));
      case 29: return call("o1_seal", layer_.o1_seal(n(2 * heads())));
      case 30:
      case 31: return call("o1_step", with(std::tuple{floats(6, 2 * row()), floats(4, row()), floats(5, row()), n(2 * heads())}, [&](auto q, auto k, auto v, auto query_heads) {
        return layer_.o1_step(q, k, v, query_heads); }));
      case 32: name_ = "group"; return group();
      case 33:
      case 34: name_ = "group step"; return group_step();
      case 35: return call("export_wire", layer_.export_wire(static_cast<WireFormat>(choices_.below(2))));
      case 36: name_ = "import_wire"; return import();
      case 37: return call("set_sinks", layer_.set_sinks(floats(1, heads() * choices_.below(3))));
      case 38: name_ = "setters"; layer_.set_wire_layer(static_cast<std::uint32_t>(choices_.bits(4))); layer_.set_wire_identity(choices_.bits(8));
        return layer_.set_linear_wire_allowed(choices_.below(2) == 0);
      case 39: name_ = "clear_sinks"; return layer_.clear_sinks();
      case 40: return call("head views", layer_.head_len(head()));
      case 41: return call("head_keys", layer_.head_keys(head()));
      case 42: return call("head_q8_values", layer_.head_q8_values(head()));
      case 43: return call("wire_bytes", with(std::tuple{Geometry{n(2), n(3)}, count(4), n(2), count(5), static_cast<WireFormat>(choices_.below(2))},
                                        [](auto geometry, auto rows, auto live, auto vector, auto format) { return Cache::wire_bytes(geometry, rows, live, vector, format); }));
      default: name_ = "many layers"; return many_layers();
    }
  }

  Cache layer_;
  Choices choices_;
  std::array<std::vector<float>, 8> regions_;
  std::vector<std::uint8_t> flags_, record_;
  std::optional<typename Cache::Snapshot> saved_;
  std::optional<typename Cache::RingSnapshot> ring_;
  std::optional<typename Cache::O1Group> group_;
  std::string name_, answer_;
};

/// What a run saw: answers by "call: code", and the states the calls met.
struct ArgumentCoverage {
  std::set<std::string> answers, states;
  std::uint64_t calls = 0;
};

/// Makes the calls that the bytes say on both engines. The sentence of the first difference in answers, in the caller's memory
/// or in anything observable.
template <class EngineA, class EngineB>
std::optional<std::string> difference_in_calls(const EngineA& a, const EngineB& b, std::span<const std::uint8_t> bytes, ArgumentCoverage& coverage) {
  Choices choices(bytes);
  const Geometry geometry{1 + choices.below(2), choices.pick<std::size_t>({1, 2, 3, 4, 33})};
  auto made_a = a.make(geometry);
  auto made_b = b.make(geometry);
  if (!made_a || !made_b) return "a layer could not be made";
  Caller first(std::move(*made_a), choices);
  Caller second(std::move(*made_b), choices);
  first.prelude();
  second.prelude();
  for (std::size_t i = 0; !first.used_up() && i < 60; ++i) {
    coverage.states.insert(fmt::format("{}", static_cast<int>(first.layer().state())));
    const std::string answer = first.call();
    const std::string other = second.call();
    ++coverage.calls;
    coverage.answers.insert(answer.substr(0, answer.find("accepted ") == std::string::npos ? answer.size() : answer.find("accepted ") + 8));
    // How much memory an empty group of 2^50 query heads takes is each implementation's own affair. They part here.
    const bool memory = answer.ends_with("out_of_memory") != other.ends_with("out_of_memory");
    if (memory && (answer.starts_with("group:") || answer.starts_with("many layers:"))) return std::nullopt;
    if (answer != other) return fmt::format("call {}: \"{}\" and \"{}\"", i, answer, other);
    for (std::size_t r = 0; r < first.memory().size(); ++r) {
      if (auto found = difference(fmt::format("region {}", r), second.memory()[r], first.memory()[r])) return fmt::format("call {}, {}: {}", i, answer, *found);
    }
    if (auto found = difference(observe(first.layer()), observe(second.layer()))) return fmt::format("call {}, {}: they differ in {}", i, answer, *found);
  }
  return std::nullopt;
}

}  // namespace kvcert::certify
