#include "reference/rope.hpp"

#include <bit>
#include <optional>
#include <utility>

#include "reference/binary32.hpp"
#include "reference/checks.hpp"
#include "reference/exact.hpp"

namespace kvcert::reference {

namespace {

constexpr std::size_t largest_window = std::size_t{1} << 20;

struct Entry {
  std::uint32_t cos;
  std::uint32_t sin;
};

/// Both products enclosed to the given digits, if that is enough to round them.
template <unsigned digits>
std::optional<Entry> decide(std::size_t delta, float frequency, float scale) {
  using Real = Exact<digits>;
  const Real angle = Real::integer(static_cast<std::int64_t>(delta)) * Real::of(frequency);
  const Real scale_squared = Real::of(scale) * Real::of(scale);
  const Candidates cosine = (cos(angle) * scale_squared).candidates();
  const Candidates sine = (sin(angle) * scale_squared).candidates();
  if (!cosine.decided() || !sine.decided()) return std::nullopt;
  return Entry{cosine.low, sine.low};
}

/// Precisions in turn, until both ends of an enclosure round to the same number. That happens: at angle 0 the products
/// are met exactly, and at any other (a binary fraction) cosine and sine are transcendental, so no midpoint. (One that
/// takes more than 1025 bits is not known, and would be NaN.)
Entry entry(std::size_t delta, float frequency, float scale) {
  if (const auto found = decide<38>(delta, frequency, scale)) return *found;
  if (const auto found = decide<77>(delta, frequency, scale)) return *found;
  if (const auto found = decide<154>(delta, frequency, scale)) return *found;
  return decide<308>(delta, frequency, scale).value_or(Entry{canonical_nan, canonical_nan});
}

Result<void> check(std::size_t window, std::span<const float> inv_freq, float scale) {
  if (window < 1 || window > largest_window) {
    return refuse(ErrorCode::invalid_argument, largest_window, window,
                  sentence("window is ", window, ", which is not in 1 to ", largest_window));
  }
  if (inv_freq.empty()) return refuse(ErrorCode::invalid_argument, 1, 0, "there are no frequencies");
  if (!checked_product({window, inv_freq.size()})) {
    return refuse(ErrorCode::invalid_argument, max_count, window,
                  sentence("window ", window, " times ", inv_freq.size(), " frequencies is over 2^63 - 1"));
  }
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const Binary32 f = Binary32::of(inv_freq[i]);
    if (!f.is_nan() && !(f < Binary32()) && !(Binary32::one() < f)) continue;
    return refuse(ErrorCode::invalid_argument, 0, f.bits(),
                  sentence("frequency ", i, " (bits ", f.bits(), ") is not in 0 to 1"));
  }
  const Binary32 s = Binary32::of(scale);
  if (!s.is_finite() || !(Binary32() < s)) {
    return refuse(ErrorCode::invalid_argument, 0, s.bits(),
                  sentence("scale (bits ", s.bits(), ") is not positive and finite"));
  }
  return {};
}

}  // namespace

Result<BoundedRope> BoundedRope::create(std::size_t window, std::span<const float> inv_freq, float scale) {
  return or_out_of_memory([&]() -> Result<BoundedRope> {
    if (auto accepted = check(window, inv_freq, scale); !accepted) return handed_on(accepted);
    auto table = std::make_shared<Table>();
    table->window = window;
    table->half = inv_freq.size();
    table->cos.reserve(window * inv_freq.size());
    table->sin.reserve(window * inv_freq.size());
    const ExponentRange range = ExponentRange::widest();
    for (std::size_t delta = 0; delta < window; ++delta) {
      for (const float frequency : inv_freq) {
        const Entry found = entry(delta, frequency, scale);
        table->cos.push_back(std::bit_cast<float>(found.cos));
        table->sin.push_back(std::bit_cast<float>(found.sin));
      }
    }
    BoundedRope rope;
    rope.table_ = std::move(table);
    return rope;
  });
}

}  // namespace kvcert::reference
