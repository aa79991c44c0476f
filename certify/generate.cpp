#include "certify/generate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "certify/random.hpp"
#include "optimized/layer_kv_cache.hpp"

namespace kvcert::certify {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Families of numbers. One tensor draws from one family, with a sprinkling of special values in Domain::any.
enum class Family : std::uint8_t { model, integers, constant, zeros, tiny, subnormal, spread, huge, wild };

/// A finite number with a chosen range of exponents: ±1.f × 2^e.
float with_exponent(Random& random, int low, int high) {
  const int exponent = low + static_cast<int>(random.below(static_cast<std::size_t>(high - low + 1)));
  const auto mantissa = 1.0F + static_cast<float>(random.bits() >> 41U) * 0x1p-23F;
  return std::ldexp(random.chance(1, 2) ? -mantissa : mantissa, exponent);
}

float number(Random& random, Family family) {
  switch (family) {
    case Family::integers: return static_cast<float>(random.below(9)) - 4.0F;
    case Family::constant: return 0.75F;
    case Family::zeros: return random.chance(1, 2) ? 0.0F : -0.0F;
    case Family::tiny: return with_exponent(random, -100, -40);
    case Family::subnormal: return std::bit_cast<float>(static_cast<std::uint32_t>(random.bits() >> 32U) & 0x807FFFFFU);
    case Family::spread: return with_exponent(random, -20, 12);
    case Family::huge: return with_exponent(random, 55, 127);
    case Family::wild: return random.any_bits();
    case Family::model: break;
  }
  return random.normal();
}

float special(Random& random) {
  return random.pick({infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0xFFA00001U),
                      std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(), 0x1p-149F, -0x1p-126F, 0.0F,
                      -0.0F});
}

Family family(Random& random, Domain domain) {
  if (random.chance(1, 2)) return Family::model;
  if (domain == Domain::finite) {
    return random.pick({Family::integers, Family::constant, Family::zeros, Family::tiny, Family::subnormal, Family::spread});
  }
  return random.pick({Family::integers, Family::constant, Family::zeros, Family::tiny, Family::subnormal, Family::spread,
                      Family::huge, Family::wild});
}

std::vector<float> tensor(Random& random, Domain domain, std::size_t size) {
  const Family chosen = family(random, domain);
  const float factor = random.chance(1, 4) ? random.pick({0.01F, 8.0F, 30.0F}) : 1.0F;
  const bool sprinkle = domain == Domain::any && random.chance(1, 6);
  std::vector<float> numbers(size);
  for (float& x : numbers) {
    x = number(random, chosen);
    if (chosen == Family::model) x *= factor;
    if (sprinkle && random.chance(1, 60)) x = special(random);
  }
  return numbers;
}

std::size_t rows_for(Random& random, std::size_t limit) {
  const std::size_t wanted = [&]() -> std::size_t {
    switch (random.below(8)) {
      case 0: return random.below(4);
      case 1: return random.between(4, 14);
      case 2: return random.between(15, 17);
      case 3: return 16 * random.between(1, 6) + random.below(3) - 1;
      case 4: return random.between(18, 70);
      case 5: return random.between(1, 30);
      case 6: return random.between(70, 200);
      default: return random.between(1, limit);
    }
  }();
  return std::min(wanted, limit);
}

float scale_for(Random& random, Domain domain, std::size_t head_dim) {
  if (random.chance(3, 5)) return optimized::LayerKvCache::default_scale(head_dim);
  if (domain == Domain::any && random.chance(1, 4)) return random.pick({0x1p-149F, 0x1p100F, -0x1p-120F, 3.0e38F});
  return random.pick({1.0F, 0.125F, -0.3F, 0.0F, -0.0F, 1.7F, 12.0F});
}

float softcap_for(Random& random, Domain domain) {
  if (random.chance(3, 5)) return random.chance(1, 8) ? -0.0F : 0.0F;
  if (domain == Domain::any && random.chance(1, 4)) return random.pick({0x1p-149F, 3.4e38F, 0x1p-126F});
  return random.pick({50.0F, 5.0F, 30.0F, 0.5F, 1.0e-3F});
}

float sink_for(Random& random, Domain domain) {
  if (random.chance(1, 12)) return -infinity;
  if (domain == Domain::any && random.chance(1, 12)) return special(random);
  return random.normal() * random.pick({1.0F, 4.0F, 20.0F});
}

}  // namespace

TestCase generate(std::uint64_t seed, Domain domain, Sizes sizes) {
  Random random(seed);
  TestCase test;
  test.salt = random.bits();
  const std::size_t head_dim = random.pick<std::size_t>({1, 3, 4, 7, 15, 16, 17, 32, 33, 64, 80, 96, 128, 256});
  const std::size_t kv_heads = random.pick<std::size_t>({1, 1, 2, 2, 3, 4});
  test.geometry = {kv_heads, head_dim};
  test.alive.assign(kv_heads, 1);
  if (kv_heads > 1 && random.chance(1, 8)) test.alive[random.below(kv_heads)] = 0;

  const std::size_t limit = std::min(sizes.max_rows, std::max<std::size_t>(sizes.max_floats / test.row_floats(), 1));
  test.positions = rows_for(random, limit);
  test.k = tensor(random, domain, test.positions * test.row_floats());
  test.v = tensor(random, domain, test.positions * test.row_floats());

  test.kv_head = random.below(kv_heads);
  const std::size_t heads = random.between(1, 8);
  test.q = tensor(random, domain, heads * head_dim);
  test.scale = scale_for(random, domain, head_dim);
  test.softcap = softcap_for(random, domain);
  test.first = random.chance(1, 2) ? 0 : random.below(test.positions + 2);
  test.upto = random.chance(2, 3) ? test.positions : random.below(test.positions + 3);
  if (random.chance(1, 2)) {
    for (std::size_t head = 0; head < heads; ++head) test.sinks.push_back(sink_for(random, domain));
  }
  test.acc = tensor(random, domain, random.chance(3, 4) ? test.positions : random.below(test.positions + 20));
  return test;
}

}  // namespace kvcert::certify
