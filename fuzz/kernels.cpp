// The bytes are one kernel's arguments, as raw bits; every ISA of the machine must answer with the bits of the scalar one, and
// read and write nothing else.
#include <algorithm>
#include <memory>
#include <string>

#include "fuzz/fail.hpp"
#include "fuzz/kernel_calls.hpp"
#include "optimized/dispatch.hpp"

namespace {

using namespace kvcert;
using namespace kvcert::fuzz;
using optimized::kernels::Table;

bool same_bytes(std::span<const std::byte> a, const std::vector<std::byte>& b) { return std::ranges::equal(a, b); }

/// Every NaN made the same: where any will do.
void make_nans_alike(std::vector<std::byte>& floats) {
  for (std::size_t at = 0; at < floats.size(); at += sizeof(float)) {
    float x;
    std::memcpy(&x, &floats[at], sizeof x);
    if (x != x) std::memcpy(&floats[at], &optimized::kernels::canonical_nan, sizeof x);
  }
}

/// What a kernel returned and wrote.
struct Answer {
  int returned = 0;
  std::vector<std::vector<std::byte>> written;
};

Answer answer(const Table& table, const std::string& isa, const Call& call, std::size_t shift) {
  std::vector<std::unique_ptr<Guarded>> arrays;
  const auto lay_out = [&](const std::vector<Array>& from, std::vector<Guarded*>& to) {
    for (const Array& array : from) {
      arrays.push_back(std::make_unique<Guarded>(array.bytes, shift % 64 / array.alignment * array.alignment));
      to.push_back(arrays.back().get());
      shift = shift * 7 + 13;  // each array at an address of its own
    }
  };
  Memory memory;
  lay_out(call.in, memory.in);
  lay_out(call.out, memory.out);
  Answer result{call.kernel->run(table, call, memory), {}};
  for (const auto& array : arrays) {
    if (!array->intact()) fail(fmt::format("{} {} wrote outside its arrays", isa, call.kernel->name));
  }
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!same_bytes(memory.in[i]->view(), call.in[i].bytes)) fail(fmt::format("{} {} changed what it only reads", isa, call.kernel->name));
  }
  for (const Guarded* out : memory.out) result.written.emplace_back(out->view().begin(), out->view().end());
  if (call.kernel->nan_may_be_any) make_nans_alike(result.written[0]);
  return result;
}

/// Where two answers differ, as words; empty: nowhere.
std::string difference(const Call& call, const Answer& found, const Answer& expected) {
  if (found.returned != expected.returned) return fmt::format("returned {}, the scalar kernel {}", found.returned, expected.returned);
  for (std::size_t i = 0; i < found.written.size(); ++i) {
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(found.written[i], expected.written[i]).in1 - found.written[i].begin());
    if (at == found.written[i].size()) continue;
    const std::size_t width = call.out[i].alignment, begin = at / width * width;
    const auto number = [&](const Answer& from) {
      std::uint32_t x = 0;
      std::memcpy(&x, &from.written[i][begin], width);
      return x;
    };
    return fmt::format("element {} of {} is {:#x}, the scalar kernel says {:#x}", at / width, found.written[i].size() / width, number(found), number(expected));
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteSource in({data, size});
  const std::size_t shift = in.u8();
  const Call call = call_of(in);
  const auto expected = answer(*optimized::kernel_table(optimized::Isa::scalar), "scalar", call, shift);
  for (const optimized::Isa isa : optimized::available_isas()) {
    const std::string name(optimized::name(isa));
    const std::string differs = difference(call, answer(*optimized::kernel_table(isa), name, call, shift), expected);
    if (differs.empty()) continue;
    fail(fmt::format("{} {}: {} ({} heads, {} rows, head_dim {}, stride {}, step {}, {})", name, call.kernel->name, differs, call.heads,
                     call.rows, call.head_dim, call.stride, call.step, call.some));
  }
  return 0;
}
