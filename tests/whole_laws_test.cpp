// The laws of int8 storage, chunks, eviction, the ring, linear layers and the O(1) overlay, each once, over the concept.
#include "certify/laws/chunks.hpp"
#include "certify/laws/int8.hpp"
#include "certify/laws/overlay.hpp"
#include "certify/laws/ring.hpp"
#include "tests/property.hpp"

using namespace kvcert;

BOOST_AUTO_TEST_SUITE(laws)

// Law 2, chunk = sequence, for chunked attention, in every storage.
LAW(2, chunk_attention, 500, any, 100, 8'000)

// Laws 2, 5 and 6 for int8, on both sides of the freeze.
LAW(2, int8_chunk_is_sequence, 60, finite, 20, 4'000)
LAW(5, int8_rollback, 60, finite, 20, 4'000)
LAW(6, int8_snapshot, 60, finite, 20, 4'000)
LAW(9, int8_refuses, 60, finite, 20, 4'000)
LAW(14, int8_constant_row, 300, finite, 4, 4'000)

// Laws 5–7 and 11 on the ring.
LAW(5, ring_rollback, 100, finite, 4, 1'000)
LAW(6, ring_comes_back, 100, finite, 4, 1'000)
LAW(11, ring_forgets, 100, finite, 4, 1'000)

// Linear layers.
LAW(7, linear_layer, 200, finite, 4, 1'000)

// Law 12, the O(1) overlay.
LAW(12, overlay_counts, 60, finite, 4, 600)
LAW(12, overlay_is_constant, 60, finite, 4, 600)
LAW(12, overlay_exact_only, 60, finite, 4, 600)

// Law 15, eviction.
LAW(15, eviction, 500, any, 100, 8'000)

BOOST_AUTO_TEST_SUITE_END()
