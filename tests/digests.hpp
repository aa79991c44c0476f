// Digests of a fixed set of outputs: every operation, on inputs that integers make, so that nothing of them depends on
// a library, a compiler or a machine. corpus/digests.json holds what all of them must reproduce.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvcert/layer_cache.hpp"

namespace kvcert::digests {

struct Digest {
  std::string name;
  std::uint64_t value;
  friend bool operator==(const Digest&, const Digest&) = default;
};

/// FNV-1a over the bits of what it is given, least significant byte first.
class Fold {
 public:
  void bits(std::uint64_t x, int bytes) {
    for (int i = 0; i < bytes; ++i) value_ = (value_ ^ (x >> (8 * i) & 0xFF)) * 0x100000001B3;
  }
  void operator()(std::span<const float> values) {
    for (const float x : values) bits(std::bit_cast<std::uint32_t>(x), 4);
  }
  void operator()(std::span<const std::uint8_t> bytes) {
    for (const std::uint8_t x : bytes) bits(x, 1);
  }
  void operator()(const Q8Rows& rows) {
    for (const std::int8_t x : rows.values) bits(static_cast<std::uint8_t>(x), 1);
    (*this)(rows.scales);
    (*this)(rows.columns);
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325;
};

/// splitmix64 (Steele, Lea, Flood 2014).
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  /// 24 random bits below exponents from 2^-4 to 2^1, either sign: what models hold.
  float plain() {
    const std::uint64_t x = next();
    return std::bit_cast<float>(static_cast<std::uint32_t>((x & 0x807FFFFF) | (123 + (x >> 32) % 6) << 23));
  }
  /// Any exponent, subnormals and zeros included, nothing that is not finite.
  float wide() {
    const std::uint64_t x = next();
    return std::bit_cast<float>(static_cast<std::uint32_t>((x & 0x807FFFFF) | ((x >> 32) % 255) << 23));
  }
  /// Mostly plain; the rest infinite, NaN, zero, subnormal.
  float special() {
    static constexpr std::array<std::uint32_t, 8> values{0x7F800000, 0xFF800000, 0x7FC00000, 0xFF812345,
                                                         0x00000000, 0x80000000, 0x00000001, 0x807FFFFF};
    const std::uint64_t x = next();
    return x % 41 == 0 ? std::bit_cast<float>(values[x >> 32 & 7]) : plain();
  }

 private:
  std::uint64_t state_;
};

inline std::vector<float> plain(std::size_t n, std::uint64_t seed) {
  Numbers numbers(seed);
  std::vector<float> values(n);
  std::ranges::generate(values, [&] { return numbers.plain(); });
  return values;
}
inline std::vector<float> wide(std::size_t n, std::uint64_t seed) {
  Numbers numbers(seed);
  std::vector<float> values(n);
  std::ranges::generate(values, [&] { return numbers.wide(); });
  return values;
}
inline std::vector<float> special(std::size_t n, std::uint64_t seed) {
  Numbers numbers(seed);
  std::vector<float> values(n);
  std::ranges::generate(values, [&] { return numbers.special(); });
  return values;
}

/// What succeeds by the contract.
template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "digests: a call failed: %s\n", result.error().message.c_str());
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Digests of a cache, made by make(geometry, mode) → Result<Cache>.
template <class Cache, class Make>
class Outputs {
 public:
  explicit Outputs(Make make) : make_(make) {}

  std::vector<Digest> all() {
    attention("f32", KvMode::f32, plain);
    attention("f32 wide", KvMode::f32, wide);
    attention("f32 special", KvMode::f32, special);
    attention("q8", KvMode::q8, plain);
    attention("q8 keys only", KvMode::q8_keys, plain);
    attention("q8 values only", KvMode::q8_values, plain);
    taking_back();
    ring();
    overlay("o1 aggregate", O1Rect::aggregate);
    overlay("o1 fm", O1Rect::fm);
    return digests_;
  }

 private:
  using Source = std::vector<float> (*)(std::size_t, std::uint64_t);

  void add(std::string name, const Fold& fold) { digests_.push_back({std::move(name), fold.value()}); }

  Cache layer(Geometry geometry, KvMode mode) { return must<Cache>(make_(geometry, mode)); }

