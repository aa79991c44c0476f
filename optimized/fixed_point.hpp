// Fractions of 64·N bits in integers, and rounding them to a floating-point format: how functions are evaluated to any
// accuracy without a mathematical library and whatever the floating-point environment.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace kvcert::optimized {

__extension__ using Wide = unsigned __int128;

/// Σ limb[i] · 2^(64·i), least significant limb first. As a fraction: that divided by 2^(64·N), so in [0, 1).
template <std::size_t N>
using Limbs = std::array<std::uint64_t, N>;

/// a + b; the carry out of the last limb is lost.
template <std::size_t N>
constexpr Limbs<N> add(const Limbs<N>& a, const Limbs<N>& b) {
  Limbs<N> sum{};
  Wide carry = 0;
  for (std::size_t i = 0; i < N; ++i) {
    carry += static_cast<Wide>(a[i]) + b[i];
    sum[i] = static_cast<std::uint64_t>(carry);
    carry >>= 64;
  }
  return sum;
}

/// a − b modulo 2^(64·N).
template <std::size_t N>
constexpr Limbs<N> subtract(const Limbs<N>& a, const Limbs<N>& b) {
  Limbs<N> difference{};
  Wide carry = 1;
  for (std::size_t i = 0; i < N; ++i) {
    carry += static_cast<Wide>(a[i]) + ~b[i];
    difference[i] = static_cast<std::uint64_t>(carry);
    carry >>= 64;
  }
  return difference;
}

template <std::size_t N>
constexpr bool less(const Limbs<N>& a, const Limbs<N>& b) {
  for (std::size_t i = N; i-- > 0;)
    if (a[i] != b[i]) return a[i] < b[i];
  return false;
}

/// a · b where the product is below 2^(64·N).
template <std::size_t N>
constexpr Limbs<N> scaled(const Limbs<N>& a, std::uint64_t b) {
  Limbs<N> product{};
  Wide carry = 0;
  for (std::size_t i = 0; i < N; ++i) {
    carry += static_cast<Wide>(a[i]) * b;
    product[i] = static_cast<std::uint64_t>(carry);
    carry >>= 64;
  }
  return product;
}

/// a / b rounded down.
template <std::size_t N>
constexpr Limbs<N> divided(const Limbs<N>& a, std::uint64_t b) {
  Limbs<N> quotient{};
  Wide rest = 0;
  for (std::size_t i = N; i-- > 0;) {
    rest = rest << 64 | a[i];
    quotient[i] = static_cast<std::uint64_t>(rest / b);
    rest %= b;
  }
  return quotient;
}

/// The product of fractions, rounded down.
template <std::size_t N>
constexpr Limbs<N> multiply(const Limbs<N>& a, const Limbs<N>& b) {
  std::array<std::uint64_t, 2 * N> product{};
  for (std::size_t i = 0; i < N; ++i) {
    Wide carry = 0;
    for (std::size_t j = 0; j < N; ++j) {
      carry += static_cast<Wide>(a[i]) * b[j] + product[i + j];
      product[i + j] = static_cast<std::uint64_t>(carry);
      carry >>= 64;
    }
    product[i + N] = static_cast<std::uint64_t>(carry);
  }
  Limbs<N> high{};
  for (std::size_t i = 0; i < N; ++i) high[i] = product[N + i];
  return high;
}

/// value · 2^shift where the result is below 2^(64·N).
template <std::size_t N>
constexpr Limbs<N> shifted(std::uint64_t value, unsigned shift) {
  Limbs<N> result{};
  const std::size_t limb = shift / 64;
  const Wide wide = static_cast<Wide>(value) << (shift % 64);
  if (limb < N) result[limb] = static_cast<std::uint64_t>(wide);
  if (limb + 1 < N) result[limb + 1] = static_cast<std::uint64_t>(wide >> 64);
  return result;
}

/// The most significant limbs: the same fraction, rounded down to fewer bits.
template <std::size_t To, std::size_t From>
constexpr Limbs<To> upper_limbs(const Limbs<From>& a) {
  static_assert(To <= From);
  Limbs<To> result{};
  for (std::size_t i = 0; i < To; ++i) result[i] = a[From - To + i];
  return result;
}

