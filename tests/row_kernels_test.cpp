// The kernels of int8 rows, binary16 arrays, the ring and the O(1) state, of every ISA this machine has, against plain
// restatements of optimized/kernels/kernels.hpp: one loop per sentence, std::fma, conversions on integers. Arrays end at
// pages that nobody may touch, registers hold junk before each call.
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "optimized/binary16.hpp"
#include "tests/kernel_rows.hpp"

namespace {

using namespace kvcert::kernel_tests;
using kvcert::optimized::kernels::Int8Kernels;
using kvcert::optimized::kernels::Rotation;

// --- int8 ------------------------------------------------------------------------------------------------------------

constexpr float smallest_scale = 1e-12F;

Guarded<std::int8_t>& fill(Guarded<std::int8_t>& rows) {
  for (std::int8_t& x : rows.view())
    x = static_cast<std::int8_t>(below(16) == 0 ? (below(2) == 0 ? 0 : 127) : static_cast<int>(below(255)) - 127);
  return rows;
}

float int8_score(const float* q, const std::int8_t* k, std::size_t head_dim, const float* scales, float scale) {
  const std::vector<float> key(k, k + head_dim);
  float sum = 0;
  for (std::size_t begin = 0; begin < head_dim; begin += 32)
    sum = std::fma(dot(q + begin, key.data() + begin, std::min<std::size_t>(32, head_dim - begin)), scales[begin / 32],
                   sum);
  return sum * scale;
}

/// To nearest, halves away from zero: std::round of the binary32 quotient.
std::int8_t quantized(float r, float s) {
  return static_cast<std::int8_t>(std::clamp(std::round(static_cast<double>(r / s)), -127.0, 127.0));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(row_kernels)

BOOST_AUTO_TEST_CASE(int8_scores_follow_the_canonical_order) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 3000; ++round) {
      const std::size_t heads = 1 + below(9), rows = 1 + below(35), head_dim = any_size(), stride = rows + below(5);
      const std::size_t groups = (head_dim - 1) / 32 + 1;
      Guarded<float> q(heads * head_dim, Mixture{}), scales(rows * groups, Mixture{}), out(heads * stride);
      Guarded<std::int8_t> k(rows * head_dim);
      fill(k);
      if (below(2) == 0)
        for (float& s : scales.view()) s = std::fabs(s);
      const float scale = below(4) == 0 ? Mixture{}() : 0.125F;
      std::vector<float> truth(heads * stride, canary_float);
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t r = 0; r < rows; ++r)
          truth[h * stride + r] = int8_score(q.data() + h * head_dim, k.data() + r * head_dim, head_dim,
                                             scales.data() + r * groups, scale);
      junk_everywhere();
      kernel.int8->scores(q.data(), heads, k.data(), rows, head_dim, scales.data(), scale, out.data(), stride);
      check_row(out, truth, false, "score");
    }
  });
}

// A product that is −0 leaves +0 in a lane that began as +0, and a group whose term underflows to −0 leaves −0: what
// groups of zeros behind it make of that tells a lane of +0 from one of −0.
BOOST_AUTO_TEST_CASE(int8_scores_keep_the_sign_of_zero) {
  on_every_isa([](const Table& kernel) {
    for (const std::size_t head_dim : sizes)
      for (const float x : {-0.0F, 0.0F, -1e-30F, -0x1p-149F})
        for (const int first : {0, 1, -1})
          for (const int rest : {0, 1, -1}) {
            const std::size_t groups = (head_dim - 1) / 32 + 1;
            Guarded<float> q(head_dim, x), scales(3 * groups, 1e-30F), out(3);
            Guarded<std::int8_t> k(3 * head_dim);
            for (std::size_t i = 0; i < 3 * head_dim; ++i)
              k.view()[i] = static_cast<std::int8_t>(i % head_dim < 32 ? first : rest);
            junk_everywhere();
            kernel.int8->scores(q.data(), 1, k.data(), 3, head_dim, scales.data(), 1, out.data(), 3);
            check_row(out, std::vector<float>(3, int8_score(q.data(), k.data(), head_dim, scales.data(), 1)), false,
                      "score");
          }
  });
}

