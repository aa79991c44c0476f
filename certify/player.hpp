// Plays moves on a layer and writes down everything the calls answer.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "certify/bits.hpp"
#include "certify/moves.hpp"
#include "certify/observe.hpp"
#include "kvcert/layer_cache.hpp"

namespace kvcert::certify {

/// What one call answered: a code or nothing, numbers as bits, and a count.
struct Reply {
  std::optional<ErrorCode> refused;
  std::vector<std::uint32_t> numbers;
  std::uint64_t count = 0;
  friend bool operator==(const Reply&, const Reply&) = default;
};

template <LayerCache Cache>
class Player {
 public:
  Player(Cache cache, const Setting& setting) : cache_(std::move(cache)), setting_(setting) {}

  const Cache& cache() const { return cache_; }

  /// Whether an attend_group move is asked without a limit.
  bool asks_all(const Move& move) const { return move.n == cache_.seq_len(); }

  Situation situation() const {
    Situation at;
    at.state = cache_.state();
    at.seq_len = cache_.seq_len();
    at.window = cache_.bounded_window();
    if (const auto alive = cache_.alive()) at.alive.assign(alive->begin(), alive->end());
    at.trace = cache_.o1_trace_positions();
    at.mode = cache_.mode();
    at.frozen = cache_.frozen();
    at.saved = saved_.size();
    return at;
  }

  Reply play(const Move& move) {
    switch (move.op) {
      case Op::append: {
        Reply reply = answer(cache_.append(move.k, move.v, move.alive));
        if (reply.refused || move.q.empty() || cache_.state() != LayerState::collecting) return reply;
        return answer(cache_.o1_push_q(move.q));
      }
      case Op::append_chunk: return answer(cache_.append_chunk(move.k, move.v, move.n, move.alive));
      case Op::attend: {
        auto result = cache_.attend(move.q, move.kv_head);
        if (!result) return answer(result);
        Reply reply{{}, bits(result->output), result->probabilities.size()};
        for (float x : result->probabilities) reply.numbers.push_back(bits(x));
        return reply;
      }
      case Op::attend_group:
      case Op::attend_chunk: return attend(move);
      case Op::accumulate_imp: return answer(cache_.accumulate_imp(move.acc));
      case Op::truncate_last: return answer(cache_.truncate_last(move.n));
      case Op::evict_recent: return counted(cache_.evict_recent(move.n));
      case Op::evict_by_mass: return counted(cache_.evict_by_mass(move.n, move.from, move.window));
      case Op::clear: cache_.clear(); return {};
      case Op::snapshot: {
        auto saved = cache_.snapshot();
        if (saved && saved_.size() < 4) saved_.push_back(std::move(*saved));
        return answer(saved);
      }
      case Op::restore: return saved_.empty() ? Reply{} : answer(cache_.restore(saved_[move.which]));
      case Op::set_mode: return answer(cache_.set_mode(move.mode));
      case Op::set_wire_kind: return answer(cache_.set_wire_kind(move.kind));
      case Op::linear_commit: return answer(cache_.linear_commit(move.v, move.n));
      case Op::linear_set_scratch: return answer(cache_.linear_set_scratch(move.v));
      case Op::linear_accept_scratch: return answer(cache_.linear_accept_scratch());
      case Op::discard_linear_scratch: return answer(cache_.discard_linear_scratch());
      case Op::install_bounded: return answer(cache_.install_bounded(move.n));
      case Op::bounded_step: return bounded_step(move);
      case Op::bounded_snapshot: {
        auto ring = cache_.bounded_snapshot();
        if (ring && *ring) ring_ = std::move(*ring);
        Reply reply = answer(ring);
        reply.count = ring && ring->has_value() ? 1 : 0;
        return reply;
      }
      case Op::bounded_restore: return ring_ ? answer(cache_.bounded_restore(*ring_)) : Reply{};
      case Op::o1_begin: return answer(cache_.o1_begin(move.o1));
      case Op::o1_push_q: return answer(cache_.o1_push_q(move.q));
      case Op::o1_seal: {
        auto sealed = cache_.o1_seal(move.heads);
        Reply reply = answer(sealed);
        reply.count = sealed && *sealed ? 1 : 0;
        return reply;
      }
      case Op::o1_step: {
        auto out = cache_.o1_step(move.q, move.k, move.v, move.heads);
        Reply reply = answer(out);
        if (out) reply.numbers = bits(*out);
        return reply;
      }
      case Op::round_trip: {
        auto bytes = cache_.export_wire(move.format);
        return bytes ? answer(cache_.import_wire(*bytes)) : answer(bytes);
      }
      case Op::import_record: return answer(cache_.import_wire(move.bytes));
      case Op::configure: return configure(move);
      case Op::group: return group(move);
    }
    return {};
  }