/// integer + fraction, the integer in a limb of its own.
template <std::size_t N>
constexpr Limbs<N + 1> with_integer(const Limbs<N>& fraction, std::uint64_t integer) {
  Limbs<N + 1> result{};
  for (std::size_t i = 0; i < N; ++i) result[i] = fraction[i];
  result[N] = integer;
  return result;
}

/// 1 / n! for 2 ≤ n < count, each rounded down exactly: ⌊⌊x / a⌋ / b⌋ = ⌊x / (a·b)⌋. The first two are no fractions.
template <std::size_t N, std::size_t count>
constexpr std::array<Limbs<N>, count> inverse_factorials() {
  std::array<Limbs<N>, count> result{};
  result[2][N - 1] = std::uint64_t{1} << 63;
  for (std::size_t n = 3; n < count; ++n) result[n] = divided(result[n - 1], n);
  return result;
}

/// Terms after which the series of exp on [0, ln 2] and of sin and cos on [0, π/4 + 2^-30] are below 2^(-64·N):
/// 0.79^35 / 35! < 2^-144, 0.79^59 / 59! < 2^-285.
template <std::size_t N>
inline constexpr std::size_t series_terms = N == 2 ? 35 : 59;
template <std::size_t N>
inline constexpr auto inverse_factorial = inverse_factorials<N, series_terms<N>>();

/// ln 2 and π/2 − 1, rounded down.
inline constexpr Limbs<5> ln_2{0xE7B876206DEBAC98, 0x8A0D175B8BAAFA2B, 0x40F343267298B62D, 0xC9E3B39803F2F6AF,
                               0xB17217F7D1CF79AB};
inline constexpr Limbs<5> half_pi_minus_1{0xA29410F31C6809BB, 0x04177D4C76273644, 0x52049C1114CF98E8,
                                          0x898CC51701B839A2, 0x921FB54442D18469};

/// A binary format: bits of precision, exponent of the smallest subnormal, and the encoding of infinity.
struct Format {
  int precision;
  int smallest_exponent;
  std::uint64_t infinity;
};
inline constexpr Format binary32{24, -149, 0x7F800000};
inline constexpr Format binary64{53, -1074, 0x7FF0000000000000};

/// The encoding of value · 2^exponent rounded to nearest even, subnormal and overflowing results included. value > 0.
/// With `more`, of something strictly between value and value + 1, times 2^exponent.
template <std::size_t N>
constexpr std::uint64_t rounded(const Limbs<N>& value, int exponent, Format format, bool more = false) {
  const auto limb = [&value](int i) -> std::uint64_t {
    return i < 0 || i >= static_cast<int>(N) ? 0 : value[static_cast<std::size_t>(i)];
  };
  // 64 bits of value from bit i on, zeros outside it.
  const auto bits_from = [&limb](int i) {
    const int whole = i >> 6, part = i & 63;
    return part == 0 ? limb(whole) : limb(whole) >> part | limb(whole + 1) << (64 - part);
  };
  int top = static_cast<int>(N) - 1;
  while (top > 0 && limb(top) == 0) --top;
  top = 64 * top + 63 - std::countl_zero(limb(top));  // the leading bit

  // One unit of the result is 2^unit; the bits of value below `dropped` are worth less.
  const int ideal = top + exponent - (format.precision - 1);
  const int unit = ideal > format.smallest_exponent ? ideal : format.smallest_exponent;
  const int dropped = unit - exponent;
  std::uint64_t significand = bits_from(dropped);
  if (dropped > 0 && (bits_from(dropped - 1) & 1) != 0) {  // at least half a unit: more than that, or to the even one?
    bool beyond = more || (significand & 1) != 0;
    for (int i = 0; i < dropped - 1 && !beyond; i += 64) {
      const int rest = dropped - 1 - i;
      beyond = (rest >= 64 ? limb(i / 64) : limb(i / 64) << (64 - rest)) != 0;
    }
    if (beyond) ++significand;
  }
  // A normal significand adds 1 to the exponent field by its leading bit; a carry does the right thing too.
  const int field = unit - format.smallest_exponent;
  if (field > 2048) return format.infinity;
  const std::uint64_t bits = (static_cast<std::uint64_t>(field) << (format.precision - 1)) + significand;
  return bits > format.infinity ? format.infinity : bits;
}

}  // namespace kvcert::optimized
