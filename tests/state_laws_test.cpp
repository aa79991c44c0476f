// Laws 5–10: what a layer's state owes, each law once, over the concept.
#include "certify/laws/atomic.hpp"
#include "certify/laws/state.hpp"
#include "tests/property.hpp"

using namespace kvcert;

namespace {
constexpr std::size_t rows = 200;
constexpr std::size_t floats = 20'000;
}  // namespace

BOOST_AUTO_TEST_SUITE(laws)

// Law 5, rollback: append n, truncate_last(n) = nothing happened.
LAW(5, rollback, 150, any, rows, floats)

// Law 6, snapshot: restored = never left, and nothing shared.
LAW(6, snapshot, 150, any, rows, floats)

// Law 7, round trip: import of export = the layer, now and after any further operations.
LAW(7, round_trip, 150, any, rows, floats)

// Law 8, canonical: accepted bytes are written again to the same bytes.
LAW(8, canonical_record, 150, any, 60, 4'000)

// Law 9, atomic: a refused call changes nothing.
LAW(9, atomic, 100, any, 60, 4'000)

// Law 10, clear = new, with configuration kept.
LAW(10, clear, 150, any, rows, floats)

BOOST_AUTO_TEST_SUITE_END()
