// The reference's two arithmetics and its codec, against things made in another way: the hardware, MPFR at a precision
// where rounding is obvious, closed forms, every binary16 there is, and a peer's records.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <mpfr.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "kvcert/query.hpp"
#include "reference/attend.hpp"
#include "reference/binary16.hpp"
#include "reference/binary32.hpp"
#include "reference/evaluate.hpp"
#include "reference/wire.hpp"

namespace {

using kvcert::Query;
using kvcert::WireFormat;
using kvcert::reference::Binary32;
namespace reference = kvcert::reference;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float ulp = 0x1p-23F;  // of 1

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint32_t operation_bits(float value) { return std::isnan(value) ? 0x7FC00000 : bits(value); }

/// Bit patterns at full size, every sixth one special or next to something special.
class Patterns {
 public:
  std::uint32_t operator()() {
    constexpr std::array<std::uint32_t, 16> special{
        0,          0x80000000, 1,          0x80000001, 0x007FFFFF, 0x00800000, 0x807FFFFF, 0x3F800000,
        0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001};
    const auto random = static_cast<std::uint32_t>(engine_());
    switch (engine_() % 6) {
      case 0: return special[random % special.size()];
      case 1: return random & 0x80FFFFFF;                           // subnormals and the first normal binade
      case 2: return (random & 0x83FFFFFF) | 0x3C000000;            // of size near 1
      case 3: return (random & 0x81FFFFFF) | 0x1F000000;            // products are subnormal
      default: return random;
    }
  }

 private:
  std::mt19937_64 engine_{20240229};
};

/// f(x) to 400 bits, then to binary32 by MPFR's own conversion, which the code under test does not use.
template <class Function>
std::uint32_t rounded(Function f, float x) {
  mpfr_t real;
  mpfr_init2(real, 400);
  mpfr_set_flt(real, x, MPFR_RNDN);
  f(real, real, MPFR_RNDN);
  const std::uint32_t found = bits(mpfr_get_flt(real, MPFR_RNDN));
  mpfr_clear(real);
  return found;
}

/// head_dim 1, q = 0 unless given, scale 1.
struct Column {
  std::vector<float> keys, values, q{0.0F};
  float softcap = 0.0F;
  std::vector<float> sinks{};
  std::size_t first = 0, upto = SIZE_MAX;

