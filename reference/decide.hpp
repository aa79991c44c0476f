// From a formula to correctly rounded numbers: enclosures of growing precision, until each entry's rounding is decided.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "reference/exact.hpp"

namespace kvcert::reference {

/// Entries that earlier precisions decided, and those that they did not.
using Entries = std::vector<std::optional<std::uint32_t>>;

enum class Undecided { leave, take_as_tie };

/// One precision: decides what it can and returns whether nothing is left. As the last resort entries between two
/// neighbours are taken as the tie, to even, and counted.
template <class Real, class Formula>
bool decide(const Formula& formula, Entries& entries, Undecided undecided, std::uint64_t& ties) {
  const std::optional<std::vector<Real>> all = formula.template operator()<Real>();
  if (!all) return false;  // the formula branches, and this precision cannot tell where to
  entries.resize(all->size());
  bool complete = true;
  for (std::size_t i = 0; i < all->size(); ++i) {
    if (entries[i]) continue;
    const Candidates found = (*all)[i].candidates();
    if (found.decided()) {
      entries[i] = found.low;
    } else if (undecided == Undecided::take_as_tie && found.neighbours()) {
      entries[i] = found.even();
      ++ties;
    } else {
      complete = false;
    }
  }
  return complete;
}

/// The formula's entries, each rounded to binary32 once. `formula` is a generic lambda: operator()<Real>() gives
/// optional<vector<Real>>. The precisions in turn: 128 bits are enough for almost every entry; each further step doubles
/// them. nullopt if 2048 bits do not suffice. Needs the widest ExponentRange to be in force.
template <class Formula>
std::optional<std::vector<float>> decide_all(const Formula& formula, std::uint64_t& ties) {
  Entries entries;
  const bool complete = decide<Exact<38>>(formula, entries, Undecided::leave, ties) ||
                        decide<Exact<77>>(formula, entries, Undecided::leave, ties) ||
                        decide<Exact<154>>(formula, entries, Undecided::leave, ties) ||
                        decide<Exact<308>>(formula, entries, Undecided::leave, ties) ||
                        decide<Exact<616>>(formula, entries, Undecided::take_as_tie, ties);
  if (!complete) return std::nullopt;
  std::vector<float> bits;
  for (const auto& entry : entries) bits.push_back(std::bit_cast<float>(*entry));
  return bits;
}

}  // namespace kvcert::reference
