// Mutations that know the fields of a record.
#pragma once

#include "fuzz/dice.hpp"
#include "fuzz/record_bytes.hpp"

namespace kvcert::fuzz {

/// One change to an input of import_wire (a record, with or without the prefix of import_case.hpp), of these kinds: one field
/// set and the rest kept, an array made longer or shorter with or without its length, cut or continued at a field's edge,
/// another kind, flags flipped, header taken off or put on, the prefix changed, or a new valid record.
void mutate_input(Bytes& input, Dice& dice);

/// The beginning of one record and the end of another, cut at fields' edges.
Bytes spliced(ByteView first, ByteView second, Dice& dice);

}  // namespace kvcert::fuzz