  Query query() const {
    return {.q_group = q, .kv_head = 0, .scale = 1.0F, .first = first, .softcap = softcap, .sinks = sinks};
  }
  reference::GroupAnswer exact() const {
    auto answer = reference::exact_attend_group(query(), keys, values, 1, upto);
    BOOST_REQUIRE(answer.has_value());
    return *answer;
  }
  bool in_domain() const { return reference::exact_attend_group(query(), keys, values, 1, upto).has_value(); }
  reference::GroupAnswer canonical() const { return reference::canonical_attend_group(query(), keys, values, 1, upto); }
};

std::vector<std::uint8_t> file_bytes(const std::string& name) {
  const char* corpus = std::getenv("KVCERT_CORPUS");
  const std::string path = std::string(corpus != nullptr ? corpus : "corpus") + "/wire/peer/" + name;
  std::ifstream file(path, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(file, "cannot read " << path << "; KVCERT_CORPUS names the corpus folder");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reference_arithmetic)

BOOST_AUTO_TEST_CASE(binary32_is_the_hardware_s_arithmetic) {
  Patterns pattern;
  for (int i = 0; i < 400000; ++i) {
    const std::uint32_t x = pattern(), y = pattern();
    std::uint32_t z = pattern();
    const float a = std::bit_cast<float>(x), b = std::bit_cast<float>(y);
    if (i % 4 == 0) z = bits(-(a * b)) + static_cast<std::uint32_t>(i / 4 % 3) - 1;  // cancels to the last bits
    const float c = std::bit_cast<float>(z);
    const Binary32 p = Binary32::from_bits(x), q = Binary32::from_bits(y), r = Binary32::from_bits(z);
    const bool agree = (p + q).bits() == operation_bits(a + b) && (p - q).bits() == operation_bits(a - b) &&
                       (p * q).bits() == operation_bits(a * b) && (p / q).bits() == operation_bits(a / b) &&
                       sqrt(p).bits() == operation_bits(std::sqrt(a)) &&
                       fma(p, q, r).bits() == operation_bits(std::fmaf(a, b, c)) && (p < q) == (a < b);
    BOOST_REQUIRE_MESSAGE(agree, std::hex << "operands 0x" << x << " 0x" << y << " 0x" << z);
  }
}

BOOST_AUTO_TEST_CASE(binary32_nan_is_one_pattern_and_maximum_ignores_it) {
  const Binary32 nan = Binary32::from_bits(0xFFABCDEF), two = Binary32::of(2.0F);
  for (const Binary32 result : {nan + two, two - nan, nan * two, two / nan, sqrt(nan), exp(nan), tanh(nan),
                                fma(two, nan, two), fma(two, two, nan), sqrt(Binary32::of(-1.0F)),
                                Binary32::of(infinity) - Binary32::of(infinity), Binary32() / Binary32()}) {
    BOOST_TEST(result.bits() == 0x7FC00000U);
  }
  BOOST_TEST(maximum(Binary32::minus_infinity(), nan).bits() == bits(-infinity));
  BOOST_TEST(maximum(maximum(Binary32::minus_infinity(), two), nan).bits() == two.bits());
}

BOOST_AUTO_TEST_CASE(binary32_exp_and_tanh_are_correctly_rounded) {
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<float> exponents(-110.0F, 92.0F), magnitudes(-60.0F, 5.0F);
  for (int i = 0; i < 20000; ++i) {
    const float x = exponents(engine);
    BOOST_REQUIRE_MESSAGE(exp(Binary32::of(x)).bits() == rounded(mpfr_exp, x), "exp(" << x << ")");
    const float y = std::exp2(magnitudes(engine)) * (i % 2 == 0 ? 1.0F : -1.0F);
    BOOST_REQUIRE_MESSAGE(tanh(Binary32::of(y)).bits() == rounded(mpfr_tanh, y), "tanh(" << y << ")");
  }
  // Overflow begins between 0x42B17217 and 0x42B17218, and e^x falls below 2^−150 between 0xC2CFF1B4 and 0xC2CFF1B5.
  BOOST_TEST(exp(Binary32::from_bits(0x42B17217)).is_finite());
  BOOST_TEST(exp(Binary32::from_bits(0x42B17218)).bits() == bits(infinity));
  BOOST_TEST(exp(Binary32::from_bits(0xC2CFF1B4)).bits() == 1U);
  BOOST_TEST(exp(Binary32::from_bits(0xC2CFF1B5)).bits() == 0U);
  BOOST_TEST((exp(Binary32::minus_infinity()).is_zero() && exp(Binary32::of(-1e38F)).is_zero()));
  BOOST_TEST((tanh(Binary32::of(-0.0F)).bits() == bits(-0.0F) && tanh(Binary32::from_bits(1)).bits() == 1));
  BOOST_TEST(tanh(Binary32::minus_infinity()).bits() == bits(-1.0F));
}

BOOST_AUTO_TEST_CASE(nobody_s_settings_change_a_bit_and_none_is_left_behind) {
  const auto everything = [] {
    std::vector<std::uint32_t> results;
    Patterns pattern;
    for (int i = 0; i < 3000; ++i) {
      const Binary32 a = Binary32::from_bits(pattern()), b = Binary32::from_bits(pattern());
      const Binary32 c = Binary32::from_bits(pattern());
      for (const Binary32 r : {a + b, a - b, a * b, a / b, sqrt(a), fma(a, b, c)}) results.push_back(r.bits());
      if (i % 10 == 0) results.insert(results.end(), {exp(a).bits(), tanh(a).bits()});
    }
    const Column column{
        .keys = {1e-40F, 3.0F, -2.5F}, .values = {1e-39F, 2e-40F, -7e-41F}, .q = {0.7F}, .softcap = 3.0F};
    for (const auto& answer : {column.canonical(), column.exact()}) {
      std::ranges::transform(answer.output, std::back_inserter(results), bits);
      std::ranges::transform(answer.probabilities, std::back_inserter(results), bits);
    }
    results.push_back(bits(reference::canonical_default_scale(80)));
    results.push_back(bits(reference::exact_default_scale(80)));
    return results;
  };
  const std::vector<std::uint32_t> expected = everything();

  const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  mpfr_set_emin(-9);  // narrower than binary32
  mpfr_set_emax(11);
  const bool same_in_a_narrow_range = everything() == expected;
  const bool range_kept = mpfr_get_emin() == -9 && mpfr_get_emax() == 11;
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  BOOST_TEST((same_in_a_narrow_range && range_kept));

#if defined(__x86_64__)
  const unsigned caller = _mm_getcsr();
  constexpr unsigned ftz = 0x8000, daz = 0x0040, upward = 0x4000;
  _mm_setcsr(caller | ftz | daz | upward);
  const bool same_under_ftz_daz_upward = everything() == expected;
  _mm_setcsr(caller);
  BOOST_TEST(same_under_ftz_daz_upward);
#endif
}

BOOST_AUTO_TEST_CASE(dot_folds_all_sixteen_lanes) {
  // −2^−160 underflows to −0 in its lane; the lanes that stayed +0 make the sum +0.
  const std::vector<Binary32> tiny{Binary32::of(-0x1p-80F)};
  const std::vector<float> other{0x1p-80F};
  BOOST_TEST(reference::dot<Binary32>(tiny, other).bits() == 0U);
  // 2^24 + 1 is lost within a lane; in lanes 0 and 8, 1 and 2^24 + 2 meet only in the fold.
  std::vector<Binary32> ones(17, Binary32::one());
  std::vector<float> b(17, 0.0F);
  b[0] = 0x1p24F, b[16] = 1.0F;  // the same lane
  BOOST_TEST(reference::dot<Binary32>(ones, b).bits() == bits(0x1p24F));
  b[16] = 0.0F, b[4] = b[8] = b[12] = 1.0F;  // lane 8 joins 0 (lost), 12 joins 4, and their 2 joins 0
  BOOST_TEST(reference::dot<Binary32>(ones, b).bits() == bits(0x1p24F + 2.0F));
}

BOOST_AUTO_TEST_CASE(canonical_special_values) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::uint32_t five = bits(5.0F), none = 0x7FC00000;
  const std::vector<float> fives{5.0F, 5.0F}, one{1.0F};
  const std::pair<Column, std::uint32_t> cases[] = {
      {{.keys = {0, 1}, .values = fives, .q = one}, five},
      {{.keys = {nan, 1}, .values = fives, .q = one}, none},
      {{.keys = {nan, 1}, .values = fives, .q = one, .first = 1}, five},  // hidden
      {{.keys = {0, infinity}, .values = fives, .q = one}, none},
      {{.keys = {0, infinity}, .values = fives, .q = one, .softcap = 2}, five},  // +∞ becomes 2
      {{.keys = {-infinity, -infinity}, .values = fives, .q = one}, none},
      {{.keys = {-infinity, -infinity}, .values = fives, .q = one, .sinks = {0}}, 0},  // all mass to the sink
      {{.keys = {0, 1}, .values = fives, .q = one, .sinks = {-infinity}}, five},       // as no sink
      {{.keys = {0, 1}, .values = fives, .q = one, .sinks = {infinity}}, none},
      {{.keys = {0, 1}, .values = fives, .q = one, .sinks = {nan}}, none},
      {{.keys = {0, 200}, .values = {infinity, 5}, .q = one}, five},  // probability 0: skipped
  };
  for (const auto& [column, expected] : cases) BOOST_TEST(bits(column.canonical().output[0]) == expected);
}

BOOST_AUTO_TEST_CASE(canonical_window_is_a_mask) {
  // A hidden row and a row of score −∞ leave the same lanes behind, so the sums of weights round alike.
  std::mt19937_64 engine(3);
  std::normal_distribution<float> normal;
  Column masked{.keys = {}, .values = {}, .q = {1.0F}};
  for (int p = 0; p < 40; ++p) masked.keys.push_back(normal(engine)), masked.values.push_back(normal(engine));
  Column window = masked;
  for (window.first = 1; window.first < 40; ++window.first) {
    masked.keys[window.first - 1] = -infinity;
    const std::vector<float> all = masked.canonical().probabilities;
    BOOST_TEST(std::ranges::equal(window.canonical().probabilities, std::span(all).subspan(window.first)));
    BOOST_TEST(window.canonical().output == masked.canonical().output);
  }
}

BOOST_AUTO_TEST_CASE(exact_mean_of_whatever_is_visible) {
  Column column{.keys = std::vector<float>(12, 3.0F), .values = {}};
  for (int p = 0; p < 12; ++p) column.values.push_back(static_cast<float>(p));
  for (column.upto = 1; column.upto <= 13; ++column.upto) {
    for (column.first = 0; column.first <= 13; ++column.first) {
      const std::size_t end = std::min<std::size_t>(column.upto, 12), first = std::min(column.first, end - 1);
      const auto answer = column.exact();
      BOOST_TEST((answer.first == first && answer.rows == end));
      BOOST_TEST(answer.output[0] == static_cast<float>(first + end - 1) / 2);
      BOOST_TEST(answer.probabilities == std::vector<float>(end - first, 1.0F / static_cast<float>(end - first)));
      BOOST_TEST(answer.ties == 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(exact_ties_go_to_even) {
  // Two equal rows: halves are exact, so the midpoint is met exactly and nothing has to be assumed.
  Column column{.keys = {1, 1}, .values = {1.0F, 1.0F + ulp}};
  BOOST_TEST(column.exact().output[0] == 1.0F);
  column.values = {-1.0F - ulp, -1.0F - 2 * ulp};
  BOOST_TEST((column.exact().output[0] == -1.0F - 2 * ulp && column.exact().ties == 0));
  // Six: a sixth is enclosed but never met, both ends straddle the midpoint at every precision, and that is counted.
  column = {.keys = std::vector<float>(6, 1.0F), .values = {1, 1, 1, 1.0F + ulp, 1.0F + ulp, 1.0F + ulp}};
  BOOST_TEST((column.exact().output[0] == 1.0F && column.exact().ties == 1));
  column.values = {1.0F + ulp, 1.0F + 2 * ulp, 1.0F + ulp, 1.0F + 2 * ulp, 1.0F + ulp, 1.0F + 2 * ulp};
  BOOST_TEST((column.exact().output[0] == 1.0F + 2 * ulp && column.exact().ties == 1));
}

BOOST_AUTO_TEST_CASE(exact_sees_a_hair_beside_a_tie) {
  // A third row of weight e^−150 ≈ 2^−216 decides: 128 bits cannot see it, 257 bits can. e^−1300 takes 2048.
  for (const float score : {-150.0F, -1300.0F}) {
    Column column{.keys = {0, 0, score}, .values = {1.0F, 1.0F + ulp, 2.0F}, .q = {1.0F}};
    BOOST_TEST(column.exact().output[0] == 1.0F + ulp);
    column.values = {1.0F + ulp, 1.0F + 2 * ulp, 0.0F};
    BOOST_TEST((column.exact().output[0] == 1.0F + ulp && column.exact().ties == 0));
  }
}

BOOST_AUTO_TEST_CASE(exact_closed_forms) {
  const auto output = [](const Column& column) { return bits(column.exact().output[0]); };
  const Column cancelling{.keys = {2, 2}, .values = {1.0F, -1.0F}};
  BOOST_TEST(output(cancelling) == 0U);  // +0
  for (const float v : {0x1p-149F, -3.25F, 3e38F}) {
    const Column one_row{.keys = {1e30F}, .values = {v}, .q = {-1e30F}};
    BOOST_TEST(output(one_row) == bits(v));
  }
  Column column{.keys = {0, 0}, .values = {3.0F, 3.0F}, .sinks = {0.0F}};
  BOOST_TEST(output(column) == bits(2.0F));
  column.sinks = {-infinity};
  BOOST_TEST(output(column) == bits(3.0F));
  const auto logistic = [](mpfr_ptr out, mpfr_srcptr x, mpfr_rnd_t mode) {  // 1 / (1 + e^x)
    mpfr_exp(out, x, mode);
    mpfr_add_ui(out, out, 1, mode);
    return mpfr_ui_div(out, 1, out, mode);
  };
  const float ln2 = 0x1.62E43p-1F;
  for (const float sink : {0.0F, ln2, -ln2, 30.5F, -7.0F, 100.0F}) {
    column = {.keys = {0}, .values = {1.0F}, .sinks = {sink}};
    BOOST_TEST(output(column) == rounded(logistic, sink));
  }
  // Scores of ±x under a cap of 3, so that the second row has 1 / (1 + e^(6 · tanh(x/3))).
  const auto capped = [&](mpfr_ptr out, mpfr_srcptr x, mpfr_rnd_t mode) {
    mpfr_div_ui(out, x, 3, mode);
    mpfr_tanh(out, out, mode);
    mpfr_mul_ui(out, out, 6, mode);
    return logistic(out, out, mode);
  };
  for (const float x : {0.1F, 2.0F, -5.0F, 1e30F}) {
    column = {.keys = {x, -x}, .values = {0.0F, 1.0F}, .q = {1.0F}, .softcap = 3.0F};
    BOOST_TEST(output(column) == rounded(capped, x));
  }
  // Exponents far beyond every range: nothing is left of the second row, and nothing crashes.
  const Column far{.keys = {3e38F, -3e38F}, .values = {1.0F, 2.0F}, .q = {3e38F}};
  BOOST_TEST(output(far) == bits(1.0F));
  BOOST_TEST(bits(far.exact().probabilities[1]) == 0U);
}

BOOST_AUTO_TEST_CASE(exact_domain_ends_at_what_is_visible_and_not_finite) {
  for (const float x : {0.0F, std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
    const std::vector<float> hidden{x, 1, x}, visible{1, x, 1};
    BOOST_TEST(Column({.keys = hidden, .values = hidden, .first = 1, .upto = 2}).in_domain());
    BOOST_TEST(Column({.keys = visible, .values = hidden, .first = 1, .upto = 2}).in_domain() == (x == 0));
    BOOST_TEST(Column({.keys = hidden, .values = visible, .first = 1, .upto = 2}).in_domain() == (x == 0));
    BOOST_TEST(Column({.keys = {1}, .values = {1}, .q = {x}}).in_domain() == (x == 0));
    BOOST_TEST(Column({.keys = {1}, .values = {1}, .sinks = {x}}).in_domain() == (x <= 0));
  }
}

BOOST_AUTO_TEST_CASE(default_scale_is_two_roundings_in_both_arithmetics) {
  for (std::size_t head_dim = 1; head_dim <= 600; ++head_dim) {
    const float expected = 1.0F / std::sqrt(static_cast<float>(head_dim));
    BOOST_REQUIRE(reference::canonical_default_scale(head_dim) == expected);
    BOOST_REQUIRE(reference::exact_default_scale(head_dim) == expected);
  }
  const std::uint64_t tie = ((std::uint64_t{1} << 24) + 1) * ((std::uint64_t{1} << 24) + 1);  // its root is a midpoint
  for (const std::uint64_t head_dim : {tie, tie - 1, tie + 1, (std::uint64_t{1} << 63) - 1}) {
    BOOST_TEST(reference::canonical_default_scale(head_dim) == reference::exact_default_scale(head_dim));
  }
  BOOST_TEST((reference::canonical_default_scale(0) == infinity && reference::exact_default_scale(0) == infinity));
}

BOOST_AUTO_TEST_CASE(binary16_all_patterns_and_all_midpoints) {
  using reference::binary16_from_binary32, reference::binary32_from_binary16;
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<std::uint16_t>(h);
    const std::uint32_t wide = binary32_from_binary16(half);
    BOOST_REQUIRE(binary16_from_binary32(wide) == half);
    const std::uint32_t exponent = h >> 10 & 0x1F, fraction = h & 0x3FF;
    if (exponent == 0x1F) {
      BOOST_REQUIRE(wide == ((h & 0x8000) << 16 | 0x7F800000 | fraction << 13));
      continue;
    }
    const float step = std::ldexp(1.0F, std::max(static_cast<int>(exponent), 1) - 25);
    const float magnitude = step * static_cast<float>(exponent == 0 ? fraction : 1024 + fraction);
    const float sign = h >> 15 != 0 ? -1.0F : 1.0F;
    BOOST_REQUIRE(wide == bits(sign * magnitude));
    // Halfway to the next pattern away from 0 (after 65504: 65536, that is infinity), and just beside that.
    const float midpoint = magnitude + step / 2;
    const auto narrow = [&](float m) { return binary16_from_binary32(bits(sign * m)); };
    const auto next = static_cast<std::uint16_t>(h + 1);
    BOOST_REQUIRE(narrow(midpoint) == (h % 2 == 0 ? half : next));
    BOOST_REQUIRE(narrow(std::nextafter(midpoint, 0.0F)) == half);
    BOOST_REQUIRE(narrow(std::nextafter(midpoint, infinity)) == next);
  }
  BOOST_TEST((binary16_from_binary32(bits(-3e38F)) == 0xFC00 && binary16_from_binary32(0x80000001) == 0x8000));
  BOOST_TEST(binary16_from_binary32(0xFF800001) == 0xFE00);  // no bit of this payload fits
  BOOST_TEST(binary16_from_binary32(0x7F802000) == 0x7C01);  // signalling, kept
}

BOOST_AUTO_TEST_CASE(records_of_a_peer_come_back_byte_for_byte) {
  struct Peer {
    const char* file;
    reference::WireLayer layer;
    WireFormat format;
    std::ptrdiff_t header = 0;  // bytes before what the peer sent
  };
  const Peer peers[] = {{"full-f32.cmfs", {{2, 4}, 0xC0FFEE00, 3}, WireFormat::f32},
                        {"full-f16.cmfs", {{2, 4}, 0xC0FFEE00, 3}, WireFormat::f16},
                        {"full-dead-head.cmfs", {{3, 5}, 0x1122334455667788, 0}, WireFormat::f32},
                        {"full-empty.cmfs", {{1, 1}, 0, 0}, WireFormat::f32},
                        {"full-with-vector.cmfs", {{1, 2}, 0, 0}, WireFormat::f16},
                        {"unversioned-f32.cmfs", {{2, 3}, 0, 0}, WireFormat::f32, 32},
                        {"unversioned-f16.cmfs", {{2, 3}, 0, 0}, WireFormat::f16, 32}};
  for (const Peer& peer : peers) {
    BOOST_TEST_CONTEXT(peer.file) {
      const std::vector<std::uint8_t> record = file_bytes(peer.file);
      const auto state = reference::decode(record, peer.layer);
      BOOST_REQUIRE_MESSAGE(state.has_value(), (state ? "" : state.error().message));
      const auto again = reference::encode(*state, peer.layer, peer.format);
      BOOST_REQUIRE(again.has_value());
      BOOST_TEST(std::vector(again->begin() + peer.header, again->end()) == record);
      const auto cut = reference::decode(std::span(record).first(record.size() - 1), peer.layer);
      BOOST_TEST((!cut && cut.error().code == kvcert::ErrorCode::truncated));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
