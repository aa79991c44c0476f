#include "optimized/default_scale.hpp"

#include <bit>
#include <limits>

namespace kvcert::optimized {
namespace {

/// significand · 2^exponent with 2^23 ≤ significand < 2^24.
struct Binary32 {
  std::uint64_t significand;
  int exponent;
};

/// Rounds (m + fraction) · 2^exponent to nearest even, where 2^25 ≤ m ≤ 2^26 and 0 < fraction < 1 iff inexact.
Binary32 round(std::uint64_t m, bool inexact, int exponent) {
  // Below 2^26 two bits go. At 2^26 (a power of two, exact) two bits go as well and leave 2^24: put right at the end.
  const std::uint64_t rest = (m & 3) << 1 | (inexact ? 1 : 0);
  std::uint64_t significand = m >> 2;
  if (rest > 4 || (rest == 4 && (significand & 1) != 0)) ++significand;
  exponent += 2;
  if (significand == std::uint64_t{1} << 24) return {significand >> 1, exponent + 1};
  return {significand, exponent};
}

/// ⌊√n⌋ for n < 2^52, bit by bit.
std::uint64_t floor_sqrt(std::uint64_t n) {
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 25; bit != 0; bit >>= 1)
    if ((root | bit) * (root | bit) <= n) root |= bit;
  return root;
}

}  // namespace

float default_scale(std::uint64_t head_dim) {
  if (head_dim == 0) return std::numeric_limits<float>::infinity();
  // √head_dim = √n · 2^half with n in [2^50, 2^52) and nothing lost: a root of 26 bits and whether there is a rest.
  std::uint64_t n = head_dim;
  int half = 0;
  bool inexact = false;
  for (; n < std::uint64_t{1} << 50; n <<= 2) --half;
  for (; n >= std::uint64_t{1} << 52; n >>= 2, ++half) inexact = inexact || (n & 3) != 0;
  const std::uint64_t root = floor_sqrt(n);
  const Binary32 square_root = round(root, inexact || root * root != n, half);

  // 1 / square_root = 2^49 / significand · 2^(−49 − exponent), a quotient in (2^25, 2^26].
  const std::uint64_t quotient = (std::uint64_t{1} << 49) / square_root.significand;
  const bool rest = (std::uint64_t{1} << 49) % square_root.significand != 0;
  const Binary32 scale = round(quotient, rest, -49 - square_root.exponent);

  // head_dim < 2^64, so the scale is at least 2^-32: a normal number.
  const auto biased = static_cast<std::uint32_t>(scale.exponent + 23 + 127);
  return std::bit_cast<float>(biased << 23 | (static_cast<std::uint32_t>(scale.significand) & 0x7FFFFF));
}

}  // namespace kvcert::optimized