 private:
  template <class T>
  static Reply answer(const Result<T>& result) {
    return result ? Reply{} : Reply{result.error().code, {}, 0};
  }
  static Reply counted(const Result<std::size_t>& result) {
    return result ? Reply{{}, {}, *result} : Reply{result.error().code, {}, 0};
  }

  Reply attend(const Move& move) const {
    std::vector<float> out(move.out_floats, 77.0F);
    std::vector<float> acc = move.acc;
    Query query{.q_group = move.q, .kv_head = move.kv_head, .scale = move.scale, .first = move.from, .softcap = move.softcap,
                .sinks = move.sinks};
    Reply reply = move.op == Op::attend_chunk ? answer(cache_.attend_chunk(query, move.n, move.from, move.window, out, acc))
                  : asks_all(move)            ? answer(cache_.attend_group(query, out, acc))
                                              : answer(cache_.attend_group_upto(query, move.n, out, acc));
    reply.numbers = bits(out);  // also when refused: then both must be as they were
    for (float x : acc) reply.numbers.push_back(bits(x));
    return reply;
  }

  Reply bounded_step(const Move& move) {
    auto rope = Cache::Rope::create(move.window, move.inv_freq, move.softcap);
    if (!rope) return answer(rope);
    std::vector<float> out(move.out_floats, 77.0F);
    Reply reply = answer(cache_.bounded_step(move.q, move.k, move.v, BoundedSinks{move.sinks, move.acc}, *rope, move.scale,
                                             move.heads, out));
    reply.numbers = bits(out);
    return reply;
  }

  /// Kernels are the layer's own, where an implementation has a choice of them.
  Reply group(const Move& move) const {
    using Group = typename Cache::O1Group;
    const std::size_t dim = setting_.geometry.head_dim, fan_out = setting_.fan_out;
    const auto k = std::span(move.k), v = std::span(move.v), q = std::span(move.q);
    // A spoilt move may have lost a number, or count more rows than there are; the prefill then refuses, in both.
    const std::size_t t = std::min(move.n, k.size());
    const auto first = [](std::span<const float> all, std::size_t n) { return all.first(std::min(n, all.size())); };
    const auto rows = first(k, t * dim), values = first(v, t * dim), queries = first(q, t * fan_out * dim);
    auto made = [&] {
      if constexpr (requires { cache_.isa(); }) return Group::prefill(move.o1, dim, fan_out, rows, values, queries, cache_.isa());
      else return Group::prefill(move.o1, dim, fan_out, rows, values, queries);
    }();
    if (!made) return answer(made);
    Reply reply{{}, {}, made->exact_only() ? std::uint64_t{1} : std::uint64_t{2}};
    for (std::size_t i = t; (i + 1) * dim <= std::min(k.size(), v.size()) && (i + 1) * fan_out * dim <= q.size(); ++i) {
      std::vector<float> out(fan_out * dim);
      const auto stepped = made->step(q.subspan(i * fan_out * dim, fan_out * dim), k.subspan(i * dim, dim), v.subspan(i * dim, dim), out);
      if (!stepped) return answer(stepped);
      for (float x : out) reply.numbers.push_back(bits(x));
    }
    return reply;
  }

  Reply configure(const Move& move) {
    switch (move.which) {
      case 0: return answer(cache_.set_sinks(move.sinks));
      case 1: cache_.clear_sinks(); break;
      case 2: cache_.set_wire_layer(static_cast<std::uint32_t>(move.n)); break;
      case 3: cache_.set_wire_identity(move.n); break;
      default: cache_.set_linear_wire_allowed(move.n != 0); break;
    }
    return {};
  }

