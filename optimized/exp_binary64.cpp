#include "optimized/exp_binary64.hpp"

#include <bit>
#include <cstdint>
#include <optional>

#include "optimized/fixed_point.hpp"

namespace kvcert::optimized {
namespace {

constexpr std::uint64_t infinity = binary64.infinity;

/// ±m · 2^exponent with m < 2^53, 2^-54 < |x| < 746; so exponent ≥ −106.
struct Argument {
  bool negative;
  std::uint64_t m;
  int exponent;
};

/// With fractions of 64·N bits; nothing where they do not decide the rounding. Errors in units of 2^(-64·N):
///   * r = |x| − k·ln 2 is exact but for ln 2, which has another 64 bits (k < 2^11: 2^-53 in all), until it is cut to N
///     limbs: 1. For x < 0 it is ln 2 − r.
///   * Horner, p = 1/n! + r·p, cuts twice a step: at most 2 / (1 − ln 2) < 7. The rest of the series: 1.
///   * e^r − 1 = r + r²·p cuts twice more; the error of r counts at most e^r < 2 times. Together below 16.
template <std::size_t N>
std::optional<std::uint64_t> try_exp(Argument x) {
  constexpr std::uint64_t error = 16;
  constexpr auto ln2 = with_integer(upper_limbs<N + 1>(ln_2), 0);  // N + 1 limbs of fraction

  // k = ⌊|x| / ln 2⌋, from 40 bits below the point at first, which may be 1 too small.
  const std::uint64_t coarse =
      x.exponent >= -40 ? x.m << (x.exponent + 40) : x.exponent <= -104 ? 0 : x.m >> (-40 - x.exponent);
  constexpr std::uint64_t inverse_ln2 = 12994641697113596;  // ⌊2^53 / ln 2⌋
  std::uint64_t k = static_cast<std::uint64_t>(static_cast<Wide>(coarse) * inverse_ln2 >> 93);
  Limbs<N + 2> r = shifted<N + 2>(x.m, static_cast<unsigned>(64 * static_cast<int>(N + 1) + x.exponent));
  r = subtract(r, scaled(ln2, k));
  for (; !less(r, ln2); ++k) r = subtract(r, ln2);
  int exponent = static_cast<int>(k);
  if (x.negative) {
    r = subtract(ln2, r);
    exponent = -exponent - 1;
  }

  Limbs<N> fraction{};
  for (std::size_t i = 0; i < N; ++i) fraction[i] = r[i + 1];
  Limbs<N> p{};
  for (std::size_t n = series_terms<N> - 1; n >= 2; --n) p = add(inverse_factorial<N>[n], multiply(fraction, p));
  const Limbs<N> power = add(fraction, multiply(multiply(fraction, fraction), p));

  const Limbs<N + 1> value = with_integer(power, 1);
  Limbs<N + 1> margin{};
  margin[0] = error;
  const int unit = exponent - 64 * static_cast<int>(N);
  const std::uint64_t low = rounded(subtract(value, margin), unit, binary64);
  const std::uint64_t high = rounded(add(value, margin), unit, binary64);
  if (low != high) return std::nullopt;
  return low;
}

}  // namespace

double exp_binary64(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t magnitude = bits & 0x7FFFFFFFFFFFFFFF;
  const bool negative = bits >> 63 != 0;
  if (magnitude > infinity) return std::bit_cast<double>(std::uint64_t{0x7FF8000000000000});
  // e^746 > 2^1024, e^-746 < 2^-1075.
  if (magnitude >= std::bit_cast<std::uint64_t>(746.0)) return std::bit_cast<double>(negative ? 0 : infinity);
  // Between 1 − 2^-54 and 1 + 2^-53 there is nothing but 1: e^x stays inside, by e^x > 1 + x.
  if (magnitude <= std::bit_cast<std::uint64_t>(0x1p-54)) return 1;
  const Argument argument{negative, (magnitude & 0xFFFFFFFFFFFFF) | std::uint64_t{1} << 52,
                          static_cast<int>(magnitude >> 52) - 1075};
  // No binary64 argument comes closer to a midpoint than about 2^-113 (Lefèvre, Muller 2003), so the second decides.
  if (const auto decided = try_exp<2>(argument)) return std::bit_cast<double>(*decided);
  return std::bit_cast<double>(try_exp<4>(argument).value_or(0x7FF8000000000000));
}

}  // namespace kvcert::optimized