  /// Head dims below, at and past a register and a group of 32; rows past the freeze of int8.
  void attention(const std::string& name, KvMode mode, Source source) {
    struct Shape {
      std::size_t kv_heads, head_dim, rows, heads;
    };
    for (const Shape& s : {Shape{2, 64, 37, 4}, Shape{1, 20, 83, 3}, Shape{1, 128, 130, 5}, Shape{1, 7, 70, 9}}) {
      const std::size_t row = s.kv_heads * s.head_dim;
      Cache cache = layer({s.kv_heads, s.head_dim}, mode);
      const auto k = source(s.rows * row, 1), v = source(s.rows * row, 2);
      for (std::size_t i = 0; i < 5; ++i) must<void>(cache.append(std::span(k).subspan(i * row, row), std::span(v).subspan(i * row, row), {}));
      must<void>(cache.append_chunk(std::span(k).subspan(5 * row), std::span(v).subspan(5 * row), s.rows - 5, {}));
      const std::string shape = name + " " + std::to_string(s.head_dim);
      Fold stored;
      for (std::size_t head = 0; head < s.kv_heads; ++head) {
        stored(must<Q8Rows>(cache.head_q8_keys(head)));
        stored(must<Q8Rows>(cache.head_q8_values(head)));
      }
      if (mode != KvMode::f32) add(shape + " stored", stored);
      decode(shape, cache, s.kv_heads, s.head_dim, s.rows, s.heads, source);
      chunks(shape, cache, s.head_dim, s.rows, s.heads, source);
      if (mode == KvMode::f32) records(shape, cache);
    }
  }

  void decode(const std::string& name, const Cache& cache, std::size_t kv_heads, std::size_t head_dim, std::size_t rows,
              std::size_t heads, Source source) {
    struct Variant {
      const char* name;
      std::size_t first;
      float softcap;
      bool sinks;
    };
    const auto q = source(heads * head_dim, 3), sinks = plain(heads, 4);
    for (const Variant& v : {Variant{"", 0, 0, false}, Variant{" window", rows - 19, 0, false}, Variant{" sinks", 0, 0, true},
                             Variant{" softcap", 0, 3.5F, false}, Variant{" all", 11, 2.25F, true}}) {
      Fold fold;
      std::vector<float> out(heads * head_dim), acc(rows);
      for (std::size_t head = 0; head < kv_heads; ++head) {
        const Query query{.q_group = q, .kv_head = head, .scale = 0.375F, .first = v.first, .softcap = v.softcap,
                          .sinks = v.sinks ? std::span<const float>(sinks) : std::span<const float>()};
        must<void>(cache.attend_group(query, out, acc));
        fold(out);
        must<void>(cache.attend_group_upto(query, rows / 2, out, acc));
        fold(out);
        fold(acc);
      }
      add(name + " group" + v.name, fold);
    }
    Fold fold;
    const Attended attended = must<Attended>(cache.attend(std::span(q).first(head_dim), 0));
    fold(attended.output);
    fold(attended.probabilities);
    add(name + " attend", fold);
  }

  void chunks(const std::string& name, const Cache& cache, std::size_t head_dim, std::size_t rows, std::size_t heads,
              Source source) {
    const std::size_t positions = 9;
    const auto q = source(positions * heads * head_dim, 5), sinks = plain(heads, 6);
    for (const std::size_t window : {std::size_t{0}, std::size_t{11}}) {
      Fold fold;
      std::vector<float> out(q.size()), acc(rows);
      const Query query{.q_group = q, .kv_head = 0, .scale = 0.375F, .softcap = window == 0 ? 0.0F : 4.0F,
                        .sinks = window == 0 ? std::span<const float>() : std::span<const float>(sinks)};
      must<void>(cache.attend_chunk(query, positions, rows - positions - 3, window, out, acc));
      fold(out);
      fold(acc);
      add(name + " chunk" + (window == 0 ? "" : " window sinks softcap"), fold);
    }
  }

  /// Bytes, and what they are read as.
  void records(const std::string& name, Cache& cache) {
    must<void>(cache.accumulate_imp(plain(3, 7)));
    for (const WireFormat format : {WireFormat::f32, WireFormat::f16}) {
      const auto bytes = cache.export_wire(format);
      const std::string record = name + (format == WireFormat::f16 ? " record f16" : " record f32");
      Fold fold;
      if (!bytes) {  // values that binary16 does not hold
        fold.bits(static_cast<std::uint64_t>(bytes.error().code), 4);
        fold.bits(bytes.error().found, 8);
        fold.bits(bytes.error().element, 8);
        add(record + " refused", fold);
        continue;
      }
      fold(*bytes);
      Cache read = layer(cache.geometry(), KvMode::f32);
      must<void>(read.import_wire(*bytes));
      for (std::size_t head = 0; head < cache.geometry().num_kv_heads; ++head) {
        fold(must<std::span<const float>>(read.head_keys(head)));
        fold(must<std::span<const float>>(read.head_values(head)));
      }
      fold(read.importance());
      add(record, fold);
    }
  }

