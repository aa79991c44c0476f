#include "fuzz/kernel_calls.hpp"

#include <array>

namespace kvcert::fuzz {
namespace {

using optimized::kernels::Table;

/// 1 … small mostly, 1 … large now and then: strips and tiles have an end that only long rows reach.
std::size_t size_from(ByteSource& in, std::size_t small, std::size_t large) {
  const std::size_t byte = in.u8();
  return 1 + byte % (byte < 192 ? small : large);
}

Array floats(ByteSource& in, std::size_t n) { return Array(in.numbers(n)); }

Array bytes(ByteSource& in, std::size_t n) {
  std::vector<std::uint8_t> values(n);
  std::uint8_t filler = 0;
  for (std::uint8_t& x : values) x = in.empty() ? ++filler : in.u8();
  return Array(values);
}

/// Stored integers: −127 … 127.
Array integers(ByteSource& in, std::size_t n) {
  Array array = bytes(in, n);
  for (std::byte& x : array.bytes) x = x == std::byte{0x80} ? std::byte{0x81} : x;
  return array;
}

void shape(Call& call, ByteSource& in, std::size_t least_dim = 1) {
  call.heads = 1 + in.below(6);
  call.rows = size_from(in, 12, 40);
  call.head_dim = least_dim - 1 + size_from(in, 40, 150);
  call.stride = call.rows + in.below(3);
}

/// Rows that lie `step` apart, forwards or backwards, and as many floats as that takes.
std::size_t stepped(Call& call, ByteSource& in) {
  const std::size_t apart = call.head_dim + in.below(4);
  call.step = in.flag() ? -static_cast<std::ptrdiff_t>(apart) : static_cast<std::ptrdiff_t>(apart);
  return (call.rows - 1) * apart + call.head_dim;
}

/// Row 0 of rows that lie backwards is the last in memory.
const float* first_row(const Call& call, const float* memory) {
  return call.step < 0 ? memory - static_cast<std::ptrdiff_t>(call.rows - 1) * call.step : memory;
}

void arrange_scores(Call& call, ByteSource& in) {
  shape(call, in);
  call.in = {floats(in, call.heads * call.head_dim), floats(in, call.rows * call.head_dim)};
  call.out = {floats(in, call.heads * call.stride)};
}

void arrange_sum(Call& call, ByteSource& in) {
  shape(call, in);
  call.in = {floats(in, call.heads * call.stride), floats(in, call.rows * call.head_dim)};
  call.out = {floats(in, call.heads * call.head_dim)};
}

void arrange_row(Call& call, ByteSource& in) {
  call.rows = size_from(in, 40, 120) - 1;
  call.out = {floats(in, call.rows)};
}

void arrange_row_to_row(Call& call, ByteSource& in) {
  arrange_row(call, in);
  if (!call.flag) call.in = {floats(in, call.rows)};
}

const float* row_of(const Call& call, const Memory& memory) { return call.flag ? memory.write(0) : memory.read(0); }

std::size_t int8_groups(std::size_t head_dim) { return (head_dim - 1) / optimized::kernels::int8_group + 1; }

constexpr std::array kernels{
    // --- f32 ---
    Kernel{"scores", true, arrange_scores,
           [](const Table& t, const Call& c, const Memory& m) {
             return t.scores(m.read(0), c.heads, m.read(1), c.rows, c.head_dim, c.scalar, m.write(0), c.stride), 0;
           }},
    Kernel{"softcap_row", true,
           [](Call& c, ByteSource& in) {
             arrange_row(c, in);
             if (!(c.scalar > 0 && c.scalar <= 0x1.FFFFFEp127F)) c.scalar = 0x1p-149F;  // a cap is finite and above zero
           },
           [](const Table& t, const Call& c, const Memory& m) { return t.softcap_row(m.write(0), c.rows, c.scalar), 0; }},
    Kernel{"softmax_rows", false,
           [](Call& c, ByteSource& in) {
             c.heads = 1 + in.below(4), c.rows = size_from(in, 40, 120), c.stride = c.rows + in.below(3), c.some = in.below(16);
             c.in = {floats(in, c.heads), floats(in, in.below(64))};  // sinks, and what will be read next
             c.out = {floats(in, c.heads * c.stride)};
           },
           [](const Table& t, const Call& c, const Memory& m) {
             const float* sinks = c.flag ? m.read(0) : nullptr;
             return t.softmax_rows(m.write(0), c.heads, c.stride, c.rows, c.some, sinks, m.read(1), c.in[1].bytes.size()), 0;
           }},
    Kernel{"weighted_sum", true, arrange_sum,
           [](const Table& t, const Call& c, const Memory& m) {
             return t.weighted_sum(m.read(0), c.heads, c.stride, m.read(1), c.rows, c.head_dim, m.write(0)), 0;
           }},
    Kernel{"add_row", false,
           [](Call& c, ByteSource& in) {
             arrange_row_to_row(c, in);
             if (!c.flag) return;
             c.some = c.rows == 0 ? 0 : in.below(c.rows + 1);  // the row begins so many numbers behind acc, and ends so many behind it
             const Array more = floats(in, c.some);
             c.out[0].bytes.insert(c.out[0].bytes.end(), more.bytes.begin(), more.bytes.end());
           },
           [](const Table& t, const Call& c, const Memory& m) { return t.add_row(m.write(0), row_of(c, m) + (c.flag ? c.some : 0), c.rows), 0; }},
    Kernel{"canonicalize_row", false, arrange_row,
           [](const Table& t, const Call& c, const Memory& m) { return t.canonicalize_row(m.write(0), c.rows), 0; }},
    Kernel{"exp_row", false, arrange_row_to_row,
           [](const Table& t, const Call& c, const Memory& m) { return t.exp_row(row_of(c, m), m.write(0), c.rows), 0; }},
    Kernel{"tanh_row", false, arrange_row_to_row,
           [](const Table& t, const Call& c, const Memory& m) { return t.tanh_row(row_of(c, m), m.write(0), c.rows), 0; }},
    // --- int8 ---
    Kernel{"int8 scores", true,
           [](Call& c, ByteSource& in) {
             shape(c, in);
             c.in = {floats(in, c.heads * c.head_dim), integers(in, c.rows * c.head_dim), floats(in, c.rows * int8_groups(c.head_dim))};
             c.out = {floats(in, c.heads * c.stride)};
           },
           [](const Table& t, const Call& c, const Memory& m) {
             return t.int8->scores(m.read(0), c.heads, m.read<std::int8_t>(1), c.rows, c.head_dim, m.read(2), c.scalar, m.write(0), c.stride), 0;
           }},
    Kernel{"int8 weighted_sum", true,
           [](Call& c, ByteSource& in) {
             shape(c, in);
             c.in = {floats(in, c.heads * c.stride), integers(in, c.rows * c.head_dim)};
             c.out = {floats(in, c.heads * c.head_dim)};
           },
           [](const Table& t, const Call& c, const Memory& m) {
             return t.int8->weighted_sum(m.read(0), c.heads, c.stride, m.read<std::int8_t>(1), c.rows, c.head_dim, m.write(0)), 0;
           }},
    Kernel{"int8 quantize_row", false,
           [](Call& c, ByteSource& in) {
             c.head_dim = size_from(in, 70, 150), c.some = size_from(in, 40, 200);
             c.in = {floats(in, c.head_dim), floats(in, c.flag ? c.head_dim : 0)};
             c.out = {floats(in, (c.head_dim - 1) / c.some + 1), bytes(in, c.head_dim)};
           },
           [](const Table& t, const Call& c, const Memory& m) {
             const float* columns = c.flag ? m.read(1) : nullptr;
             if (!t.int8->quantizable(m.read(0), columns, c.head_dim)) return 0;
             return t.int8->quantize_row(m.read(0), columns, c.head_dim, c.some, m.write<std::int8_t>(1), m.write(0)), 1;
           }},
    // --- binary16 ---
    Kernel{"binary16 narrow", false,
           [](Call& c, ByteSource& in) {
             c.rows = size_from(in, 40, 120) - 1;
             c.in = {floats(in, c.rows)};
             c.out = {bytes(in, 2 * c.rows)};
           },
           [](const Table& t, const Call& c, const Memory& m) { return t.binary16->narrow(m.read(0), m.write<unsigned char>(0), c.rows) ? 1 : 0; }},
    Kernel{"binary16 widen", false,
           [](Call& c, ByteSource& in) {
             c.rows = size_from(in, 40, 120) - 1;
             c.in = {bytes(in, 2 * c.rows)};
             c.out = {floats(in, c.rows)};
           },
           [](const Table& t, const Call& c, const Memory& m) { return t.binary16->widen(m.read<unsigned char>(0), m.write(0), c.rows), 0; }},
    // --- The ring and the O(1) state ---
    Kernel{"rotated_scores", true,
           [](Call& c, ByteSource& in) {
             shape(c, in, 2);
             c.some = 1 + in.below(c.head_dim / 2);
             const std::size_t keys = stepped(c, in);
             c.in = {floats(in, c.heads * c.head_dim), floats(in, keys), floats(in, c.rows * c.some), floats(in, c.rows * c.some)};
             c.out = {floats(in, c.heads * c.stride)};
           },
           [](const Table& t, const Call& c, const Memory& m) {
             return t.state->rotated_scores(m.read(0), c.heads, first_row(c, m.read(1)), c.step, c.rows, c.head_dim, {m.read(2), m.read(3), c.some},
                                            c.scalar, m.write(0), c.stride), 0;
           }},
    Kernel{"stepped_sum", true,
           [](Call& c, ByteSource& in) {
             shape(c, in);
             const std::size_t values = stepped(c, in);
             c.in = {floats(in, c.heads * c.stride), floats(in, values)};
             c.out = {floats(in, c.heads * c.head_dim)};
           },
           [](const Table& t, const Call& c, const Memory& m) {
             return t.state->stepped_sum(m.read(0), c.heads, c.stride, first_row(c, m.read(1)), c.step, c.rows, c.head_dim, m.write(0)), 0;
           }},
    Kernel{"fma_rows", true,
           [](Call& c, ByteSource& in) {
             c.rows = size_from(in, 12, 40), c.head_dim = size_from(in, 40, 150);
             c.in = {floats(in, c.rows), floats(in, c.rows * c.head_dim)};
             c.out = {floats(in, c.head_dim)};
           },
           [](const Table& t, const Call& c, const Memory& m) { return t.state->fma_rows(m.read(0), m.read(1), c.rows, c.head_dim, m.write(0)), 0; }},
};

}  // namespace

std::span<const Kernel> all_kernels() { return kernels; }

Call call_of(ByteSource& in) {
  Call call;
  call.kernel = &kernels[in.below(kernels.size())];
  call.flag = in.flag();
  call.scalar = in.number();
  call.kernel->arrange(call, in);
  return call;
}

}  // namespace kvcert::fuzz
