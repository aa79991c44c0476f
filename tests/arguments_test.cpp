// Calls with any arguments, in every state, on the reference and on every kernel side by side: they answer alike, and nothing
// aborts. `./kvcert test sanitize` runs the same under ASan and UBSan, and `./kvcert fuzz arguments` lets a fuzzer choose.
#include "certify/arguments.hpp"

#include <algorithm>

#include "certify/random.hpp"
#include "tests/property.hpp"

using namespace kvcert;

namespace {

std::vector<std::uint8_t> bytes_of(std::uint64_t seed) {
  certify::Random random(seed);
  std::vector<std::uint8_t> bytes(random.between(100, 1200));
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.bits() >> 56U);
  return bytes;
}

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(arguments)

BOOST_AUTO_TEST_CASE_TEMPLATE(any_arguments_are_answered_alike, Engine, tests::FastEngines) {
  if (!tests::has(Engine{})) {
    std::cout << "NOT RUN: arguments on " << Engine{}.name() << ", which this machine lacks\n";
    return;
  }
  certify::ArgumentCoverage coverage;
  const std::size_t inputs = std::max<std::size_t>(1000, tests::at_level(1000));  // fewer would not meet every answer
  for (std::uint64_t seed = 1; seed <= inputs; ++seed) {
    const auto bytes = bytes_of(seed);
    const auto found = certify::difference_in_calls(tests::Reference{}, Engine{}, bytes, coverage);
    BOOST_TEST_REQUIRE(!found.has_value(), "input " << seed << ": " << found.value_or("") << "\n" << hex(bytes));
  }
  std::cout << "    " << Engine{}.name() << ": " << coverage.calls << " calls, " << coverage.answers.size() << " kinds of answer, " << coverage.states.size() << " states\n";
  BOOST_TEST(coverage.states.size() == 6U);
  // Every code that a cache call can have was an answer, and every call was accepted and refused in some way, where it can be.
  for (const char* code : {"shape_mismatch", "invalid_argument", "head_out_of_range", "wrong_state", "alive_changed", "non_finite", "undo_exhausted",
                           "irreversible", "not_describable", "counter_exhausted", "out_of_memory", "accepted"}) {
    const bool seen = std::any_of(coverage.answers.begin(), coverage.answers.end(), [&](const std::string& answer) { return answer.ends_with(std::string(": ") + code); });
    BOOST_TEST(seen, "no call answered " << code);
  }
  for (const char* call : {"append", "append_chunk", "attend", "attend_group", "attend_group_upto", "attend_chunk", "accumulate_imp", "truncate_last",
                           "evict_recent", "evict_by_mass", "snapshot", "restore", "set_mode", "set_wire_kind", "linear_commit", "linear_set_scratch",
                           "linear_accept_scratch", "discard_linear_scratch", "install_bounded", "bounded_step", "bounded_snapshot", "bounded_restore",
                           "o1_begin", "o1_push_q", "o1_seal", "o1_step", "group", "group step", "export_wire", "import_wire", "set_sinks", "wire_bytes",
                           "many layers"}) {
    BOOST_TEST(coverage.answers.count(std::string(call) + ": accepted") == 1U, call << " was never accepted");
  }
}

BOOST_AUTO_TEST_SUITE_END()
