// One buffer, one shape of layer, two decoders: every duty of docs/wire.md that shows from outside.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "certify/observe.hpp"
#include "certify/player.hpp"
#include "fuzz/allocations.hpp"
#include "fuzz/digest.hpp"
#include "fuzz/furnished.hpp"
#include "fuzz/record_bytes.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "reference/layer_kv_cache.hpp"

namespace kvcert::fuzz {

/// How much of its input a decoder may ask for: an f16 record becomes f32 rows, the reference also keeps a list of its heads
/// and copies into vectors that grow. A refusal owes nothing but its sentence and that list.
struct MemoryBound {
  std::uint64_t of_input;
  std::uint64_t flat;
  bool allows(std::uint64_t asked, std::size_t input) const { return asked <= flat + of_input * input; }
};
inline constexpr MemoryBound memory_accepted{8, 4096}, memory_refused{4, 2048};

/// What one implementation made of a buffer.
struct Imported {
  std::optional<Error> refused;
  std::uint64_t asked_for = 0;  ///< bytes of memory
};

inline std::string describe(const Imported& imported) {
  if (!imported.refused) return "accepts";
  const Error& e = *imported.refused;
  return fmt::format("says {} at {} (expected {}, found {})", name(e.code), e.offset, e.expected, e.found);
}

/// One implementation's layer of a shape, brought back to what it was whenever a buffer has changed it.
template <LayerCache Cache>
class Subject {
 public:
  explicit Subject(const LayerShape& shape) : shape_(shape), pristine_(furnished<Cache>(shape)), live_(pristine_) {
    before_ = digest_of(live_);
  }

  void call(const Names& names) {
    if (names == names_) return;
    names_ = names;
    for (Cache* layer : {&pristine_, &live_}) set_names(*layer);
    before_ = digest_of(live_);
  }

  Imported import(ByteView bytes) {
    const std::uint64_t asked = bytes_asked_for();
    auto result = live_.import_wire(bytes);
    Imported imported{std::nullopt, bytes_asked_for() - asked};
    if (!result) imported.refused = std::move(result.error());
    return imported;
  }

  void bring_back() { live_ = pristine_; }
  std::uint64_t digest() const { return digest_of(live_); }
  std::uint64_t digest_before() const { return before_; }

  /// The digest of a layer of the same shape that had lived through nothing, after the same import.
  std::uint64_t digest_from_nothing(ByteView bytes) const {
    LayerShape shape = shape_;
    shape.life = Life::none;
    Cache layer = furnished<Cache>(shape);
    set_names(layer);
    return layer.import_wire(bytes) ? digest_of(layer) : 0;
  }

  /// Nothing, or how the record written now differs from the one owed.
  std::optional<std::string> written_again(const Bytes& owed) const {
    const auto again = live_.export_wire(owed[wire::offset_f16] == 1 ? WireFormat::f16 : WireFormat::f32);
    if (!again) return fmt::format("accepted, but export_wire refuses: {}", again.error().message);
    if (std::ranges::equal(*again, owed)) return std::nullopt;
    const auto at = std::ranges::mismatch(*again, owed).in1 - again->begin();
    return fmt::format("accepted, but written again differently at byte {} ({} bytes, owed {})", at, again->size(), owed.size());
  }
  std::optional<std::string> incoherence() const { return certify::incoherence(live_); }

  /// What a short life from here on answers, as one number.
  std::uint64_t afterlife() const { return afterlife_of(live_); }
  std::uint64_t afterlife_of_twin() const { return afterlife_of(pristine_); }

 private:
  void set_names(Cache& layer) const {
    layer.set_wire_identity(names_.identity);
    layer.set_wire_layer(names_.layer);
    layer.set_linear_wire_allowed(names_.linear_wire_allowed);
  }

