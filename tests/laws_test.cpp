// Laws 1–3 and 16, what attention owes, and 5–10, what a layer's state owes: each once, over the concept.
#include "certify/laws/atomic.hpp"
#include "certify/laws/attention.hpp"
#include "certify/laws/state.hpp"
#include "tests/property.hpp"

using namespace kvcert;

namespace {
constexpr std::size_t rows = 200;
constexpr std::size_t floats = 20'000;
}  // namespace

BOOST_AUTO_TEST_SUITE(laws)

// Law 1, grouping: a group of heads = its heads one by one, accumulator included.
LAW(1, grouping, 200, any, rows, floats)

// Law 2, chunk = sequence: however a prompt is split, every position's bits are the same.
LAW(2, chunk_is_sequence, 150, any, rows, floats)

// Law 3, window = mask: hidden rows may hold anything; a window is a mask of −∞.
LAW(3, window_hides, 200, any, rows, floats)
LAW(3, window_is_mask, 200, any, rows, floats)

// Law 16, metamorphic.
LAW(16, values_scale, 150, finite, rows, floats)
LAW(16, group_copies, 100, any, rows, floats)
LAW(16, minus_infinity_rows, 150, any, rows, floats)

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