  Cache cache_;
  Setting setting_;
  std::vector<typename Cache::Snapshot> saved_;
  std::optional<typename Cache::RingSnapshot> ring_;
};

/// How often each operation was played and succeeded, each state was reached, and in how many histories each operator gave an
/// answer that was worth comparing: over rows, in each storage apart.
struct Coverage {
  std::map<std::string, std::uint64_t> played, succeeded, states, histories;
  void add(const Coverage& other) {
    for (const auto& [name, n] : other.played) played[name] += n;
    for (const auto& [name, n] : other.succeeded) succeeded[name] += n;
    for (const auto& [name, n] : other.states) states[name] += n;
    for (const auto& [name, n] : other.histories) histories[name] += n;
  }
};

/// "plain", "q8 frozen", "sealed, empty", …: the state's name in the coverage.
template <LayerCache Cache>
std::string state_name(const Cache& layer) {
  constexpr const char* states[] = {"plain", "collecting", "sealed", "aborted", "bounded", "linear"};
  constexpr const char* modes[] = {"", " q8", " q8_keys", " q8_values"};
  std::string text = states[static_cast<std::size_t>(layer.state())];
  text += modes[static_cast<std::size_t>(layer.mode())];
  if (layer.frozen()) text += " frozen";
  if (layer.seq_len() == 0) text += " empty";
  return text;
}

/// The operator that an accepted move was a use of, "attend_group q8_keys", or nothing where it had nothing to do. `rows` were
/// there before it.
template <class Player>
std::optional<std::string> operator_name(const Player& player, const Move& move, const Reply& reply, std::uint64_t rows) {
  constexpr const char* modes[] = {"", " q8", " q8_keys", " q8_values"};
  std::string text = name(move.op);
  switch (move.op) {
    case Op::attend:
    case Op::attend_group:
    case Op::attend_chunk:
      if (rows == 0 || reply.numbers.empty() || move.out_floats == 0) {
        if (move.op != Op::attend || reply.count == 0) return std::nullopt;
      }
      if (move.op == Op::attend_group && !player.asks_all(move)) text = "attend_group_upto";
      break;
    case Op::truncate_last:
    case Op::evict_recent:
    case Op::evict_by_mass:
      if (player.cache().seq_len() == rows) return std::nullopt;
      break;
    case Op::append:
    case Op::append_chunk:
    case Op::accumulate_imp: break;
    case Op::o1_seal: return reply.count == 1 ? std::optional(text) : std::nullopt;
    case Op::group: return text + (reply.count == 1 ? " exact-only" : " sealed");
    case Op::snapshot:
    case Op::restore:
    case Op::round_trip: return text;
    default: return text;
  }
  const auto state = player.cache().state();
  if (state == LayerState::bounded && move.op == Op::truncate_last) return text + " ring";
  return text + modes[static_cast<std::size_t>(player.cache().mode())];
}

/// The first difference between two replies to one call, or nothing.
inline std::optional<std::string> difference(const Reply& a, const Reply& b) {
  const auto code = [](const Reply& reply) { return std::string(reply.refused ? name(*reply.refused) : "accepted"); };
  if (a.refused != b.refused) return fmt::format("{} and {}", code(a), code(b));
  if (a.count != b.count) return fmt::format("counts {} and {}", a.count, b.count);
  for (std::size_t at = 0; at < a.numbers.size() && at < b.numbers.size(); ++at) {
    if (a.numbers[at] != b.numbers[at]) {
      return fmt::format("number {} is {} and {}", at, show(std::bit_cast<float>(a.numbers[at])), show(std::bit_cast<float>(b.numbers[at])));
    }
  }
  if (a.numbers.size() != b.numbers.size()) return "different counts of numbers";
  return std::nullopt;
}

/// Plays one history on an engine and on others beside it, of one type; after every step the replies and everything
/// observable must be equal. The sentence of the first difference, or nothing.
template <class EngineA, class EngineB>
std::optional<std::string> difference_in_history(const EngineA& a, std::span<const EngineB> others, const History& history, Coverage& coverage) {
  auto made_a = a.make(history.setting.geometry);
  if (!made_a) return "a layer could not be made";
  Player first(std::move(*made_a), history.setting);
  std::vector<Player<typename EngineB::Cache>> beside;
  for (const EngineB& other : others) {
    auto made = other.make(history.setting.geometry);
    if (!made) return "a layer could not be made";
    beside.emplace_back(std::move(*made), history.setting);
  }
  std::set<std::string> operators;
  for (std::size_t i = 0; i < history.steps.size(); ++i) {
    const Move move = materialize(history.steps[i], history.setting, first.situation());
    const std::uint64_t rows = first.cache().seq_len();
    const Reply reply = first.play(move);
    ++coverage.played[name(move.op)];
    coverage.succeeded[name(move.op)] += reply.refused ? 0 : 1;
    ++coverage.states[state_name(first.cache())];
    const auto where = [&](const std::string& what) {
      return fmt::format("step {} of {}, {} in state {}: {}", i + 1, history.steps.size(), name(move.op), state_name(first.cache()), what);
    };
    const Observed seen = observe(first.cache());
    for (std::size_t other = 0; other < beside.size(); ++other) {
      auto found = difference(reply, beside[other].play(move));
      if (!found) found = difference(seen, observe(beside[other].cache()));
      if (found) return where(fmt::format("{} and {} differ: {}", a.name(), others[other].name(), *found));
    }
    if (auto found = incoherence(first.cache())) return where(*found);
    if (reply.refused) continue;
    if (const auto used = operator_name(first, move, reply, rows)) operators.insert(*used);
  }
  for (const auto& used : operators) ++coverage.histories[used];
  return std::nullopt;
}

template <class EngineA, class EngineB>
std::optional<std::string> difference_in_history(const EngineA& a, const EngineB& b, const History& history, Coverage& coverage) {
  return difference_in_history(a, std::span<const EngineB>(&b, 1), history, coverage);
}

}  // namespace kvcert::certify