  void taking_back() {
    Cache cache = layer({2, 24}, KvMode::f32);
    must<void>(cache.append_chunk(plain(50 * 48, 8), plain(50 * 48, 9), 50, {}));
    must<void>(cache.accumulate_imp(plain(50, 10)));
    must<void>(cache.truncate_last(3));
    must<std::size_t>(cache.evict_by_mass(30, 4, 9));
    Fold fold;
    for (const std::size_t head : {0U, 1U}) fold(must<Attended>(cache.attend(plain(24, 11), head)).output);
    fold(cache.importance());
    add("evicted", fold);
  }

  /// A window that fills, wraps and is taken back; pairs that fill registers and pairs that do not.
  void ring() {
    struct Shape {
      std::size_t kv_heads, head_dim, half, window, sinks, heads;
    };
    for (const Shape& s : {Shape{2, 64, 32, 19, 4, 8}, Shape{1, 21, 5, 6, 0, 3}, Shape{1, 40, 16, 11, 1, 5}}) {
      const std::string name = "ring " + std::to_string(s.head_dim);
      const std::size_t row = s.kv_heads * s.head_dim;
      std::vector<float> frequencies(s.half);
      Numbers numbers(14);  // in [2^-16, 1), by their bits: a division would obey the caller's rounding mode
      for (float& f : frequencies) {
        const std::uint64_t x = numbers.next();
        f = std::bit_cast<float>(static_cast<std::uint32_t>((x & 0x7FFFFF) | (111 + (x >> 32) % 16) << 23));
      }
      const auto rope = must<typename Cache::Rope>(Cache::Rope::create(s.window, frequencies, 1.125F));
      Fold table;
      table(rope.cos());
      table(rope.sin());
      add(name + " rope", table);
      Cache cache = layer({s.kv_heads, s.head_dim}, KvMode::f32);
      must<void>(cache.install_bounded(s.window));
      const auto sink_keys = plain(s.sinks * row, 12), sink_values = plain(s.sinks * row, 13);
      std::vector<float> out(s.heads * s.head_dim);
      Fold fold;
      for (std::size_t t = 0; t < s.window + 9; ++t) {
        if (t == s.window + 5) must<void>(cache.truncate_last(3));
        must<void>(cache.bounded_step(plain(out.size(), 100 + t), plain(row, 200 + t), plain(row, 300 + t),
                                      BoundedSinks{sink_keys, sink_values}, rope, 0.25F, s.heads, out));
        fold(out);
      }
      add(name + " steps", fold);
      for (const WireFormat format : {WireFormat::f32, WireFormat::f16}) {
        Fold record;
        record(must<std::vector<std::uint8_t>>(cache.export_wire(format)));
        add(name + (format == WireFormat::f16 ? " record f16" : " record f32"), record);
      }
    }
  }

  /// Sealing, then steps in which rows leave the ring.
  void overlay(const std::string& name, O1Rect rect) {
    const std::size_t head_dim = 40, kv_heads = 2, heads = 6, rows = 60;
    Cache cache = layer({kv_heads, head_dim}, KvMode::f32);
    must<void>(cache.o1_begin({.landmarks = 6, .window = 9, .sink = 3, .rect = rect}));
    for (std::size_t t = 0; t < rows; ++t) {
      must<void>(cache.append(plain(kv_heads * head_dim, 400 + t), plain(kv_heads * head_dim, 500 + t), {}));
      must<void>(cache.o1_push_q(plain(heads * head_dim, 600 + t)));
    }
    if (!must<bool>(cache.o1_seal(heads))) std::abort();
    const auto state = [&](const std::string& when) {
      Fold fold;
      const auto views = cache.o1_views();
      if (!views) std::abort();
      for (const O1GroupView& group : *views) {
        for (const auto part : {group.sink_keys, group.sink_values, group.ring_keys, group.ring_values, group.K_tilde}) fold(part);
        for (const O1HeadView& head : group.heads)
          for (const auto part : {head.T, head.Z, head.mu, head.Q_tilde, head.M}) fold(part);
      }
      add(name + when, fold);
    };
    state(" sealed");
    Fold fold;
    for (std::size_t t = 0; t < 14; ++t)
      fold(must<std::vector<float>>(cache.o1_step(plain(heads * head_dim, 700 + t), plain(kv_heads * head_dim, 800 + t),
                                                  plain(kv_heads * head_dim, 900 + t), heads)));
    add(name + " steps", fold);
    state(" after");
  }

  Make make_;
  std::vector<Digest> digests_;
};

/// One digest a line, in the order of the set.
inline std::string to_json(const std::vector<Digest>& digests) {
  std::string text = "{\n";
  for (std::size_t i = 0; i < digests.size(); ++i) {
    char value[17];
    std::snprintf(value, sizeof value, "%016llx", static_cast<unsigned long long>(digests[i].value));
    text += "  \"" + digests[i].name + "\": \"" + value + (i + 1 < digests.size() ? "\",\n" : "\"\n");
  }
  return text + "}\n";
}

}  // namespace kvcert::digests
