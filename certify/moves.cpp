#include "certify/moves.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "certify/random.hpp"

namespace kvcert::certify {
namespace {

using Weights = std::array<std::uint8_t, op_count>;

/// How often each operation comes in a life of this kind, beside one of every kind.
Weights weights(Theme theme) {
  Weights w{};
  w.fill(1);
  const auto often = [&](std::initializer_list<std::pair<Op, int>> list) {
    for (auto [op, times] : list) w[static_cast<std::size_t>(op)] = static_cast<std::uint8_t>(times);
  };
  often({{Op::attend_group, 6}, {Op::truncate_last, 3}, {Op::snapshot, 2}, {Op::restore, 2}});
  switch (theme) {
    case Theme::plain:
      often({{Op::append, 20}, {Op::append_chunk, 6}, {Op::attend, 3}, {Op::attend_chunk, 5}, {Op::accumulate_imp, 4},
             {Op::evict_recent, 4}, {Op::evict_by_mass, 4}, {Op::import_record, 3}});
      break;
    case Theme::q8:
    case Theme::q8_keys:
    case Theme::q8_values:
      often({{Op::append, 20}, {Op::append_chunk, 12}, {Op::attend, 4}, {Op::attend_chunk, 4}, {Op::accumulate_imp, 3}, {Op::evict_by_mass, 3}, {Op::evict_recent, 3},
             {Op::set_mode, 3}, {Op::clear, 0}, {Op::round_trip, 0}, {Op::import_record, 0}, {Op::install_bounded, 0}});
      break;
    case Theme::bounded: often({{Op::install_bounded, 12}, {Op::bounded_step, 40}, {Op::truncate_last, 8}, {Op::bounded_snapshot, 3},
                                {Op::bounded_restore, 3}, {Op::import_record, 3}, {Op::append, 0}, {Op::append_chunk, 0}}); break;
    case Theme::linear: often({{Op::set_wire_kind, 12}, {Op::linear_commit, 10}, {Op::linear_set_scratch, 8},
                               {Op::linear_accept_scratch, 8}, {Op::discard_linear_scratch, 4}, {Op::import_record, 4}, {Op::append, 0}, {Op::append_chunk, 0}}); break;
    case Theme::o1: often({{Op::o1_begin, 12}, {Op::append, 48}, {Op::o1_seal, 10}, {Op::o1_step, 18},
                           {Op::attend_chunk, 2}, {Op::clear, 0}, {Op::restore, 1}, {Op::append_chunk, 0}, {Op::truncate_last, 1},
                           {Op::import_record, 0}, {Op::round_trip, 0}}); break;
  }
  return w;
}

float number(Random& random, int flavour) {
  switch (flavour) {
    case 0: return static_cast<float>(random.below(7)) - 3.0F;
    case 1: return random.normal() * 20.0F;
    case 2: return random.normal() * 1e-4F;
    case 3: return random.chance(1, 12) ? random.any_bits() : random.normal();
    default: return random.normal();
  }
}

std::vector<float> numbers(Random& random, std::size_t n, bool wild = true) {
  const auto flavour = static_cast<int>(random.below(10));
  std::vector<float> result(n);
  for (float& x : result) x = number(random, !wild && flavour == 3 ? 4 : flavour);
  return result;
}

float scale(Random& random) { return random.chance(4, 5) ? random.pick({0.35355339F, 1.0F, 0.125F}) : random.normal(); }

/// Makes one argument wrong.
void spoil(Random& random, Move& move) {
  const auto resize = [&](std::vector<float>& tensor) {
    if (tensor.empty() || random.chance(1, 2)) tensor.push_back(1.0F); else tensor.pop_back();
  };
  switch (random.below(9)) {
    case 0: resize(move.k); break;
    case 1: resize(move.v); break;
    case 2: resize(move.q); break;
    case 3: move.sinks.push_back(0.5F); break;
    case 4: move.kv_head += random.pick<std::size_t>({1, 7, std::numeric_limits<std::size_t>::max() - 3}); break;
    case 5: move.scale = random.pick({std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0F, 0.0F}); break;
    case 6: move.n = random.pick<std::size_t>({0, std::size_t{1} << 40U, ~std::size_t{0}, std::size_t{1} << 63U}); break;
    case 7: move.out_floats += random.chance(1, 2) || move.out_floats == 0 ? 1 : ~std::size_t{0}; break;
    default: move.heads += random.pick<std::size_t>({1, ~std::size_t{0}}); break;
  }
}

/// Some bytes that may or may not be a record for such a layer.
std::vector<std::uint8_t> foreign_record(Random& random, const Setting& setting) {
  const auto [heads, dim] = setting.geometry;
  std::vector<std::uint8_t> bytes;
  const auto put = [&](std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  };
  const std::size_t rows = random.below(4);
  const auto kind = random.below(3);
  const std::uint64_t f16 = random.below(2);
  if (random.chance(4, 5)) {
    put(0x53464D43, 4), put(2, 4), put(0, 8), put(0, 4), put(kind, 1), put(f16, 1), put(0, 2), put(rows, 8);
  }
  if (kind == 1 && !bytes.empty()) {
    put(heads, 4), put(dim, 4), put(3, 4), put(random.bits(), 8), put(random.bits(), 4);
  } else {
    put(f16, 4), put(rows, 4), put(heads, 4), put(dim, 4), put(0, 4), put(rows, 4);
    for (std::size_t i = 0; i < rows; ++i) put(random.bits(), 4);
    for (std::size_t tensor = 0; tensor < 2 * heads; ++tensor) {
      put(rows * dim, 4);
      for (std::size_t i = 0; i < rows * dim; ++i) put(random.bits(), f16 != 0 ? 2 : 4);
    }
  }
  if (random.chance(1, 3)) bytes[random.below(bytes.size())] ^= static_cast<std::uint8_t>(1U << random.below(8));
  if (random.chance(1, 6)) bytes.resize(random.below(bytes.size() + 3));
  return bytes;
}

}  // namespace

const char* name(Op op) {
  constexpr const char* names[] = {
      "append", "append_chunk", "attend", "attend_group", "attend_chunk", "accumulate_imp", "truncate_last", "evict_recent",
      "evict_by_mass", "clear", "snapshot", "restore", "set_mode", "set_wire_kind", "linear_commit", "linear_set_scratch",
      "linear_accept_scratch", "discard_linear_scratch", "install_bounded", "bounded_step", "bounded_snapshot",
      "bounded_restore", "o1_begin", "o1_push_q", "o1_seal", "o1_step", "round_trip", "import_record", "configure", "group"};
  static_assert(std::size(names) == op_count);
  return names[static_cast<std::size_t>(op)];
}

History generate_history(std::uint64_t seed, std::size_t steps) {
  Random random(seed);
  History history;
  // Two more draws go to the overlay: many of its lives end before they are sealed.
  history.setting.theme = static_cast<Theme>(std::min(random.below(theme_count + 2), theme_count - 1));
  history.setting.geometry = {random.between(1, 3), random.pick<std::size_t>({1, 2, 3, 5, 8, 33})};
  history.setting.fan_out = random.between(1, 3);
  history.setting.seed = random.bits();
  const Weights w = weights(history.setting.theme);
  std::size_t total = 0;
  for (auto weight : w) total += weight;
  // The life begins as its theme wants it.
  switch (history.setting.theme) {
    case Theme::plain: break;
    case Theme::q8:
    case Theme::q8_keys:
    case Theme::q8_values: history.steps.push_back({Op::set_mode, random.bits()}); break;
    case Theme::bounded: history.steps.push_back({Op::install_bounded, random.bits()}); break;
    case Theme::linear: history.steps.push_back({Op::set_wire_kind, random.bits()}); break;
    case Theme::o1: history.steps.push_back({Op::o1_begin, random.bits()}); break;
  }
  const std::size_t length = 1 + random.below(2 * steps);
  for (std::size_t i = 0; i < length; ++i) {
    std::size_t draw = random.below(total);
    std::size_t op = 0;
    while (draw >= w[op]) draw -= w[op++];
    history.steps.push_back({static_cast<Op>(op), random.bits()});
  }
  return history;
}

std::vector<History> simpler(const History& history) {
  std::vector<History> candidates;
  const std::size_t n = history.steps.size();
  for (std::size_t length = n / 2; length >= 1; length /= 2) {
    for (std::size_t at = 0; at < n; at += length) {
      History shorter = history;
      const auto begin = shorter.steps.begin() + static_cast<std::ptrdiff_t>(at);
      shorter.steps.erase(begin, begin + static_cast<std::ptrdiff_t>(std::min(length, n - at)));
      candidates.push_back(std::move(shorter));
    }
  }
  const auto offer = [&](auto change) {
    History simpler = history;
    change(simpler.setting);
    const auto& a = simpler.setting;
    const auto& b = history.setting;
    if (!(a.geometry == b.geometry) || a.fan_out != b.fan_out) candidates.push_back(std::move(simpler));
  };
  offer([](Setting& s) { s.fan_out = 1; });
  offer([](Setting& s) { s.geometry.num_kv_heads = 1; });
  offer([](Setting& s) { s.geometry.head_dim = 1; });
  offer([](Setting& s) { s.geometry.head_dim = std::min<std::size_t>(s.geometry.head_dim, 2); });
  return candidates;
}

Move materialize(const Step& step, const Setting& setting, const Situation& at) {
  Random random(step.seed);
  Move move;
  move.op = step.op;
  const auto [kv_heads, dim] = setting.geometry;
  const std::size_t row = kv_heads * dim;
  const std::size_t group = setting.fan_out * dim;
  // A linear layer may have counted to 2^63; arguments stay small.
  const auto T = static_cast<std::size_t>(std::min<std::uint64_t>(at.seq_len, 4096));
  move.kv_head = random.below(kv_heads);
  move.heads = kv_heads * setting.fan_out;
  move.scale = scale(random);
  move.softcap = random.chance(1, 3) ? random.pick({5.0F, 0.5F, 30.0F}) : 0.0F;
  move.format = random.chance(1, 2) ? WireFormat::f32 : WireFormat::f16;
  // Whether rows may hold NaN, infinities and anything; seldom while collecting, where one such row makes every seal abort.
  const bool collecting = at.state == LayerState::collecting;
  const bool wild = random.chance(1, collecting ? 40 : 4);
  switch (step.op) {
    case Op::append_chunk: move.n = random.chance(1, 12) ? 0 : random.between(1, 20); [[fallthrough]];
    case Op::append: {
      const std::size_t n = step.op == Op::append ? 1 : move.n;
      move.k = numbers(random, n * row, wild);
      move.v = numbers(random, n * row, wild);
      move.alive = at.alive;
      if (at.alive.empty() && random.chance(1, 6)) {
        for (std::size_t head = 0; head < kv_heads; ++head) move.alive.push_back(random.chance(2, 3) ? 1 : 0);
      }
      if (random.chance(1, 30)) move.alive.assign(kv_heads, 1);
      // A collecting layer is told the position's queries with its rows; seldom not, and then sealing must abort.
      if (collecting && n == 1 && random.chance(59, 60)) move.q = numbers(random, move.heads * dim, wild);
      if (collecting && !wild) {  // scores whose exponentials are finite
        for (auto* tensor : {&move.k, &move.q}) {
          for (float& x : *tensor) x = std::clamp(x, -3.0F, 3.0F);
        }
      }
      break;
    }
    case Op::attend: move.q = numbers(random, dim, wild); break;
    case Op::attend_group:
      move.q = numbers(random, group, wild);
      if (random.chance(1, 2)) move.sinks = numbers(random, setting.fan_out, wild);
      move.from = random.chance(1, 2) ? 0 : random.below(T + 2);
      move.n = random.chance(1, 2) ? T : random.below(T + 2);
      move.acc = numbers(random, random.below(T + 3));
      move.out_floats = group;
      break;
    case Op::attend_chunk: {
      const std::size_t b = random.below(std::min<std::size_t>(T, 6) + 1);
      move.n = b;
      move.from = random.below(T - b + 1);
      move.window = random.chance(1, 3) ? 0 : random.between(1, T + 2);
      move.q = numbers(random, b * group, wild);
      if (random.chance(1, 2)) move.sinks = numbers(random, setting.fan_out, wild);
      move.acc = numbers(random, random.below(T + 3));
      move.out_floats = b * group;
      break;
    }
    case Op::accumulate_imp: move.acc = numbers(random, random.below(T + 1)); break;
    // Of a layer that has frozen its columns everything goes now and then: then it is empty, and in a state of its own.
    case Op::truncate_last:
      move.n = at.frozen && random.chance(1, 2) ? T : random.chance(1, 3) ? random.below(T + 2) : random.below(4);
      break;
    case Op::evict_recent: move.n = at.frozen && random.chance(1, 2) ? 0 : T - random.below(T / 3 + 1); break;
    case Op::evict_by_mass:
      move.n = T - random.below(T / 3 + 1);
      move.from = random.below(T + 2);
      move.window = random.below(T + 2);
      break;
    case Op::restore: move.which = at.saved == 0 ? 0 : random.below(at.saved); break;
    case Op::set_mode: {
      const KvMode theme = setting.theme == Theme::q8          ? KvMode::q8
                           : setting.theme == Theme::q8_keys   ? KvMode::q8_keys
                           : setting.theme == Theme::q8_values ? KvMode::q8_values
                                                               : KvMode::f32;
      move.mode = random.chance(4, 5) ? theme : random.pick({KvMode::f32, KvMode::q8, KvMode::q8_keys, KvMode::q8_values});
      break;
    }
    case Op::set_wire_kind:
      move.kind = random.chance(4, 5) && setting.theme == Theme::linear
                      ? WireKind::linear
                      : random.pick({WireKind::full, WireKind::linear, WireKind::bounded});
      break;
    case Op::linear_commit: move.v = numbers(random, random.below(6)), move.n = random.below(5); break;
    case Op::linear_set_scratch: move.v = numbers(random, random.below(6)); break;
    case Op::install_bounded: move.n = random.chance(1, 20) ? 0 : random.pick<std::size_t>({1, 2, 3, 5, 70}); break;
    case Op::bounded_step: {
      const std::size_t sinks = random.below(3);
      move.k = numbers(random, row, wild);
      move.v = numbers(random, row, wild);
      move.q = numbers(random, move.heads * dim, wild);
      move.sinks = numbers(random, sinks * row, wild);   // keys
      move.acc = numbers(random, sinks * row, wild);     // values
      move.window = random.chance(1, 30) ? at.window + 1 : std::max<std::size_t>(at.window, 1);
      const std::size_t half = random.chance(1, 30) ? dim : std::max<std::size_t>(1, random.below(dim / 2 + 1));
      for (std::size_t i = 0; i < half; ++i) move.inv_freq.push_back(random.pick({1.0F, 0.1F, 0.01F, 0.0F, 0.31622777F}));
      move.softcap = random.pick({1.0F, 1.1F, 0.5F});  // the rope's scale
      move.out_floats = move.heads * dim;
      break;
    }
    case Op::o1_begin:
      move.o1 = {random.chance(1, 20) ? 3 : random.between(4, 6), random.chance(1, 20) ? 0 : random.between(1, 4), random.below(4),
                 random.chance(1, 2) ? O1Rect::aggregate : O1Rect::fm};
      break;
    case Op::o1_push_q:
      move.q = numbers(random, move.heads * dim, false);
      break;
    case Op::o1_seal: break;
    case Op::o1_step:
      move.q = numbers(random, move.heads * dim, wild);
      move.k = numbers(random, row, wild);
      move.v = numbers(random, row, wild);
      break;
    case Op::import_record: move.bytes = foreign_record(random, setting); break;
    case Op::group: {
      move.o1 = {random.between(4, 6), random.between(1, 4), random.below(4), random.chance(1, 2) ? O1Rect::aggregate : O1Rect::fm};
      move.n = random.chance(1, 2) ? random.below(move.o1.window + move.o1.sink + o1_boundary + 1)
                                   : move.o1.window + move.o1.sink + o1_boundary + 1 + random.below(12);
      const std::size_t steps = 3;
      move.k = numbers(random, (move.n + steps) * dim, wild && random.chance(1, 4));
      move.v = numbers(random, (move.n + steps) * dim, wild);
      move.q = numbers(random, (move.n + steps) * group, wild && random.chance(1, 4));
      break;
    }
    case Op::configure:
      move.which = random.below(5);
      move.sinks = numbers(random, random.chance(1, 8) ? kv_heads + 1 : kv_heads * random.between(1, 3));
      move.n = random.below(3);
      break;
    default: break;
  }
  if (random.chance(1, 12)) spoil(random, move);
  return move;
}

}  // namespace kvcert::certify
