#include "fuzz/mutate_record.hpp"

#include <iterator>

#include "fuzz/field_map.hpp"
#include "fuzz/generate_record.hpp"
#include "fuzz/import_case.hpp"

namespace kvcert::fuzz {
namespace {

using Fields = std::vector<Field>;

void set(Bytes& record, std::size_t at, std::size_t width, std::uint64_t value) {
  for (std::size_t i = 0; i < width && at + i < record.size(); ++i) record[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

auto place(Bytes& record, std::size_t at) { return record.begin() + static_cast<std::ptrdiff_t>(at); }

/// Nothing where no field has the role.
const Field* find(const Fields& fields, Role role) {
  for (const Field& field : fields) {
    if (field.role == role) return &field;
  }
  return nullptr;
}

/// A value that is likely to be on the wrong side of something.
std::uint64_t telling_value(Dice& dice, std::uint64_t now, std::size_t size) {
  constexpr std::uint64_t bit31 = std::uint64_t{1} << 31U, bit63 = std::uint64_t{1} << 63U;
  switch (dice.below(6)) {
    case 0: return now + 1;
    case 1: return now - 1;
    case 2: return now ^ (std::uint64_t{1} << dice.below(8 * size));
    case 3: return dice.pick<std::uint64_t>({0, 1, 2, 3, 4, 0xFF, 0x100, 0xFFFF, size});
    case 4: return dice.pick<std::uint64_t>({bit31 - 1, bit31, 0xFFFFFFFF, 0x40000000, 0x40000001, bit63 - 1, bit63, ~std::uint64_t{0},
                                             std::uint64_t{1} << 32U, now + (std::uint64_t{1} << 32U)});
    default: return now * dice.pick<std::uint64_t>({2, 3, 4});
  }
}

void mutate_field(Bytes& record, const Fields& fields, Dice& dice) {
  const Field& field = fields[dice.below(fields.size())];
  const std::size_t elements = std::max<std::size_t>(1, field.size / field.width);
  const std::size_t width = is_array(field.role) ? field.width : std::min<std::size_t>(field.size, 8);
  const std::size_t at = field.at + (is_array(field.role) ? dice.below(elements) * width : 0);
  set(record, at, width, is_array(field.role) ? element_bits(dice, width) : telling_value(dice, field_at(record, at, width), width));
}

void resize_array(Bytes& record, const Fields& fields, Dice& dice) {
  Fields arrays;
  std::ranges::copy_if(fields, std::back_inserter(arrays), [](const Field& field) { return is_array(field.role); });
  if (arrays.empty()) return;
  const Field array = arrays[dice.below(arrays.size())];
  const std::size_t elements = array.size / array.width, by = 1 + dice.below(3);
  const bool grow = elements < by || dice.chance(1, 2);
  if (grow) {
    Bytes more;
    for (std::size_t i = 0; i < by; ++i) put_le(more, element_bits(dice, std::max<std::size_t>(array.width, 2)), array.width);
    record.insert(place(record, array.at), more.begin(), more.end());
  } else {
    record.erase(place(record, array.at), place(record, array.at + by * array.width));
  }
  if (array.length_at != 0 && dice.chance(1, 2)) set(record, array.length_at, 4, grow ? elements + by : elements - by);
}

void cut_or_continue(Bytes& record, const Fields& fields, Dice& dice) {
  if (dice.chance(1, 3)) {
    for (std::size_t n = 1 + dice.below(4); n > 0; --n) record.push_back(static_cast<std::uint8_t>(dice.chance(1, 2) ? 0 : dice.bits()));
    return;
  }
  const Field& field = fields[dice.below(fields.size())];
  record.resize(std::min(record.size(), field.at + dice.pick<std::size_t>({0, field.size - 1, field.size, 1})));
}

void flip_flags(Bytes& record, const Fields& fields, Dice& dice) {
  const std::uint64_t flag = dice.pick<std::uint64_t>({0, 1, 0, 1, 2});
  const Field* header = find(fields, Role::f16);
  const Field* body = find(fields, Role::body_flag);
  const auto which = dice.below(3);  // header, body, both
  if (header != nullptr && which != 1) set(record, header->at, 1, flag);
  if (body != nullptr && which != 0) set(record, body->at, 4, flag);
}

/// seq_len, position and imp_len say the same: changed together, the lengths are the next thing to be wrong.
void move_position(Bytes& record, const Fields& fields, Dice& dice) {
  const Field* seq_len = find(fields, Role::seq_len);
  const std::uint64_t position = telling_value(dice, seq_len != nullptr ? field_at(record, seq_len->at, 4) : dice.below(9), 4) & 0xFFFFFFFFU;
  for (Role role : {Role::position, Role::seq_len, Role::imp_len, Role::ring_len, Role::ring_head}) {
    const Field* field = find(fields, role);
    if (field != nullptr && dice.chance(5, 6)) set(record, field->at, field->size, position);
  }
}

/// The same header before another kind's body, or another kind's number before the same body.
void swap_kind(Bytes& record, const Fields& fields, Dice& dice) {
  const Field* kind = find(fields, Role::kind);
  if (kind == nullptr) return;
  if (dice.chance(1, 2)) return set(record, kind->at, 1, dice.pick<std::uint64_t>({0, 1, 2, 3}));
  const auto given = fitting(record);
  LayerShape shape = given.shape;
  shape.kind = static_cast<WireKind>(dice.below(3));
  shape.window = 1 + dice.below(3);
  record = valid_record(dice, given.names, shape);
}

void change_header(Bytes& record, Dice& dice) {
  if (begins_with_magic(record) && record.size() >= wire::header_bytes) {
    record.erase(record.begin(), place(record, wire::header_bytes));
    return;
  }
  Bytes header;
  put_header(header, {dice.chance(1, 2) ? 0 : dice.bits(), 0, true}, static_cast<WireKind>(dice.below(3)), field_at(record, 0, 4),
             field_at(record, 4, 4));
  record.insert(record.begin(), header.begin(), header.end());
}

void mutate_record(Bytes& record, Dice& dice) {
  const Fields fields = fields_of(record);
  if (fields.empty() || dice.chance(1, 16)) {
    const LayerShape shape = any_shape(dice);
    record = valid_record(dice, {dice.chance(1, 2) ? 0 : dice.bits(), static_cast<std::uint32_t>(dice.below(3)), true}, shape,
                          !dice.chance(1, 4));
    return;
  }
  switch (dice.below(14)) {
    case 0: case 1: case 2: case 3: case 4: return mutate_field(record, fields, dice);
    case 5: case 6: return resize_array(record, fields, dice);
    case 7: case 8: return cut_or_continue(record, fields, dice);
    case 9: return flip_flags(record, fields, dice);
    case 10: case 11: return move_position(record, fields, dice);
    case 12: return swap_kind(record, fields, dice);
    default: return change_header(record, dice);
  }
}

Bytes any_prefix(Dice& dice) {
  Bytes prefix(layer_prefix.begin(), layer_prefix.end());
  prefix.push_back(static_cast<std::uint8_t>(dice.below(life_count)));
  prefix.push_back(static_cast<std::uint8_t>(dice.chance(1, 3) ? dice.below(16) : 0));
  prefix.push_back(static_cast<std::uint8_t>(dice.chance(1, 3) ? dice.below(most_window) : 0));
  prefix.push_back(static_cast<std::uint8_t>(dice.chance(1, 3) ? dice.below(3) : kind_as_claimed));
  return prefix;
}

}  // namespace

void mutate_input(Bytes& input, Dice& dice) {
  Bytes prefix;
  Bytes record = input;
  if (has_prefix(input)) {
    prefix.assign(input.begin(), place(input, prefix_bytes));
    record.erase(record.begin(), place(record, prefix_bytes));
  }
  if (dice.chance(1, 8)) {
    prefix = dice.chance(1, 4) ? Bytes{} : any_prefix(dice);
  } else {
    mutate_record(record, dice);
  }
  input = std::move(prefix);
  input.insert(input.end(), record.begin(), record.end());
}

Bytes spliced(ByteView first, ByteView second, Dice& dice) {
  const auto edge = [&dice](ByteView input) {
    const std::size_t begin = has_prefix(input) ? prefix_bytes : 0;
    const auto fields = fields_of(input.subspan(begin));
    return fields.empty() ? begin : begin + fields[dice.below(fields.size())].at;
  };
  const ByteView head = first.first(edge(first)), tail = second.subspan(edge(second));
  Bytes out(head.begin(), head.end());
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

}  // namespace kvcert::fuzz
