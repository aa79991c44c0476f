// Every kernel of every ISA this machine has, against the canonical order restated plainly: std::fma, MPFR for exp and
// tanh, one loop per sentence of optimized/kernels/kernels.hpp. Any bits, every size around a vector's, any alignment
// of 4 bytes, pages that nobody may touch around arrays, junk in registers before each call.
#include <boost/test/unit_test.hpp>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "optimized/dispatch.hpp"
#include "optimized/elementary.hpp"
#include "optimized/kernels/correct_rounding.hpp"
#include "optimized/kernels/kernels.hpp"
#include "tests/kernel_rows.hpp"

namespace {

using namespace kvcert::kernel_tests;
using kvcert::optimized::kernels::exp_slow;
using kvcert::optimized::kernels::tanh_slow;
using Floats = kvcert::kernel_tests::Guarded<float>;
using Function = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

constexpr float infinity = std::numeric_limits<float>::infinity();

// --- The canonical order, plainly ------------------------------------------------------------------------------------

/// f(x) correctly rounded to binary32, subnormals included, a NaN canonical.
float rounded(Function f, float x) {
  const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  mpfr_set_emin(-148);
  mpfr_set_emax(128);
  mpfr_t value;
  mpfr_init2(value, 24);
  mpfr_set_flt(value, x, MPFR_RNDN);
  const int ternary = f(value, value, MPFR_RNDN);
  mpfr_subnormalize(value, ternary, MPFR_RNDN);
  const float result = canonical(mpfr_get_flt(value, MPFR_RNDN));
  mpfr_clear(value);
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  return result;
}

std::vector<float> softmax(std::vector<float> s, std::size_t first_lane, const float* sink) {
  float m = -infinity;
  for (const float x : s) m = std::isnan(x) ? m : std::max(m, x);
  if (sink != nullptr && !std::isnan(*sink)) m = std::max(m, *sink);
  std::vector<float> lane(16, 0.0F);
  for (std::size_t i = 0; i < s.size(); ++i) {
    s[i] = rounded(mpfr_exp, s[i] - m);
    lane[(first_lane + i) % 16] += s[i];
  }
  float denominator = fold(lane);
  if (sink != nullptr) denominator += rounded(mpfr_exp, *sink - m);
  for (float& e : s) e = canonical(e / denominator);
  return s;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kernels)

BOOST_AUTO_TEST_CASE(who_is_asked) {
  for (const Isa isa : kvcert::optimized::available_isas()) std::printf("    %s\n", std::string(name(isa)).c_str());
  const Emulated emulated = emulated_avx512();
  if (emulated.table != nullptr)
    std::printf("    avx512, emulated\n");
  else
    std::printf("    not avx512, emulated: %s\n", emulated.why_not);
  BOOST_TEST(!kvcert::optimized::available_isas().empty());
}

// weighted_sum of one row is one fma an element: 256 × 256 triples a call. Small significands and addends near the
// product make ties and cancellations frequent.
BOOST_AUTO_TEST_CASE(fma_is_rounded_once) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 60; ++round) {
      const std::uint32_t mask = round % 3 == 0 ? 0xFFFFFFFF : round % 3 == 1 ? 0xFFFFF000 : 0xFFFFFC00;
      const auto draw = [&] { return from_bits(random_bits() & mask); };
      const auto narrow = [&] { return from_bits((random_bits() & mask & 0x80FFFFFF) | 0x3F000000); };
      Floats p(256), v(256), out(65536);
      const bool tiny = round % 4 == 3;  // products around the smallest subnormal
      for (float& x : p.view()) x = round % 2 != 0 ? narrow() * (tiny ? 0x1p-70F : 1) : draw();
      for (float& x : v.view()) x = round % 2 != 0 ? narrow() * (tiny ? 0x1p-70F : 1) : draw();
      std::vector<float> truth(65536);
      for (std::size_t i = 0; i < truth.size(); ++i) {
        const float a = p.view()[i / 256], b = v.view()[i % 256];
        float& c = out.view()[i];
        c = draw();
        if (round % 5 < 2) c = -a * b;                               // cancels to the product's lower half
        if (round % 5 == 2) c = a * b * from_bits(0x4B000000 + (random_bits() & 0x1FFFFFF));  // 24 bits and more above
        truth[i] = a == 0 ? c : std::fma(a, b, c);
      }
      junk_everywhere();
      kernel.weighted_sum(p.data(), 256, 1, v.data(), 1, 256, out.data());
      check_row(out, truth, false, "fma");
    }
  });
}

