#include "optimized/rope_entry.hpp"

#include <bit>
#include <cstdint>
#include <optional>

#include "optimized/fixed_point.hpp"
#include "optimized/float_bits.hpp"

namespace kvcert::optimized {
namespace {

/// A finite x ≥ 0 as m · 2^exponent, 2^23 ≤ m < 2^24 unless x = 0.
struct Exact {
  std::uint64_t m;
  int exponent;
};

Exact exact(float x) {
  const std::uint32_t bits = float_bits(x) & 0x7FFFFFFF;
  if (bits == 0) return {0, 0};
  if (bits >> 23 != 0) return {(bits & 0x7FFFFF) | 0x800000, static_cast<int>(bits >> 23) - 150};
  const int shift = std::countl_zero(bits) - 8;
  return {std::uint64_t{bits} << shift, -149 - shift};
}

/// Magnitudes of sin and cos of one angle, integer and fraction, and signs.
template <std::size_t N>
struct SinCos {
  Limbs<N + 1> sin, cos;
  bool sin_negative, cos_negative;
};

/// Units of 2^(-64·N) that sin_cos may be off by.
constexpr std::uint64_t sin_cos_error = 64;

/// Of x = m · 2^exponent, m < 2^44, x < 2^20 and exponent ≥ −90.
///   * t = x − k·π/2 is exact but for π/2, which has another 64 bits (k < 2^20: 2^-44 units), until it is cut: 1 unit.
///     |t| ≤ π/4 + 2^-30.
///   * z = t²: 2·|t| + 1 < 2.6. Horner, q = 1/n! − z·q: each step at most 2 + 2.6·q < 3.4, of which the next keeps z <
///     0.62: 9 in all, and 1 for the rest of the series.
///   * cos = 1 − z·q: 10 + 2.6 + 1. sin = t − t·(z·q): 1 + 14 + 1.
template <std::size_t N>
SinCos<N> sin_cos(std::uint64_t m, int exponent) {
  constexpr auto half_pi = with_integer(upper_limbs<N + 1>(half_pi_minus_1), 1);  // N + 1 limbs of fraction

  // k = x / (π/2) to the nearest integer, from 40 bits below the point.
  const std::uint64_t coarse = exponent >= -40 ? m << (exponent + 40) : exponent <= -104 ? 0 : m >> (-40 - exponent);
  constexpr std::uint64_t two_over_pi = 0x517CC1B727220A94;  // ⌊2^63 · 2/π⌋
  const auto k = static_cast<std::uint64_t>((static_cast<Wide>(coarse) * two_over_pi + (Wide{1} << 102)) >> 103);
  Limbs<N + 2> t = shifted<N + 2>(m, static_cast<unsigned>(64 * static_cast<int>(N + 1) + exponent));
  t = subtract(t, scaled(half_pi, k));
  const bool negative = t[N + 1] >> 63 != 0;
  if (negative) t = subtract(Limbs<N + 2>{}, t);

  Limbs<N> angle{};
  for (std::size_t i = 0; i < N; ++i) angle[i] = t[i + 1];
  const Limbs<N> z = multiply(angle, angle);
  const auto& coefficient = inverse_factorial<N>;
  Limbs<N> even{}, odd{};  // 1/2! − z/4! + …, 1/3! − z/5! + …
  for (std::size_t n = series_terms<N> - 1; n >= 2; --n) {
    Limbs<N>& sum = n % 2 == 0 ? even : odd;
    sum = subtract(coefficient[n], multiply(z, sum));
  }
  const Limbs<N> minus_cos = multiply(z, even);                       // 1 − cos
  const Limbs<N> sine = subtract(angle, multiply(angle, multiply(z, odd)));
  const Limbs<N + 1> s = with_integer(sine, 0);
  const Limbs<N + 1> c = subtract(with_integer(Limbs<N>{}, 1), with_integer(minus_cos, 0));

  switch (k % 4) {
    case 0: return {s, c, negative, false};
    case 1: return {c, s, false, !negative};
    case 2: return {s, c, !negative, true};
    default: return {c, s, true, negative};
  }
}

/// The binary32 encoding of magnitude · square · 2^exponent; nothing where the error leaves the rounding open, unless
/// this is the last attempt.
template <std::size_t N>
std::optional<std::uint64_t> times_square(const Limbs<N + 1>& magnitude, std::uint64_t square, int exponent) {
  constexpr bool last = N == 4;
  Limbs<N + 2> low = with_integer(magnitude, 0), margin{};
  margin[0] = sin_cos_error;
  if (!less(margin, low)) {
    if (!last) return std::nullopt;
    margin = {};
  }
  const Limbs<N + 2> high = scaled(add(low, margin), square);
  low = scaled(subtract(low, margin), square);
  const int unit = exponent - 64 * static_cast<int>(N);
  const std::uint64_t bits = rounded(low, unit, binary32);
  if (bits != rounded(high, unit, binary32) && !last) return std::nullopt;
  return bits;
}

/// A zero is +0.
float signed_float(bool negative, std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) | (negative && bits != 0 ? 0x80000000U : 0U));
}

}  // namespace

RopeEntry rope_entry(std::size_t distance, float inv_freq, float scale) {
  const Exact factor = exact(scale);
  const std::uint64_t square = factor.m * factor.m;  // in [2^46, 2^48)
  const int square_exponent = 2 * factor.exponent;
  const Exact f = exact(inv_freq);
  const std::uint64_t m = distance * f.m;            // Δ·f = m · 2^f.exponent, exact: 20 + 24 bits
  if (m == 0) return {signed_float(false, rounded(Limbs<1>{square}, square_exponent, binary32)), 0.0F};

  const int magnitude = static_cast<int>(std::bit_width(m)) + f.exponent;  // Δ·f < 2^magnitude
  std::optional<float> cos, sin;
  // Tiny angles: x²/2 · square < 1 for x < 2^-25, so cos(x) · square lies strictly between square − 1 and square, and
  // there is no rounding boundary between these, which have 47 bits and more. x²/6 · (m · square) < 1 for x < 2^-46:
  // likewise.
  if (magnitude <= -25) cos = signed_float(false, rounded(Limbs<1>{square - 1}, square_exponent, binary32, true));
  if (magnitude <= -46) {
    const Limbs<2> product = subtract(scaled(Limbs<2>{square, 0}, m), Limbs<2>{1, 0});
    sin = signed_float(false, rounded(product, square_exponent + f.exponent, binary32, true));
  }
  const auto evaluate = [&]<std::size_t N>() {
    const SinCos<N> value = sin_cos<N>(m, f.exponent);
    const auto decide = [&](std::optional<float>& entry, const Limbs<N + 1>& magnitude, bool negative) {
      if (entry) return;
      const auto bits = times_square<N>(magnitude, square, square_exponent);
      if (bits) entry = signed_float(negative, *bits);
    };
    decide(cos, value.cos, value.cos_negative);
    decide(sin, value.sin, value.sin_negative);
  };
  if (!cos || !sin) evaluate.operator()<2>();
  // sin and cos of a rational other than 0 are transcendental, so there are no ties. Δ·f = p / 2^j with p < 2^44 and j
  // < 44 stays 2^-110 and more from every multiple of π/2 (convergents of π), so 256 bits leave 146 that count, 122 of
  // them behind a result's 24: beyond what 2^75 different entries can be expected to need.
  if (!cos || !sin) evaluate.operator()<4>();
  return {cos.value_or(0.0F), sin.value_or(0.0F)};
}

}  // namespace kvcert::optimized
