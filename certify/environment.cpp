#include "certify/environment.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvcert::certify {

#if defined(__x86_64__)
namespace {
constexpr unsigned ftz = 1U << 15U;
constexpr unsigned daz = 1U << 6U;
constexpr unsigned down = 1U << 13U;
constexpr unsigned up = 2U << 13U;
constexpr unsigned zero = 3U << 13U;
constexpr unsigned masks = 0x3FU << 7U;
constexpr unsigned sticky = 0x3F;  // exception flags, which any operation may raise

unsigned bits_of(ModeSection::Mode mode) {
  switch (mode) {
    case ModeSection::Mode::flush_to_zero: return ftz | daz;
    case ModeSection::Mode::upward: return up;
    case ModeSection::Mode::downward: return down;
    case ModeSection::Mode::toward_zero: return zero;
    case ModeSection::Mode::trapping: return 0;
    case ModeSection::Mode::all_at_once: break;
  }
  return ftz | daz | up;
}
}  // namespace

bool ModeSection::supported() { return true; }
ModeSection::ModeSection(Mode mode) : saved_(_mm_getcsr()) {
  set_ = (saved_ & ~std::uint64_t{zero | ftz | daz | sticky}) | bits_of(mode);
  if (mode == Mode::trapping) set_ &= ~std::uint64_t{masks};
  _mm_setcsr(static_cast<unsigned>(set_));
}
ModeSection::~ModeSection() { _mm_setcsr(static_cast<unsigned>(saved_)); }
bool ModeSection::intact() const { return (_mm_getcsr() & ~sticky) == set_; }

std::uint64_t float_control() { return _mm_getcsr() & ~sticky; }
void set_float_control(std::uint64_t control) { _mm_setcsr(static_cast<unsigned>(control)); }
std::string describe_float_control(std::uint64_t now, std::uint64_t before) {
  std::string text;
  for (auto [bit, what] : {std::pair{ftz, "flush-to-zero"}, {daz, "denormals-are-zero"}}) {
    if (((now ^ before) & bit) != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, (now & bit) != 0 ? "was switched on" : "was switched off");
  }
  if (((now ^ before) & zero) != 0) text += fmt::format("{}the rounding mode was changed", text.empty() ? "" : ", ");
  if (((now ^ before) & masks) != 0) text += fmt::format("{}exceptions were unmasked or masked", text.empty() ? "" : ", ");
  return text;
}
#elif defined(__aarch64__)
namespace {
std::uint64_t control() {
  std::uint64_t value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void set_control(std::uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
}  // namespace

bool ModeSection::supported() { return true; }
ModeSection::ModeSection(Mode mode) : saved_(control()) {
  constexpr std::uint64_t fz = 1U << 24U;
  constexpr std::uint64_t of_mode[] = {fz, 1U << 22U, 2U << 22U, 3U << 22U, fz | 1U << 22U, 0};
  set_ = (saved_ & ~(fz | std::uint64_t{3} << 22U)) | of_mode[static_cast<std::size_t>(mode)];
  set_control(set_);
}
ModeSection::~ModeSection() { set_control(saved_); }
bool ModeSection::intact() const { return control() == set_; }

std::uint64_t float_control() { return control(); }
void set_float_control(std::uint64_t value) { set_control(value); }
std::string describe_float_control(std::uint64_t now, std::uint64_t before) {
  return fmt::format("FPCR became {:#x}, it was {:#x}", now, before);
}
#else
bool ModeSection::supported() { return false; }
ModeSection::ModeSection(Mode) {}
ModeSection::~ModeSection() = default;
bool ModeSection::intact() const { return true; }
std::uint64_t float_control() { return 0; }
void set_float_control(std::uint64_t) {}
std::string describe_float_control(std::uint64_t, std::uint64_t) { return {}; }
#endif

TestCase only_its_kernels_case() {
  TestCase test;
  test.geometry = {2, 20};
  test.alive = {1, 1};
  test.positions = test.upto = 33;
  test.k.assign(test.positions * test.row_floats(), 0.5F);
  test.v.assign(test.positions * test.row_floats(), 0.25F);
  test.q.assign(3 * test.geometry.head_dim, 0.125F);
  return test;
}

Outcome only_its_kernels_run(const OptimizedEngine& engine, const TestCase& test) {
  const auto isas = optimized::available_isas();
  std::vector<std::uint64_t> before;
  for (auto isa : isas) before.push_back(optimized::kernel_calls(isa));
  const auto layer = filled_layer(engine, test);
  if (layer.isa() != engine.isa) return violated(fmt::format("the layer says it runs {}", optimized::name(layer.isa())));
  ask(layer, test);
  for (std::size_t i = 0; i < isas.size(); ++i) {
    const std::uint64_t calls = optimized::kernel_calls(isas[i]) - before[i];
    if (isas[i] == engine.isa && calls == 0) return violated(fmt::format("no {} kernel was called", engine.name()));
    if (isas[i] != engine.isa && calls != 0) {
      return violated(fmt::format("{} kernel calls of {} while {} was asked for", calls, optimized::name(isas[i]), engine.name()));
    }
  }
  return holds();
}

}  // namespace kvcert::certify
