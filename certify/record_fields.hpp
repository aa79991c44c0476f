// A record taken apart for a person: every field with its offset, as far as the bytes go. It judges nothing; the decoders do.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvcert/geometry.hpp"

namespace kvcert::certify {

struct RecordField {
  std::size_t offset = 0;
  std::uint64_t bytes = 0;  ///< size of the field
  std::string name;         ///< "seq_len", "head 2 keys"
  std::string value;        ///< as text
};

struct RecordFields {
  bool versioned = false;
  std::vector<RecordField> fields;
  std::string stopped;  ///< why reading ended before the end of the record; empty if it did not
  std::size_t trailing = 0;  ///< bytes after the record's end

  // What the record says of itself, where that much could be read.
  std::optional<std::uint64_t> identity, layer, kind, f16, kv_heads, head_dim, window;
};

RecordFields read_fields(std::span<const std::uint8_t> bytes);

}  // namespace kvcert::certify
