// docs/states.md, cell by cell, on both implementations.
#include <fstream>
#include <map>
#include <sstream>

#include "certify/laws/law.hpp"
#include "tests/property.hpp"

using namespace kvcert;

namespace {

constexpr Geometry geometry{2, 4};
constexpr std::size_t query_heads = 4;

std::vector<float> ramp(std::size_t n) {
  std::vector<float> numbers(n);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = 0.25F + 0.125F * static_cast<float>(i % 7);
  return numbers;
}

struct Table {
  std::vector<std::string> columns;
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
};

/// The one table of docs/states.md.
Table documented() {
  std::ifstream file("docs/states.md");
  BOOST_REQUIRE_MESSAGE(file, "docs/states.md cannot be read; run from the repository's root");
  Table table;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| ")) continue;
    std::vector<std::string> cells;
    std::istringstream split(line.substr(1));
    for (std::string cell; std::getline(split, cell, '|');) {
      const auto begin = cell.find_first_not_of(' ');
      if (begin != std::string::npos) cells.push_back(cell.substr(begin, cell.find_last_not_of(' ') - begin + 1));
    }
    const std::string call = cells.front();
    cells.erase(cells.begin());
    if (call == "call") table.columns = cells; else table.rows.emplace_back(call, cells);
  }
  return table;
}

template <class Cache>
typename Cache::Rope rope() {
  return certify::must(Cache::Rope::create(3, std::vector<float>{1.0F, 0.1F}, 1.0F), "Rope::create");
}

template <class Cache>
Result<void> ring_step(Cache& layer) {
  std::vector<float> out(query_heads * geometry.head_dim);
  const auto q = ramp(out.size());
  const auto row = ramp(8);
  return layer.bounded_step(q, row, row, {}, rope<Cache>(), 0.5F, query_heads, out);
}

template <class Cache>
void append_rows(Cache& layer, std::size_t n, bool push) {
  const auto row = ramp(8);
  for (std::size_t i = 0; i < n; ++i) {
    certify::must(layer.append(row, row, {}), "append");
    if (push) certify::must(layer.o1_push_q(ramp(query_heads * geometry.head_dim)), "o1_push_q");
  }
}

/// A layer in the column's state.
template <class Engine>
typename Engine::Cache in_state(const Engine& engine, const std::string& state) {
  using certify::must;
  auto layer = must(engine.make(geometry), "create");
  const std::map<std::string, KvMode> modes{{"q8 empty", KvMode::q8}, {"q8", KvMode::q8}, {"q8_keys", KvMode::q8_keys}, {"q8_values", KvMode::q8_values}};
  if (const auto mode = modes.find(state); mode != modes.end()) must(layer.set_mode(mode->second), "set_mode");
  if (state == "plain" || (modes.contains(state) && state != "q8 empty")) append_rows(layer, 3, false);
  if (state == "collecting" || state == "sealed" || state == "aborted") {
    must(layer.o1_begin({4, 2, 1, O1Rect::aggregate}), "o1_begin");
    append_rows(layer, state == "collecting" ? 3 : 14, true);
    if (state == "sealed") BOOST_REQUIRE(must(layer.o1_seal(query_heads), "o1_seal"));
    if (state == "aborted") BOOST_REQUIRE(!layer.o1_seal(query_heads + 1));
  }
  if (state == "bounded") {
    must(layer.install_bounded(3), "install_bounded");
    for (int i = 0; i < 5; ++i) must(ring_step(layer), "bounded_step");
  }
  if (state == "linear" || state == "linear empty") must(layer.set_wire_kind(WireKind::linear), "set_wire_kind");
  if (state == "linear") must(layer.linear_commit(ramp(3), 2), "linear_commit");
  return layer;
}

template <class T>
std::string word(const Result<T>& result) {
  if (result) return "";
  return result.error().code == ErrorCode::wrong_state ? "WS" : std::string(name(result.error().code));
}

