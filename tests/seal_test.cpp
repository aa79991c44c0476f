// The seal of the O(1) overlay: its residual, the attempts at its factor, and what no attempt can factor.
#include "certify/laws/seal.hpp"

#include <cmath>

#include "certify/random.hpp"
// The optimized factor is internal to its file. It is tested here on matrices that no sequence can produce.
#include "optimized/o1_seal.cpp"
#include "reference/binary64.hpp"
#include "reference/o1_seal.hpp"
#include "tests/property.hpp"

using namespace kvcert;

namespace {

/// Factors G in both rooms; the optimized L [m × m] where there is one. Fails where they differ.
std::optional<std::vector<double>> factor_of(const std::vector<double>& G, std::size_t m) {
  namespace fast = kvcert::optimized;
  fast::Work work{fast::Buffer<double>(m), fast::Buffer<double>(m), fast::Buffer<double>(m * m), fast::Buffer<double>(m * m), fast::Buffer<double>(m * m), fast::Buffer<double>(m)};
  std::copy(G.begin(), G.end(), work.gram.data());
  const bool found = fast::factorize(m, work);
  std::vector<reference::Binary64> exact;
  for (double x : G) exact.push_back(reference::Binary64::from_bits(std::bit_cast<std::uint64_t>(x)));
  const reference::Binary32Section section;
  const auto L = reference::regularized_factor(exact, m);
  BOOST_TEST_REQUIRE(found == L.has_value());
  if (!found) return std::nullopt;
  std::vector<double> result(m * m, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      result[i * m + j] = work.factor.data()[i * m + j];
      BOOST_TEST_REQUIRE(std::bit_cast<std::uint64_t>(result[i * m + j]) == (*L)[i * m + j].bits());
    }
  }
  return result;
}

/// How often λ grew: read from the first pivot, L_00² = G_00 + λ.
double growth(const std::vector<double>& L, const std::vector<double>& G, std::size_t m) {
  double trace = 0;
  for (std::size_t a = 0; a < m; ++a) trace += G[a * m + a];
  return std::log10((L[0] * L[0] - G[0]) / (1e-6 * trace / static_cast<double>(m)));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(seal)

BOOST_AUTO_TEST_CASE_TEMPLATE(law_12_seal_residual, Engine, tests::Engines) {
  const Engine engine;
  if (!tests::has(engine)) {
    std::cout << "NOT RUN: law 12 seal on " << engine.name() << ", which this machine lacks\n";
    return;
  }
  certify::laws::SealTally tally;
  tests::check_law(80, certify::Domain::finite, {4, 600}, [&](const certify::TestCase& test) { return certify::laws::seal_residual(engine, test, tally); });
  std::cout << "    " << engine.name() << ": " << tally.judged << " seals, worst residual " << tally.worst_over_bound << " of its bound, "
            << tally.not_judged << " not judged\n";
  BOOST_TEST(tally.worst_over_bound <= 1.0);
  BOOST_TEST(tally.worst_over_bound > 0.001);
  BOOST_TEST(tally.not_judged * 10 < tally.judged);
}

// λ grows until the factor exists: matrices with one negative eigenvalue, as deep as it takes for each number of attempts. (A
// Gram matrix has none, and λ is 1e-6 of its mean diagonal: rounding cannot make the first attempt fail below some thousand
// landmarks. The path is there for matrices, not for sequences that anybody has.)
BOOST_AUTO_TEST_CASE(lambda_grows_until_a_factor_exists) {
  constexpr std::size_t m = 4;
  for (int attempts = 0; attempts < 13; ++attempts) {
    // Diagonal 1, and a first 2 × 2 block with eigenvalues 2 + e and −e, e between the previous λ and this one.
    const double e = 0.5e-6 * std::pow(10.0, attempts);
    std::vector<double> G(m * m, 0.0);
    for (std::size_t a = 0; a < m; ++a) G[a * m + a] = 1.0;
    G[1] = G[m] = 1.0 + e;
    const auto L = factor_of(G, m);
    BOOST_TEST_REQUIRE(L.has_value(), attempts << " retries");
    BOOST_TEST(std::fabs(growth(*L, G, m) - attempts) < 0.01, "λ grew " << growth(*L, G, m) << " times, expected " << attempts);
  }
  std::vector<double> hopeless(m * m, 0.0);
  for (std::size_t a = 0; a < m; ++a) hopeless[a * m + a] = 1.0;
  hopeless[1] = hopeless[m] = 1.0 + 0.5e7;  // past the thirteenth
  BOOST_TEST(!factor_of(hopeless, m).has_value());
}

// A singular G (all keys and all queries equal) and a G of zeros (every A underflows) are factored at the first attempt.
BOOST_AUTO_TEST_CASE(a_singular_gram_matrix_needs_no_retry) {
  constexpr std::size_t m = 4;
  const std::vector<double> ones(m * m, 4.0), zeros(m * m, 0.0);
  BOOST_TEST(std::fabs(growth(factor_of(ones, m).value(), ones, m)) < 0.01);
  const auto L = factor_of(zeros, m).value();
  BOOST_TEST(L[0] * L[0] > 0);
}

// All thirteen attempts fail where G overflows although A does not: every score 400, e^400 finite, its square not. The layer is
// aborted, in both implementations, and a group alone refuses.
BOOST_AUTO_TEST_CASE_TEMPLATE(what_no_attempt_factors_aborts_the_layer, Engine, tests::Engines) {
  const Engine engine;
  if (!tests::has(engine)) {
    std::cout << "NOT RUN: an aborted seal on " << engine.name() << ", which this machine lacks\n";
    return;
  }
  using certify::must;
  const auto sealed = [&](float key) {
    auto layer = must(engine.make({1, 1}), "create");
    must(layer.o1_begin({4, 2, 1, O1Rect::aggregate}), "o1_begin");
    for (int i = 0; i < 20; ++i) {
      must(layer.append(std::vector<float>{key}, std::vector<float>{1.0F}, {}), "append");
      must(layer.o1_push_q(std::vector<float>{1.0F}), "o1_push_q");
    }
    const auto answer = layer.o1_seal(1);
    return std::pair(answer ? std::string("sealed") : std::string(name(answer.error().code)), layer);
  };
  // Σ_b A_b² = 4·e^{2·354} is finite and Σ_a of it too; at 400 the square is not, at 710 A itself is not.
  BOOST_TEST(sealed(350.0F).first == "sealed");
  for (float key : {400.0F, 710.0F}) {
    const auto [answer, layer] = sealed(key);
    BOOST_TEST(answer == "non_finite");
    BOOST_TEST((layer.state() == LayerState::aborted));
    BOOST_TEST(layer.seq_len() == 20U);
    BOOST_TEST(must(layer.head_len(0), "head_len") == 0U);
    BOOST_TEST(layer.importance().empty());
    BOOST_TEST(layer.o1_trace_positions() == 0U);
    const std::vector<float> keys(20, key), values(20, 1.0F), queries(20, 1.0F);
    const auto group = Engine::Cache::O1Group::prefill({4, 2, 1, O1Rect::aggregate}, 1, 1, keys, values, queries);
    BOOST_TEST((!group && group.error().code == ErrorCode::non_finite));
  }
}

BOOST_AUTO_TEST_SUITE_END()
