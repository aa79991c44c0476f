// The bytes are one kernel's arguments, as raw bits; every ISA of the machine must answer with the bits of the scalar one, and
// write nothing else.
#include <algorithm>
#include <array>

#include "fuzz/byte_source.hpp"
#include "fuzz/fail.hpp"
#include "optimized/dispatch.hpp"
#include "optimized/kernels/kernels.hpp"

namespace {

using namespace kvcert;
using namespace kvcert::fuzz;
using optimized::kernels::Table;

/// An array at any 4-byte alignment, between guards.
class Guarded {
 public:
  Guarded(const std::vector<float>& values, std::size_t shift) : begin_(guards + shift), size_(values.size()), memory_(begin_ + size_ + guards, guard) {
    std::ranges::copy(values, memory_.begin() + static_cast<std::ptrdiff_t>(begin_));
  }
  float* data() { return memory_.data() + begin_; }
  std::span<const float> view() const { return std::span(memory_).subspan(begin_, size_); }
  bool intact() const {
    const auto is_guard = [](float x) { return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(guard); };
    return std::ranges::all_of(std::span(memory_).first(begin_), is_guard) && std::ranges::all_of(std::span(memory_).subspan(begin_ + size_), is_guard);
  }

 private:
  static constexpr std::size_t guards = 16;
  static constexpr float guard = 1234.5F;
  std::size_t begin_, size_;
  std::vector<float> memory_;
};

/// One call: which kernel, sizes, scalars, and the arrays that are read (a, b) and written (out).
struct Call {
  std::size_t kernel = 0, heads = 1, rows = 1, head_dim = 1, stride = 1, first_lane = 0, shift = 0;
  float scalar = 1;
  bool has_sink = false, in_place = false;
  std::vector<float> a, b, out;
};

constexpr std::array names{"scores", "softcap_row", "softmax_rows", "weighted_sum", "add_row", "canonicalize_row", "exp_row", "tanh_row"};

/// Where the contract lets a NaN be any NaN.
bool nan_may_be_any(std::size_t kernel) { return kernel == 0 || kernel == 1 || kernel == 3; }

Call call_of(ByteSource& in) {
  Call call;
  call.kernel = in.below(names.size());
  call.shift = in.below(16);
  call.first_lane = in.below(16);
  call.has_sink = in.flag();
  call.in_place = in.flag();
  call.scalar = in.number();
  const bool matrix = call.kernel == 0 || call.kernel == 3;
  if (matrix) {
    call.heads = 1 + in.below(5), call.rows = 1 + in.below(12), call.head_dim = 1 + in.below(40);
    call.stride = call.rows + in.below(3);
    const std::size_t queries = call.heads * call.head_dim, scores = call.heads * call.stride;
    call.a = in.numbers(call.kernel == 0 ? queries : scores);
    call.b = in.numbers(call.rows * call.head_dim);
    call.out = in.numbers(call.kernel == 0 ? scores : queries);
  } else if (call.kernel == 2) {
    call.heads = 1 + in.below(4), call.rows = 1 + in.below(70), call.stride = call.rows + in.below(3);
    call.a = in.numbers(call.heads);  // sinks
    call.out = in.numbers(call.heads * call.stride);
  } else {
    call.rows = 1 + in.below(70);
    call.out = in.numbers(call.rows);
    call.a = call.kernel >= 6 && call.in_place ? call.out : in.numbers(call.rows);
  }
  // A cap is finite and above zero.
  if (call.kernel == 1 && !(call.scalar > 0 && call.scalar <= 0x1.FFFFFEp127F)) call.scalar = 0x1p-149F;
  return call;
}

void run(const Table& table, const Call& call, Guarded& a, Guarded& b, Guarded& out) {
  switch (call.kernel) {
    case 0: return table.scores(a.data(), call.heads, b.data(), call.rows, call.head_dim, call.scalar, out.data(), call.stride);
    case 1: return table.softcap_row(out.data(), call.rows, call.scalar);
    case 2:
      return table.softmax_rows(out.data(), call.heads, call.stride, call.rows, call.first_lane, call.has_sink ? a.data() : nullptr,
                                b.data(), b.view().size_bytes());
    case 3: return table.weighted_sum(a.data(), call.heads, call.stride, b.data(), call.rows, call.head_dim, out.data());
    case 4: return table.add_row(out.data(), a.data(), call.rows);
    case 5: return table.canonicalize_row(out.data(), call.rows);
    case 6: return table.exp_row(call.in_place ? out.data() : a.data(), out.data(), call.rows);
    default: return table.tanh_row(call.in_place ? out.data() : a.data(), out.data(), call.rows);
  }
}

/// The written array's bits, each NaN made the same where any will do.
std::vector<std::uint32_t> answer(const Table& table, const std::string& isa, const Call& call) {
  Guarded a(call.a, call.shift), b(call.b, 15 - call.shift), out(call.out, call.shift / 2);
  run(table, call, a, b, out);
  if (!a.intact() || !b.intact() || !out.intact()) fail(fmt::format("{} {} wrote outside its arrays", isa, names[call.kernel]));
  const auto same = [](std::span<const float> x, const std::vector<float>& y) {
    return std::ranges::equal(x, y, {}, [](float f) { return std::bit_cast<std::uint32_t>(f); }, [](float f) { return std::bit_cast<std::uint32_t>(f); });
  };
  if (!same(a.view(), call.a) || !same(b.view(), call.b)) fail(fmt::format("{} {} changed what it only reads", isa, names[call.kernel]));
  std::vector<std::uint32_t> bits;
  for (float x : out.view()) bits.push_back(x != x && nan_may_be_any(call.kernel) ? optimized::kernels::canonical_nan : std::bit_cast<std::uint32_t>(x));
  return bits;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteSource in({data, size});
  const Call call = call_of(in);
  const auto expected = answer(*optimized::kernel_table(optimized::Isa::scalar), "scalar", call);
  for (const optimized::Isa isa : optimized::available_isas()) {
    const auto found = answer(*optimized::kernel_table(isa), std::string(optimized::name(isa)), call);
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(found, expected).in1 - found.begin());
    if (at == found.size()) continue;
    fail(fmt::format("{} {}: element {} of {} is {:#010x}, the scalar kernel says {:#010x} ({} heads, {} rows, head_dim {}, stride {})",
                     optimized::name(isa), names[call.kernel], at, found.size(), found[at], expected[at], call.heads, call.rows, call.head_dim,
                     call.stride));
  }
  return 0;
}
