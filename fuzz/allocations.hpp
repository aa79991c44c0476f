// How much memory was asked for: every operator new of the program counts what it gives.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvcert::fuzz {

/// Bytes asked for by this thread so far, freed or not.
std::uint64_t bytes_asked_for();

}  // namespace kvcert::fuzz
