// Counts allocations, and fails them where a test asks for it.
#pragma once

#include <atomic>
#include <cstdint>

// A sanitizer's own allocator is worth more, so it stays there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVCERT_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define KVCERT_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef KVCERT_COUNTS_ALLOCATIONS
#define KVCERT_COUNTS_ALLOCATIONS 1
#endif

namespace kvcert::tests {

/// So far, by all threads.
extern std::atomic<std::uint64_t> allocations;

/// Of one thread: while `armed`, the first `granted` allocations are granted and no further one.
struct Starvation {
  bool armed = false;
  std::uint64_t granted = 0;
  bool felt = false;  ///< whether an allocation has failed for it
};
extern thread_local Starvation starvation;

}  // namespace kvcert::tests