BOOST_AUTO_TEST_CASE(int8_weighted_sum_skips_weights_of_zero) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 3000; ++round) {
      const std::size_t heads = 1 + below(9), rows = 1 + below(40), head_dim = any_size(), stride = rows + below(5);
      Guarded<float> p(heads * stride, Mixture{}), out(heads * head_dim, Mixture{});
      Guarded<std::int8_t> v(rows * head_dim);
      fill(v);
      if (below(2) == 0)
        for (float& x : p.view()) x = below(4) == 0 ? (below(2) == 0 ? 0.0F : -0.0F) : std::fabs(x);
      if (below(3) == 0) std::ranges::fill(out.view(), -0.0F);
      std::vector<float> truth = out.copy();
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t d = 0; d < head_dim && p.view()[h * stride + r] != 0; ++d) {
            float& sum = truth[h * head_dim + d];
            sum = std::fma(p.view()[h * stride + r], static_cast<float>(v.view()[r * head_dim + d]), sum);
          }
      junk_everywhere();
      kernel.int8->weighted_sum(p.data(), heads, stride, v.data(), rows, head_dim, out.data());
      check_row(out, truth, false, "sum");
    }
  });
}

BOOST_AUTO_TEST_CASE(rows_become_int8) {
  on_every_isa([](const Table& kernel) {
    std::size_t halves = 0;
    for (int round = 0; round < 4000; ++round) {
      const std::size_t n = any_size(), group = below(2) == 0 ? 32 : n, groups = (n - 1) / group + 1;
      Guarded<float> x(n, Mixture{}), columns(n, Mixture{}), scales(groups);
      Guarded<std::int8_t> q(n);
      for (float& c : columns.view()) c = std::isfinite(c) ? std::max(std::fabs(c), 1e-6F) : 1.0F;
      if (round % 4 == 0) {  // quotients that end in a half: multiples of 1/2, the largest 127
        for (float& each : x.view()) each = static_cast<float>(static_cast<int>(below(509)) - 254) * 0.5F;
        for (std::size_t i = 0; i < n; i += 32) x.view()[i] = 127;
      }
      if (round % 16 == 1)  // just below a half, where adding 0.5 in binary32 would round up
        for (float& each : x.view()) each = below(2) == 0 ? 0x1.fffffep-2F : 127.0F;
      const float* field = round % 4 != 0 && below(2) == 0 ? columns.data() : nullptr;
      bool finite = true;
      for (std::size_t i = 0; i < n; ++i)
        finite = finite && std::isfinite(x.view()[i]) && (field == nullptr || std::isfinite(x.view()[i] / field[i]));
      junk_everywhere();
      BOOST_REQUIRE_EQUAL(kernel.int8->quantizable(x.data(), field, n), finite);
      if (!finite) continue;
      std::vector<float> truth_scales;
      std::vector<std::int8_t> truth(n);
      for (std::size_t begin = 0; begin < n; begin += group) {
        float largest = 0;
        const std::size_t end = std::min(n, begin + group);
        const auto r = [&](std::size_t i) { return field == nullptr ? x.view()[i] : x.view()[i] / field[i]; };
        for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(r(i)));
        const float s = std::max(largest / 127.0F, smallest_scale);
        truth_scales.push_back(s);
        for (std::size_t i = begin; i < end; ++i) {
          truth[i] = quantized(r(i), s);
          halves += std::fabs(r(i) / s - std::trunc(r(i) / s)) == 0.5F;
        }
      }
      junk_everywhere();
      kernel.int8->quantize_row(x.data(), field, n, group, q.data(), scales.data());
      BOOST_TEST(q.intact());
      BOOST_REQUIRE(q.copy() == truth);
      check_row(scales, truth_scales, true, "scale");
    }
    BOOST_TEST(halves > 1000U);  // else nothing was said about them
  });
}

// --- binary16 --------------------------------------------------------------------------------------------------------

