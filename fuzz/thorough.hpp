// Whether every input gets every check. A fuzzer takes the slow ones for some inputs only, chosen by the input's bits, so that
// a run can be repeated; replaying takes all.
#pragma once

namespace kvcert::fuzz {

inline bool thorough = false;

}  // namespace kvcert::fuzz
