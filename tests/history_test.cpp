// Random histories over all operations, on the reference and the optimized cache of every ISA side by side; every observable is compared after every step.
#include <fmt/format.h>

#include <algorithm>

#include "certify/player.hpp"
#include "tests/property.hpp"

using namespace kvcert;
using certify::Coverage;
using certify::History;

namespace {

/// A history as a message: the setting and the steps.
std::string describe(const History& history) {
  std::string text = fmt::format("kv_heads {}, head_dim {}, fan-out {}:", history.setting.geometry.num_kv_heads,
                                 history.setting.geometry.head_dim, history.setting.fan_out);
  for (const auto& step : history.steps) text += fmt::format(" {}({:#x})", certify::name(step.op), step.seed);
  return text;
}

rc::Gen<History> histories(std::size_t steps) {
  const auto seeds = rc::gen::noShrink(rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>()));
  return rc::gen::shrink(rc::gen::map(seeds, [=](std::uint64_t seed) { return certify::generate_history(seed, steps); }),
                         [](const History& history) { return rc::seq::fromContainer(certify::simpler(history)); });
}

/// States that every run must reach, a hundred times and more: the contract's six, int8 in its three modes on both sides of the
/// freeze, and empty ones.
const std::vector<std::string> states{
    "plain", "plain empty", "plain q8", "plain q8 frozen", "plain q8_keys", "plain q8_keys frozen", "plain q8_values",
    "plain q8_values frozen", "plain q8 empty", "plain q8_keys empty", "plain q8_values empty",
    "plain q8 frozen empty", "plain q8_keys frozen empty", "plain q8_values frozen empty", "collecting", "collecting empty", "sealed", "aborted", "bounded", "bounded empty", "linear",
    "linear empty"};

/// Every operator of the contract, and the int8 ones in each storage: each must have been compared in so many histories.
std::vector<std::string> operators() {
  std::vector<std::string> names{"append", "append_chunk", "accumulate_imp", "truncate_last", "truncate_last ring", "evict_recent", "evict_by_mass",
                                 "clear", "snapshot", "restore", "round_trip", "import_record", "linear_commit", "linear_set_scratch",
                                 "linear_accept_scratch", "discard_linear_scratch", "bounded_step", "bounded_snapshot", "bounded_restore", "o1_begin", "o1_push_q",
                                 "o1_seal", "o1_step", "group exact-only", "group sealed"};
  for (const char* mode : {"", " q8", " q8_keys", " q8_values"}) {
    for (const char* op : {"attend", "attend_group", "attend_group_upto", "attend_chunk"}) names.push_back(std::string(op) + mode);
  }
  for (const char* mode : {" q8", " q8_keys", " q8_values"}) {
    for (const char* op : {"append", "append_chunk", "truncate_last", "evict_recent", "evict_by_mass"}) names.push_back(std::string(op) + mode);
  }
  return names;
}

void report(const Coverage& coverage) {
  fmt::print("    operation                 played  succeeded\n");
  for (const auto& [name, n] : coverage.played) {
    const auto found = coverage.succeeded.find(name);
    fmt::print("    {:<24}{:>8}{:>11}\n", name, n, found == coverage.succeeded.end() ? 0 : found->second);
  }
  fmt::print("    state                    visited\n");
  for (const auto& [name, n] : coverage.states) fmt::print("    {:<24}{:>8}\n", name, n);
  fmt::print("    operator                 histories in which it was compared\n");
  for (const auto& [name, n] : coverage.histories) fmt::print("    {:<24}{:>8}\n", name, n);
}

}  // namespace

namespace kvcert::certify {
void showValue(const History& history, std::ostream& stream) { stream << describe(history); }
}  // namespace kvcert::certify

BOOST_AUTO_TEST_SUITE(histories_of_operations)

BOOST_AUTO_TEST_CASE(reference_and_optimized_never_differ) {
  const auto engines = tests::engines_present("histories");
  BOOST_TEST_REQUIRE(!engines.empty());
  Coverage coverage;
  const auto& configuration = rc::detail::configuration();
  auto parameters = configuration.testParams;
  // A third in `quick`: of 2,000 histories, an operator that is in 600 of 8,000 is in fewer than 126 now and then, by chance.
  parameters.maxSuccess = static_cast<int>(std::max<std::size_t>(tests::at_level(8000), 2700));
  rc::detail::TestMetadata metadata;
  metadata.id = boost::unit_test::framework::current_test_case().full_name();
  const auto property = [&] {
    const History history = *histories(60);
    if (auto found = certify::difference_in_history(tests::Reference{}, std::span(engines), history, coverage)) RC_FAIL(*found);
  };
  tests::Silence silence;
  const auto result = rc::detail::checkTestable(property, metadata, parameters, silence, configuration.reproduce);
  if (!result.is<rc::detail::SuccessResult>()) {
    std::ostringstream text;
    rc::detail::printResultMessage(result, text);
    BOOST_FAIL("\n" + text.str() + "\nseed " + std::to_string(parameters.seed) + ": rerun with RC_PARAMS=\"seed=" +
               std::to_string(parameters.seed) + "\" ./kvcert test --run_test=" + metadata.id);
  }
  for (const auto& engine : engines) fmt::print("    beside the reference: {}\n", engine.name());
  report(coverage);
  for (const std::string& name : operators()) {
    BOOST_TEST(coverage.histories[name] >= tests::at_level(500), name << " was compared in " << coverage.histories[name] << " histories only");
  }
  for (const std::string& state : states) {
    BOOST_TEST(coverage.states[state] >= tests::at_level(100), state << " was reached " << coverage.states[state] << " times only");
  }
  for (std::size_t op = 0; op < certify::op_count; ++op) {
    const std::string name = certify::name(static_cast<certify::Op>(op));
    BOOST_TEST(coverage.succeeded[name] > 0U, name << " never succeeded");
  }
}

BOOST_AUTO_TEST_SUITE_END()