// The conversions on integers are themselves held against arithmetic in optimized_test.
BOOST_AUTO_TEST_CASE(every_binary16_comes_back) {
  on_every_isa([](const Table& kernel) {
    Guarded<std::uint16_t> halves(65536), again(65536);
    Guarded<float> wide(65536);
    for (std::size_t i = 0; i < 65536; ++i) halves.view()[i] = static_cast<std::uint16_t>(i);
    kernel.binary16->widen(reinterpret_cast<const unsigned char*>(halves.data()), wide.data(), 65536);
    for (std::size_t i = 0; i < 65536; ++i)
      BOOST_REQUIRE_EQUAL(bits(wide.view()[i]), kvcert::optimized::from_binary16(static_cast<std::uint16_t>(i)));
    BOOST_TEST(!kernel.binary16->narrow(wide.data(), reinterpret_cast<unsigned char*>(again.data()), 65536));
    BOOST_TEST(again.copy() == halves.copy());
  });
}

BOOST_AUTO_TEST_CASE(binary32_becomes_binary16) {
  on_every_isa([](const Table& kernel) {
    const auto check = [&](Guarded<float>& in) {
      const std::size_t n = in.view().size();
      Guarded<unsigned char> out(2 * n + 1);  // at an odd address half of the time
      unsigned char* at = out.data() + below(2);
      bool overflow = false;
      for (const float x : in.view()) overflow |= std::isfinite(x) && std::fabs(x) >= 65520;
      junk_everywhere();
      BOOST_REQUIRE_EQUAL(kernel.binary16->narrow(in.data(), at, n), overflow);
      BOOST_TEST(out.intact());
      for (std::size_t i = 0; i < n; ++i) {
        const unsigned half = at[2 * i] | static_cast<unsigned>(at[2 * i + 1]) << 8;
        BOOST_REQUIRE_EQUAL(half, kvcert::optimized::to_binary16(bits(in.view()[i])));
      }
      BOOST_TEST((at == out.data() ? out.data()[2 * n] : out.data()[0]) == 0xCB);
      // And back, from the same odd address.
      Guarded<float> wide(n);
      kernel.binary16->widen(at, wide.data(), n);
      BOOST_TEST(wide.intact());
      for (std::size_t i = 0; i < n; ++i)
        BOOST_REQUIRE_EQUAL(bits(wide.view()[i]), kvcert::optimized::from_binary16(static_cast<std::uint16_t>(
                                                      at[2 * i] | static_cast<unsigned>(at[2 * i + 1]) << 8)));
    };
    // Both sides of every midpoint and every number, each exponent's edges, NaNs.
    Guarded<float> edges(5 * 65536);
    for (std::size_t i = 0; i < 65536; ++i) {
      const std::uint32_t wide = kvcert::optimized::from_binary16(static_cast<std::uint16_t>(i));
      const std::uint32_t next = kvcert::optimized::from_binary16(static_cast<std::uint16_t>(i ^ 1));
      const std::uint32_t middle = wide / 2 + next / 2;
      for (std::size_t j = 0; j < 5; ++j)
        edges.view()[5 * i + j] = from_bits(j < 3 ? middle + j - 1 : wide + 2 * j - 7);
    }
    check(edges);
    // Where finite becomes infinite, alone among numbers that do not, in every lane: what one says is not drowned by another.
    for (const std::uint32_t size : {0x477FE000U, 0x477FEFFFU, 0x477FF000U, 0x477FF001U, 0x7F7FFFFFU, 0x7F800000U, 0x7FC00000U}) {
      for (std::size_t lane = 0; lane < 33; ++lane) {
        Guarded<float> in(33);
        std::ranges::fill(in.view(), 1.0F);
        in.view()[lane] = from_bits(size | (lane % 2 == 0 ? 0x80000000U : 0U));
        check(in);
      }
    }
    for (int round = 0; round < 3000; ++round) {
      Guarded<float> in(any_size(), Mixture{});
      if (round % 3 == 0)
        for (float& x : in.view()) x = from_bits(random_bits());
      if (round % 3 == 1)  // where binary16 is neither 0 nor infinite
        for (float& x : in.view()) x = from_bits((random_bits() & 0x807FFFFF) | (100 + below(45)) << 23);
      check(in);
    }
  });
}