// Sums below 2^-126 that need more than 53 bits: 2^-75 (1 + k 2^-23) times 2^-75 (1 − k 2^-23) lies a hair below half
// of the smallest subnormal, and binary64 takes the sum with any larger subnormal for a tie.
BOOST_AUTO_TEST_CASE(fma_is_rounded_once_to_subnormals) {
  on_every_isa([](const Table& kernel) {
    for (std::uint32_t c = 0; c < 4096; ++c)
      for (const float k : {1.0F, 2.0F, 3.0F, -5.0F}) {
        const float a = 0x1p-75F * (1 + k * 0x1p-23F), b = 0x1p-75F * (1 - k * 0x1p-23F);
        for (const float addend :
             {from_bits(c), from_bits(0x80000000 | c), from_bits(c * 1999), from_bits(0x7FFFFF - c)}) {
          float sum = addend;
          junk_everywhere();
          kernel.weighted_sum(&a, 1, 1, &b, 1, 1, &sum);
          BOOST_REQUIRE_EQUAL(bits(sum), bits(std::fma(a, b, addend)));
        }
      }
  });
}

// Products that underflow to −0 leave −0 in every lane. A lane past the row's end must keep it: fma(0, 0, −0) is +0,
// and would show in the fold.
BOOST_AUTO_TEST_CASE(lanes_past_the_end_keep_their_sign) {
  on_every_isa([](const Table& kernel) {
    for (const std::size_t head_dim : sizes)
      for (const std::size_t heads : {1U, 2U, 3U, 4U, 5U}) {
        Floats q(heads * head_dim, -1e-30F), k(11 * head_dim, 1e-30F), out(heads * 11);
        junk_everywhere();
        kernel.scores(q.data(), heads, k.data(), 11, head_dim, 1, out.data(), 11);
        check_row(out, std::vector<float>(heads * 11, dot(q.data(), k.data(), head_dim)), false, "score");
      }
  });
}

BOOST_AUTO_TEST_CASE(scores_follow_the_canonical_order) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 3000; ++round) {
      const std::size_t heads = 1 + below(9), rows = 1 + below(35), head_dim = any_size(), stride = rows + below(5);
      Floats q(heads * head_dim, Mixture{}), k(rows * head_dim, Mixture{}), out(heads * stride);
      const float scale = below(4) == 0 ? Mixture{}() : 0.125F;
      junk_everywhere();
      kernel.scores(q.data(), heads, k.data(), rows, head_dim, scale, out.data(), stride);
      std::vector<float> truth(heads * stride, canary_float);
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t r = 0; r < rows; ++r)
          truth[h * stride + r] = dot(q.data() + h * head_dim, k.data() + r * head_dim, head_dim) * scale;
      check_row(out, truth, false, "score");
    }
  });
}

BOOST_AUTO_TEST_CASE(softcap_is_c_tanh_of_s_over_c) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 1000; ++round) {
      Floats row(any_size(), Mixture{});
      float cap = std::fabs(Mixture{}());
      if (!std::isfinite(cap) || cap == 0 || below(2) == 0) cap = 30.0F;
      if (below(10) == 0) cap = from_bits(1 + below(1000));  // subnormal
      std::vector<float> truth = row.copy();
      for (float& s : truth) s = cap * rounded(mpfr_tanh, s / cap);
      junk_everywhere();
      kernel.softcap_row(row.data(), row.view().size(), cap);
      check_row(row, truth, false, "capped score");
    }
  });
}