/// Makes the row's call; "" for success without an answer of its own, else the answer or the code.
template <class Engine>
std::string call(const Engine& engine, typename Engine::Cache& layer, const std::string& name) {
  using Cache = typename Engine::Cache;
  const auto row = ramp(8);
  const auto q = ramp(8);
  std::vector<float> out(8), acc(1);
  const Query query{.q_group = q, .kv_head = 1, .scale = 0.5F};
  const auto yes_or_no = [](const Result<bool>& result) { return result ? std::string(*result ? "yes" : "no") : word(result); };
  const auto gone = [](const Result<std::size_t>& result) { return result && *result == 0 ? "0" : word(result); };
  if (name == "append") return word(layer.append(row, row, {}));
  if (name == "append_chunk") return word(layer.append_chunk(ramp(16), ramp(16), 2, {}));
  if (name == "attend") return word(layer.attend(std::span(q).first(4), 1));
  if (name == "attend_group") return word(layer.attend_group(query, out, acc));
  if (name == "attend_group_upto") return word(layer.attend_group_upto(query, 2, out, acc));
  if (name == "attend_chunk, b = 0") return word(layer.attend_chunk(Query{.kv_head = 1}, 0, 0, 0, {}, acc));
  if (name == "accumulate_imp, one position") return word(layer.accumulate_imp(ramp(1)));
  if (name == "truncate_last(0)") return word(layer.truncate_last(0));
  if (name == "truncate_last(1)") return word(layer.truncate_last(1));
  if (name == "evict_recent(1)") return gone(layer.evict_recent(1));
  if (name == "evict_by_mass(1, 0, 0)") return gone(layer.evict_by_mass(1, 0, 0));
  if (name == "clear") return layer.clear(), "";
  if (name == "snapshot") return word(layer.snapshot());
  if (name == "restore of its own snapshot") return word(layer.restore(*layer.snapshot()));
  if (name == "import_wire, a record of its kind") {
    const char* kind = layer.wire_kind() == WireKind::full ? "plain" : layer.wire_kind() == WireKind::linear ? "linear" : "bounded";
    auto source = in_state(engine, kind);
    if (layer.wire_kind() == WireKind::bounded) certify::must(ring_step(source), "bounded_step");
    if (layer.wire_kind() == WireKind::full) append_rows(source, 1, false);
    if (layer.wire_kind() == WireKind::linear) certify::must(source.linear_commit(ramp(2), 1), "linear_commit");
    return word(layer.import_wire(*source.export_wire(WireFormat::f32)));
  }
  if (name == "export_wire") return word(layer.export_wire(WireFormat::f32));
  if (name == "linear_commit") return word(layer.linear_commit(ramp(2), 1));
  if (name == "linear_set_scratch") return word(layer.linear_set_scratch(ramp(2)));
  if (name == "linear_accept_scratch without one") return word(layer.linear_accept_scratch());
  if (name == "discard_linear_scratch") return word(layer.discard_linear_scratch());
  if (name == "install_bounded") return word(layer.install_bounded(3));
  if (name == "o1_begin") return word(layer.o1_begin({4, 2, 1, O1Rect::fm}));
  if (name == "set_mode(q8)") return word(layer.set_mode(KvMode::q8));
  if (name == "bounded_step") return word(ring_step(layer));
  if (name == "bounded_snapshot") {
    const auto ring = layer.bounded_snapshot();
    return ring && !ring->has_value() ? "none" : word(ring);
  }
  if (name == "bounded_restore") {
    Cache source = in_state(engine, "bounded");
    certify::must(ring_step(source), "bounded_step");
    return word(layer.bounded_restore(**source.bounded_snapshot()));
  }
  if (name == "o1_push_q") return word(layer.o1_push_q(ramp(query_heads * geometry.head_dim)));
  if (name == "o1_seal") return yes_or_no(layer.o1_seal(query_heads));
  if (name == "o1_step") return word(layer.o1_step(ramp(query_heads * geometry.head_dim), row, row, query_heads));
  if (name == "set_wire_kind(full)") return word(layer.set_wire_kind(WireKind::full));
  if (name == "set_wire_kind(linear)") return word(layer.set_wire_kind(WireKind::linear));
  if (name == "set_wire_kind(bounded)") return word(layer.set_wire_kind(WireKind::bounded));
  if (name == "set_sinks") return word(layer.set_sinks(ramp(6)));
  return "the test does not know this call";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(states)

BOOST_AUTO_TEST_CASE_TEMPLATE(every_cell_of_the_table, Engine, tests::Engines) {
  const Engine engine;
  if (!tests::has(engine)) {
    std::cout << "NOT RUN: every_cell_of_the_table on " << engine.name() << ", which this machine lacks\n";
    return;
  }
  const Table table = documented();
  BOOST_TEST(table.columns.size() == 12U);
  BOOST_TEST(table.rows.size() == 33U);
  std::size_t cells = 0;
  for (const auto& [name, expected] : table.rows) {
    BOOST_REQUIRE_MESSAGE(expected.size() == table.columns.size(), name << " has " << expected.size() << " cells");
    for (std::size_t column = 0; column < expected.size(); ++column) {
      const std::string where = name + ", " + table.columns[column] + ", " + engine.name();
      auto layer = in_state(engine, table.columns[column]);
      const auto before = certify::observe(layer);
      const std::string answer = call(engine, layer, name);
      const auto change = certify::difference(certify::observe(layer), before);
      const std::string& cell = expected[column];
      const std::string wanted = cell == "ok" || cell == "·" ? "" : cell;
      BOOST_TEST(answer == wanted, where << ": answered \"" << answer << "\", the table says " << cell);
      BOOST_TEST(change.has_value() == (cell == "ok"), where << ": " << (change ? "changed " + *change : "changed nothing") << ", the table says " << cell);
      if (const auto fault = certify::incoherence(layer)) BOOST_ERROR(where << ": afterwards " << *fault);
      ++cells;
    }
  }
  BOOST_TEST(cells == 33U * 12U);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_empty_layer_with_a_recurrent_vector, Engine, tests::Engines) {
  const Engine engine;
  if (!tests::has(engine)) return;
  auto source = certify::must(engine.make(geometry), "create");
  auto record = certify::must(source.export_wire(WireFormat::f32), "export_wire");
  record[wire::header_bytes + 16] = 1;  // linear_len
  record.insert(record.begin() + wire::header_bytes + 24, {0, 0, 128, 63});
  auto layer = source;
  certify::must(layer.import_wire(record), "import_wire");
  BOOST_TEST(layer.linear_state().size() == 1U);
  const auto before = certify::observe(layer);
  BOOST_TEST(word(layer.install_bounded(3)) == "WS");
  BOOST_TEST(word(layer.o1_begin({4, 2, 1, O1Rect::fm})) == "WS");
  BOOST_TEST(word(layer.set_mode(KvMode::q8)) == "WS");
  BOOST_TEST(!certify::difference(certify::observe(layer), before).has_value());
  BOOST_TEST(word(layer.set_wire_kind(WireKind::linear)) == "");
  BOOST_TEST(layer.linear_state().size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
