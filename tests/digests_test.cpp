// The recorded digests are those of the reference: what every ISA, compiler and machine is held to was not made by the
// kernels alone.
#include <boost/test/unit_test.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "optimized/layer_kv_cache.hpp"
#include "reference/layer_kv_cache.hpp"
#include "tests/digests.hpp"

BOOST_AUTO_TEST_SUITE(recorded_digests)

using namespace kvcert;

template <class Cache>
std::size_t differing() {
  const char* corpus = std::getenv("KVCERT_CORPUS");
  std::ifstream file(std::string(corpus != nullptr ? corpus : "corpus") + "/digests.json");
  BOOST_REQUIRE_MESSAGE(file, "digests.json cannot be read; KVCERT_CORPUS names the corpus folder");
  const auto recorded = nlohmann::json::parse(file).get<std::map<std::string, std::string>>();
  const auto make = [](Geometry geometry, KvMode mode) { return Cache::create(geometry, mode); };
  const auto digests = digests::Outputs<Cache, decltype(make)>(make).all();
  BOOST_TEST(digests.size() + 2 == recorded.size());  // exp and tanh are rows of kernels, see kernels_test
  std::size_t count = 0;
  for (const auto& [name, value] : digests) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    const auto found = recorded.find(name);
    const bool same = found != recorded.end() && found->second == text;
    if (!same) BOOST_ERROR(name << " is " << text << ", recorded " << (found == recorded.end() ? "nothing" : found->second));
    count += !same;
  }
  return count;
}

BOOST_AUTO_TEST_CASE(are_the_reference_s) { BOOST_TEST(differing<reference::LayerKvCache>() == 0U); }
BOOST_AUTO_TEST_CASE(are_the_default_isa_s) { BOOST_TEST(differing<optimized::LayerKvCache>() == 0U); }

BOOST_AUTO_TEST_SUITE_END()