BOOST_AUTO_TEST_CASE(softmax_keeps_lanes_by_row_index) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 2000; ++round) {
      const std::size_t heads = 1 + below(5), n = any_size(), stride = n + below(20), first_lane = below(16);
      Floats p(heads * stride), sinks(heads, Mixture{});
      const bool with_sinks = below(2) == 0;
      std::vector<float> truth = p.copy();  // what lies between rows stays
      for (std::size_t h = 0; h < heads; ++h) {
        const auto row = p.view().subspan(h * stride, n);
        std::ranges::generate(row, Mixture{});
        if (round % 2 == 0)  // scores as models have them, some far below the maximum: subnormal and zero weights
          for (float& s : row)
            s = static_cast<float>(static_cast<int>(below(1 << 20))) * (round % 4 == 0 ? 0x1p-17F : -0x1p-13F);
        if (below(3) == 0) sinks.view()[h] = row[0];
        std::ranges::copy(softmax({row.begin(), row.end()}, first_lane, with_sinks ? &sinks.view()[h] : nullptr),
                          truth.begin() + static_cast<std::ptrdiff_t>(h * stride));
      }
      const auto* nowhere = reinterpret_cast<const void*>(below(3) * 4096 + 64);  // a hint reads nothing
      junk_everywhere();
      kernel.softmax_rows(p.data(), heads, stride, n, first_lane, with_sinks ? sinks.data() : nullptr, nowhere,
                          below(100000));
      check_row(p, truth, true, "probability");
    }
  });
}

// docs/arithmetic.md, "Special values".
BOOST_AUTO_TEST_CASE(softmax_special_values) {
  on_every_isa([](const Table& kernel) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float specials[] = {nan, infinity, -infinity, 0.0F, -0.0F, 3.4e38F, -3.4e38F, 1.0F};
    for (const float a : specials)
      for (const float b : specials)
        for (const float sink : specials)
          for (const std::size_t n : {1U, 2U, 20U}) {
            Floats row(n, a);
            row.view()[n / 2] = b;
            std::vector<float> column = row.copy();
            const std::vector<float> truth = softmax(column, 0, &sink);
            column.push_back(sink);
            junk_everywhere();
            kernel.softmax_rows(row.data(), 1, n, n, 0, &sink, nullptr, 0);
            check_row(row, truth, true, "probability");
            // Said once more in words: these make the whole head NaN, and nothing else does.
            const auto poison = [](float x) { return std::isnan(x) || x == infinity; };
            const auto low = [](float x) { return x == -infinity; };
            const bool is_nan = std::ranges::any_of(column, poison) || std::ranges::all_of(column, low);
            for (const float p : row.view()) BOOST_TEST((bits(p) == canonical_nan) == is_nan);
          }
  });
}

BOOST_AUTO_TEST_CASE(weighted_sum_skips_rows_of_probability_zero) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 3000; ++round) {
      const std::size_t heads = 1 + below(9), rows = 1 + below(40), head_dim = any_size(), stride = rows + below(5);
      Floats p(heads * stride, Mixture{}), v(rows * head_dim, Mixture{}), out(heads * head_dim, Mixture{});
      if (below(2) == 0)
        for (float& x : p.view()) x = below(4) == 0 ? (below(2) == 0 ? 0.0F : -0.0F) : std::fabs(x);
      if (below(3) == 0) std::ranges::fill(out.view(), -0.0F);
      std::vector<float> truth = out.copy();
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t d = 0; d < head_dim && p.view()[h * stride + r] != 0; ++d) {
            float& sum = truth[h * head_dim + d];
            sum = std::fma(p.view()[h * stride + r], v.view()[r * head_dim + d], sum);
          }
      junk_everywhere();
      kernel.weighted_sum(p.data(), heads, stride, v.data(), rows, head_dim, out.data());
      check_row(out, truth, false, "sum");
    }
  });
}

BOOST_AUTO_TEST_CASE(additions_and_canonical_nan) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 2000; ++round) {
      const std::size_t n = any_size(),
                        shift = round % 2 == 0 ? n + 1 : below(n + 1);  // odd rounds: row begins inside acc
      Floats memory(2 * n + 1, Mixture{});
      const float* row = memory.data() + shift;
      std::vector<float> truth = memory.copy();
      for (std::size_t i = 0; i < n; ++i) truth[i] = canonical(memory.view()[i] + row[i]);
      junk_everywhere();
      kernel.add_row(memory.data(), row, n);
      check_row(memory, truth, true, "sum");

      Floats any(n, Mixture{});
      truth = any.copy();
      std::ranges::transform(truth, truth.begin(), canonical);
      junk_everywhere();
      kernel.canonicalize_row(any.data(), n);
      check_row(any, truth, true, "element");
    }
  });
}

