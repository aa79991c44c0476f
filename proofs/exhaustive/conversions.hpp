#pragma once

namespace kvcert::exhaustive {

/// binary16 to binary32 on all 2^16 patterns and back on all 2^32. Prints what was found; whether all was right.
bool check_binary16();

/// Entries of the rope table against MPFR: `entries` of them, generated. Sampled, not exhaustive.
bool check_rope(unsigned long entries);

}  // namespace kvcert::exhaustive
