// How often a unit's kernels were called: a part of each of them, with internal linkage throughout, so that each has a count
// of its own.
#pragma once

#include <cstdint>

namespace kvcert::optimized::kernels {
namespace {

std::uint64_t call_count;

inline void count_call() { __atomic_fetch_add(&call_count, 1, __ATOMIC_RELAXED); }
std::uint64_t calls() { return __atomic_load_n(&call_count, __ATOMIC_RELAXED); }

}  // namespace
}  // namespace kvcert::optimized::kernels