BOOST_AUTO_TEST_CASE(exp_and_tanh_are_correctly_rounded) {
  std::vector<float> arguments;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
    for (const std::uint32_t fraction : {0U, 1U, 2U, 0x3FFFFFU, 0x400000U, 0x7FFFFEU, 0x7FFFFFU})
      for (const std::uint32_t sign : {0U, 0x80000000U})
        arguments.push_back(from_bits(sign | exponent << 23 | fraction));
  for (const float edge :
       {88.72283F, -87.33654F, -103.97208F, -103.2789F, 9.0109F, 0.25F, 10.0F, 89.0F, -104.0F, 0x1p-13F})
    for (std::uint32_t i = 0; i < 200; ++i) arguments.push_back(from_bits(bits(edge) + i - 100));
  // The only two of all 2^32 on which the kernels' binary64 evaluation of exp, rounded without their test, would be
  // wrong.
  for (const std::uint32_t hard : {0x4283070FU, 0xBF81EADFU}) arguments.push_back(from_bits(hard));
  // Some of the 1431 on which the vector kernels' polynomial of degree 8, without its test, would be wrong.
  for (const std::uint32_t hard : {0x39C6BE5BU, 0x3D7B9304U, 0x3F0B2FDDU, 0x4024D7E3U, 0x413740D6U, 0x42338D20U,
                                   0xBCC9E878U, 0xBD52556DU, 0xBE36282EU, 0xBF4CA858U, 0xC06DFD52U, 0xC1A19D57U})
    arguments.push_back(from_bits(hard));
  for (int i = 0; i < 100000; ++i) arguments.push_back(from_bits(random_bits()));
  for (int i = 0; i < 100000; ++i)  // where the functions are neither constant nor the identity
    arguments.push_back(from_bits((random_bits() & 0x807FFFFF) | static_cast<std::uint32_t>(100 + below(34)) << 23));

  std::vector<float> exp_truth, tanh_truth;
  for (const float x : arguments) {
    exp_truth.push_back(rounded(mpfr_exp, x));
    tanh_truth.push_back(rounded(mpfr_tanh, x));
  }
  on_every_isa([&](const Table& kernel) {
    Floats exps(arguments.size()), tanhs(arguments.size());
    junk_everywhere();
    kernel.exp_row(arguments.data(), exps.data(), arguments.size());
    junk_everywhere();
    kernel.tanh_row(arguments.data(), tanhs.data(), arguments.size());
    check_row(exps, exp_truth, true, "exp");
    check_row(tanhs, tanh_truth, true, "tanh");
    for (const std::size_t n : sizes) {  // short rows, in place
      Floats row(n);
      std::copy_n(arguments.end() - static_cast<std::ptrdiff_t>(n), n, row.data());
      junk_everywhere();
      kernel.exp_row(row.data(), row.data(), n);
      check_row(row, {exp_truth.end() - static_cast<std::ptrdiff_t>(n), exp_truth.end()}, true, "exp");
    }
  });
  for (std::size_t i = 0; i < arguments.size();
       i += 7) {  // the slow path is right everywhere, not only where it is taken
    BOOST_REQUIRE_EQUAL(bits(exp_slow(arguments[i])), bits(exp_truth[i]));
    BOOST_REQUIRE_EQUAL(bits(tanh_slow(arguments[i])), bits(tanh_truth[i]));
    BOOST_REQUIRE_EQUAL(bits(kvcert::optimized::exp_correctly_rounded(arguments[i])), bits(exp_truth[i]));
    BOOST_REQUIRE_EQUAL(bits(kvcert::optimized::tanh_correctly_rounded(arguments[i])), bits(tanh_truth[i]));
  }
}

BOOST_AUTO_TEST_SUITE_END()
