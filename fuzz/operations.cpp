// The bytes are a history of commands, played on the reference and on the optimized cache side by side; after every step the
// answers and everything observable must be equal.
#include <array>

#include "certify/engine.hpp"
#include "certify/player.hpp"
#include "fuzz/byte_source.hpp"
#include "fuzz/fail.hpp"

namespace {

using namespace kvcert;
using namespace kvcert::fuzz;

/// Later steps of a long history show little that its beginning did not.
constexpr std::size_t most_steps = 96;

/// theme, KV heads and fan-out, head_dim, then for each step an operation and the seed of its arguments, in three bytes.
certify::History history_of(ByteSource& in) {
  certify::History history;
  history.setting.theme = static_cast<certify::Theme>(in.below(certify::theme_count));
  const std::uint8_t sizes = in.u8();
  history.setting.geometry.num_kv_heads = 1 + sizes % 3U;
  history.setting.fan_out = 1 + sizes / 3U % 3U;
  constexpr std::array<std::size_t, 7> dims{1, 2, 3, 5, 8, 16, 33};
  history.setting.geometry.head_dim = dims[in.below(dims.size())];
  while (!in.empty() && history.steps.size() < most_steps) {
    const auto op = static_cast<certify::Op>(in.below(certify::op_count));
    history.steps.push_back({op, in.integer(2)});
  }
  return history;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteSource in({data, size});
  // One byte says which kernels: every ISA must give the same.
  const auto isas = optimized::available_isas();
  const certify::OptimizedEngine engine{isas[in.below(isas.size())]};
  const certify::History history = history_of(in);
  certify::Coverage coverage;
  if (const auto found = certify::difference_in_history(certify::ReferenceEngine{}, engine, history, coverage)) {
    std::string steps;
    for (const auto& step : history.steps) steps += fmt::format(" {}({})", certify::name(step.op), step.seed);
    fail(fmt::format("reference and {}, {} heads × {}, fan-out {}: {}\n history:{}", engine.name(), history.setting.geometry.num_kv_heads,
                     history.setting.geometry.head_dim, history.setting.fan_out, *found, steps));
  }
  return 0;
}