  std::uint64_t afterlife_of(const Cache& layer) const {
    using certify::Op;
    // Each is played in every state; what the state does not have must be refused alike.
    constexpr std::array life{Op::linear_accept_scratch, Op::o1_step, Op::bounded_step, Op::append, Op::attend_group,
                              Op::truncate_last, Op::truncate_last, Op::bounded_step, Op::append, Op::attend_chunk,
                              Op::linear_commit, Op::accumulate_imp};
    const certify::Setting setting{.geometry = shape_.geometry, .fan_out = 1};
    certify::Player player(layer, setting);
    Digest digest;
    for (std::size_t i = 0; i < life.size(); ++i) {
      const auto reply = player.play(certify::materialize({life[i], 17 * i + 5}, setting, player.situation()));
      digest.add(reply.refused ? 1 + static_cast<std::uint64_t>(*reply.refused) : 0);
      digest.add(reply.count);
      for (std::uint32_t bits : reply.numbers) digest.add(bits);
    }
    digest.add(digest_of(player.cache()));
    return digest.value();
  }

  LayerShape shape_;
  Names names_;
  Cache pristine_, live_;
  std::uint64_t before_ = 0;
};

class ImportJudge {
 public:
  explicit ImportJudge(const LayerShape& shape) : kind_(shape.kind), reference_(shape), optimized_(shape) {}

  /// Nothing, or the duty that was broken. `deep` adds what is too slow for every run.
  std::optional<std::string> judge(const Names& names, ByteView bytes, bool deep) {
    reference_.call(names);
    optimized_.call(names);
    const Imported reference = reference_.import(bytes);
    const Imported optimized = optimized_.import(bytes);
    auto problem = verdicts(reference, optimized, bytes.size());
    if (!problem) problem = reference.refused ? after_refusal(deep) : after_import(names, bytes, deep);
    if (problem || !reference.refused || !optimized.refused) {
      reference_.bring_back();
      optimized_.bring_back();
    }
    return problem;
  }

 private:
  static std::optional<std::string> verdicts(const Imported& reference, const Imported& optimized, std::size_t size) {
    const bool alike = reference.refused.has_value() == optimized.refused.has_value() &&
                       (!reference.refused || same_verdict(*reference.refused, *optimized.refused));
    if (!alike) return fmt::format("the reference {}, the optimized decoder {}", describe(reference), describe(optimized));
    const MemoryBound bound = reference.refused ? memory_refused : memory_accepted;
    for (const Imported* imported : {&reference, &optimized}) {
      if (!bound.allows(imported->asked_for, size)) {
        return fmt::format("{}: for a buffer of {} bytes, {} bytes of memory were asked for",
                           imported == &reference ? "reference" : "optimized", size, imported->asked_for);
      }
    }
    return std::nullopt;
  }

  /// The same check on both; the problem says whose it is.
  template <class Check>
  std::optional<std::string> on_both(Check check) const {
    if (auto problem = check(reference_)) return "reference: " + *problem;
    if (auto problem = check(optimized_)) return "optimized: " + *problem;
    return std::nullopt;
  }

  std::optional<std::string> after_refusal(bool deep) const {
    return on_both([deep](const auto& subject) -> std::optional<std::string> {
      if (subject.digest() != subject.digest_before()) return "a refused import changed the layer";
      if (deep && subject.afterlife() != subject.afterlife_of_twin()) {
        return "after a refused import the layer lives on differently than a twin that never saw the bytes";
      }
      return std::nullopt;
    });
  }

  std::optional<std::string> after_import(const Names& names, ByteView bytes, bool deep) const {
    if (reference_.digest() != optimized_.digest()) return "both accept, and their layers differ";
    const Bytes owed = record_owed(bytes, names, kind_);
    if (auto problem = on_both([&](const auto& subject) { return subject.written_again(owed); })) return problem;
    if (!deep) return std::nullopt;
    if (reference_.afterlife() != optimized_.afterlife()) return "both accept, and their layers live on differently";
    return on_both([&](const auto& subject) -> std::optional<std::string> {
      if (auto broken = subject.incoherence()) return "after an accepted import: " + *broken;
      if (subject.digest_from_nothing(bytes) != subject.digest()) {
        return "what the layer was before the import shows through after it";
      }
      return std::nullopt;
    });
  }

  WireKind kind_;
  Subject<reference::LayerKvCache> reference_;
  Subject<optimized::LayerKvCache> optimized_;
};

}  // namespace kvcert::fuzz