// --- The ring --------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(rotated_scores_turn_the_query_for_each_row) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 3000; ++round) {
      const std::size_t heads = 1 + below(9), rows = 1 + below(20), stride = rows + below(5);
      // Half of the rounds with a model's shapes: whole registers, and odd numbers of them in half a head.
      const bool usual = below(2) == 0;
      const std::size_t head_dim = usual ? 16 * (1 + below(10)) : 1 + any_size();
      const std::size_t half = below(3) == 0 ? head_dim / 2
                               : usual       ? 8 * (1 + below(head_dim / 16))
                                             : std::max<std::size_t>(1, below(head_dim / 2 + 1));
      Guarded<float> q(heads * head_dim, Mixture{}), k(rows * head_dim, Mixture{}), out(heads * stride);
      Guarded<float> cos(rows * half, Mixture{}), sin(rows * half, Mixture{});
      const bool down = below(2) == 0;
      const auto row_at = [&](std::size_t r) { return k.data() + (down ? rows - 1 - r : r) * head_dim; };
      const float scale = below(4) == 0 ? Mixture{}() : 0.125F;
      std::vector<float> truth(heads * stride, canary_float);
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t r = 0; r < rows; ++r) {
          std::vector<float> turned(q.data() + h * head_dim, q.data() + (h + 1) * head_dim);
          for (std::size_t i = 0; i < half; ++i) {
            const float x0 = turned[i], x1 = turned[i + half], c = cos.data()[r * half + i], s = sin.data()[r * half + i];
            turned[i] = x0 * c - x1 * s;
            turned[i + half] = x0 * s + x1 * c;
          }
          truth[h * stride + r] = dot(turned.data(), row_at(r), head_dim) * scale;
        }
      junk_everywhere();
      const auto step = static_cast<std::ptrdiff_t>(head_dim);
      kernel.state->rotated_scores(q.data(), heads, row_at(0), down ? -step : step, rows, head_dim,
                                   Rotation{cos.data(), sin.data(), half}, scale, out.data(), stride);
      check_row(out, truth, false, "score");
    }
  });
}

BOOST_AUTO_TEST_CASE(stepped_sum_skips_rows_of_probability_zero) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 3000; ++round) {
      const std::size_t heads = 1 + below(9), rows = 1 + below(20), head_dim = any_size(), stride = rows + below(5);
      Guarded<float> p(heads * stride, Mixture{}), v(rows * head_dim, Mixture{}), out(heads * head_dim, Mixture{});
      if (below(2) == 0)
        for (float& x : p.view()) x = below(4) == 0 ? (below(2) == 0 ? 0.0F : -0.0F) : std::fabs(x);
      if (below(3) == 0) std::ranges::fill(out.view(), -0.0F);
      const bool down = below(2) == 0;
      const auto row_at = [&](std::size_t r) { return v.data() + (down ? rows - 1 - r : r) * head_dim; };
      std::vector<float> truth = out.copy();
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t d = 0; d < head_dim && p.view()[h * stride + r] != 0; ++d)
            truth[h * head_dim + d] = std::fma(p.view()[h * stride + r], row_at(r)[d], truth[h * head_dim + d]);
      junk_everywhere();
      const auto step = static_cast<std::ptrdiff_t>(head_dim);
      kernel.state->stepped_sum(p.data(), heads, stride, row_at(0), down ? -step : step, rows, head_dim, out.data());
      check_row(out, truth, false, "sum");
    }
  });
}

BOOST_AUTO_TEST_CASE(fma_rows_skips_nothing) {
  on_every_isa([](const Table& kernel) {
    for (int round = 0; round < 3000; ++round) {
      const std::size_t rows = 1 + below(20), n = any_size();
      Guarded<float> w(rows, Mixture{}), v(rows * n, Mixture{}), sum(n, Mixture{});
      if (below(2) == 0)
        for (float& x : w.view()) x = below(3) == 0 ? (below(2) == 0 ? 0.0F : -0.0F) : x;
      if (below(3) == 0) std::ranges::fill(sum.view(), -0.0F);
      std::vector<float> truth = sum.copy();
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t d = 0; d < n; ++d) truth[d] = std::fma(w.view()[r], v.view()[r * n + d], truth[d]);
      junk_everywhere();
      kernel.state->fma_rows(w.data(), v.data(), rows, n, sum.data());
      check_row(sum, truth, false, "sum");
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
