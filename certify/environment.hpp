// What the process around an engine can do to its bits: flush-to-zero, rounding modes, the wrong kernels.
#pragma once

#include "certify/engine.hpp"
#include "certify/laws/law.hpp"

namespace kvcert::certify {

/// Floating-point modes of this thread, as the hardware's control register holds them. Restored when it ends.
class ModeSection {
 public:
  enum class Mode : std::uint8_t { flush_to_zero, upward, downward, toward_zero, all_at_once, trapping };
  static constexpr Mode modes[] = {Mode::flush_to_zero, Mode::upward, Mode::downward, Mode::toward_zero, Mode::all_at_once,
                                   Mode::trapping};

  /// Sets the mode where this platform has a register that we know; `supported` says whether it did.
  explicit ModeSection(Mode mode);
  ~ModeSection();
  ModeSection(const ModeSection&) = delete;
  ModeSection& operator=(const ModeSection&) = delete;

  static bool supported();
  /// Whether the register still holds what this section put there.
  bool intact() const;

 private:
  std::uint64_t saved_ = 0;
  std::uint64_t set_ = 0;
};

constexpr const char* name(ModeSection::Mode mode) {
  constexpr const char* names[] = {"flush-to-zero and denormals-are-zero", "rounding upward", "rounding downward",
                                   "rounding toward zero", "flush-to-zero and rounding upward", "unmasked exceptions"};
  return names[static_cast<std::size_t>(mode)];
}

/// The register that holds the modes, without the flags that any operation may raise; 0 where none is known.
std::uint64_t float_control();
void set_float_control(std::uint64_t control);
/// "flush-to-zero and rounding upward were switched on": what differs from `before`, for a person.
std::string describe_float_control(std::uint64_t now, std::uint64_t before);

/// Questions under every mode (unmasked exceptions would end the process at the first inexact operation): the same bits, and the caller's mode still set afterwards.
template <class Engine>
Outcome environment_is_neutral(const Engine& engine, const TestCase& test) {
  if (!ModeSection::supported()) return not_exercised();
  const auto layer = filled_layer(engine, test);
  const Answer expected = ask(layer, test);
  const auto attended = must(layer.attend(std::span(test.q).first(test.geometry.head_dim), test.kv_head), "attend");
  std::vector<float> mass(test.positions, 0x1p-149F);
  auto heavier = layer;
  must(heavier.accumulate_imp(mass), "accumulate_imp");
  must(heavier.accumulate_imp(mass), "accumulate_imp");
  for (auto mode : ModeSection::modes) {
    Answer answer{std::vector<float>(test.q.size()), test.acc};
    bool intact = false;
    Result<Attended> again;
    auto layer_again = layer;
    float scale = 0;
    {
      const ModeSection section(mode);
      auto result = layer.attend_group_upto(test.query(), test.upto, answer.out, answer.acc);
      again = layer.attend(std::span(test.q).first(test.geometry.head_dim), test.kv_head);
      result = result ? layer_again.accumulate_imp(mass) : result;
      result = result ? layer_again.accumulate_imp(mass) : result;
      scale = Engine::Cache::default_scale(test.geometry.head_dim);
      intact = section.intact();
      if (!result) return violated(fmt::format("refused under {}: {}", name(mode), result.error().message));
    }
    if (!intact) return violated(fmt::format("{} was not put back", name(mode)));
    if (auto found = difference(answer, expected)) return violated(fmt::format("under {}: {}", name(mode), *found));
    if (!again) return violated(fmt::format("attend was refused under {}: {}", name(mode), again.error().message));
    if (auto found = difference("attend's output", again->output, attended.output)) {
      return violated(fmt::format("under {}: {}", name(mode), *found));
    }
    if (auto found = difference("probability", again->probabilities, attended.probabilities)) {
      return violated(fmt::format("under {}: {}", name(mode), *found));
    }
    if (auto found = difference("importance", layer_again.importance(), heavier.importance())) {
      return violated(fmt::format("under {}: {}", name(mode), *found));
    }
    if (bits(scale) != bits(Engine::Cache::default_scale(test.geometry.head_dim))) {
      return violated(fmt::format("under {}: default_scale({}) is {}", name(mode), test.geometry.head_dim, show(scale)));
    }
  }
  return holds();
}

/// Dispatch is honest: this engine's kernels count calls while it computes, and no other ISA's do.
Outcome only_its_kernels_run(const OptimizedEngine& engine, const TestCase& test);
/// The case for that: one with rows and live heads.
TestCase only_its_kernels_case();

}  // namespace kvcert::certify
