// Laws 5–10: what a layer's state owes.
#pragma once

#include <algorithm>
#include <limits>

#include "certify/laws/law.hpp"
#include "certify/random.hpp"

namespace kvcert::certify::laws {

/// Gives an empty layer a recurrent vector, which in a full layer only a record can bring.
template <class Cache>
void bring_recurrent_vector(Cache& layer, Random& random) {
  auto record = must(layer.export_wire(WireFormat::f32), "export_wire");
  const std::size_t floats = random.between(1, 5);
  record[wire::header_bytes + 16] = static_cast<std::uint8_t>(floats);  // linear_len
  const auto body = record.begin() + wire::header_bytes + 24;
  std::vector<std::uint8_t> vector(4 * floats);
  for (auto& byte : vector) byte = static_cast<std::uint8_t>(random.bits());
  record.insert(body, vector.begin(), vector.end());
  must(layer.import_wire(record), "import_wire of an empty layer with a recurrent vector");
}

/// A layer with importance, sinks and configuration that are not the defaults, and in half of the cases a recurrent
/// vector, so that losing any of them shows.
template <class Engine>
typename Engine::Cache lived_in_layer(const Engine& engine, const TestCase& test) {
  Random random(test.salt + 1);
  auto layer = empty_layer(engine, test);
  if (random.chance(1, 2)) bring_recurrent_vector(layer, random);
  must(layer.append_chunk(test.k, test.v, test.positions, test.alive), "append_chunk");
  std::vector<float> mass(test.positions);
  for (float& x : mass) x = random.chance(1, 30) ? random.any_bits() : random.normal();
  must(layer.accumulate_imp(mass), "accumulate_imp");
  std::vector<float> sinks(test.geometry.num_kv_heads * random.between(1, 3));
  for (float& x : sinks) x = random.any_bits();
  must(layer.set_sinks(sinks), "set_sinks");
  layer.set_wire_layer(static_cast<std::uint32_t>(random.bits()));
  layer.set_wire_identity(random.bits());
  layer.set_linear_wire_allowed(random.chance(1, 2));
  return layer;
}

/// Law 5, rollback: append n, truncate_last(n) = nothing happened. Also in two steps, and for more than there is.
template <class Engine>
Outcome rollback(const Engine& engine, const TestCase& test) {
  if (test.positions == 0) return not_exercised();
  const auto before = lived_in_layer(engine, test);
  const std::size_t n = 1 + test.salt % 70;
  auto layer = before;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t position = (test.salt + i) % test.positions;
    must(layer.append(test.v_at(position), test.k_at(position), test.alive), "append");
  }
  must(layer.truncate_last(n / 2), "truncate_last");
  must(layer.truncate_last(n - n / 2), "truncate_last");
  if (auto found = layer_difference(layer, before, test)) {
    return violated(fmt::format("after {} appends and truncate_last({}), truncate_last({}): {}", n, n / 2, n - n / 2,
                                *found));
  }
  must(layer.truncate_last(0), "truncate_last");
  if (auto found = layer_difference(layer, before, test)) return violated("after truncate_last(0): " + *found);
  // Part of the history: as if it had never been appended.
  const std::size_t keep = test.salt % test.positions;
  must(layer.truncate_last(test.positions - keep), "truncate_last");
  auto shorter = empty_layer(engine, test);
  append_positions(shorter, test, 0, keep);
  for (std::size_t head = 0; head < test.geometry.num_kv_heads; ++head) {
    if (first_difference(*layer.head_keys(head), *shorter.head_keys(head)) ||
        first_difference(*layer.head_values(head), *shorter.head_values(head)) ||
        *layer.head_len(head) != *shorter.head_len(head)) {
      return violated(fmt::format("truncated to {} positions, head {} holds other rows than were appended", keep, head));
    }
  }
  if (auto found = difference(ask(layer, test), ask(shorter, test))) return violated("truncated layer's " + *found);
  must(layer.truncate_last(std::numeric_limits<std::size_t>::max()), "truncate_last");
  if (layer.seq_len() != 0 || layer.alive()) return violated("truncate_last of everything leaves positions or liveness");
  // Liveness is undecided again: the opposite flags are welcome.
  std::vector<std::uint8_t> other = test.alive;
  for (auto& flag : other) flag = flag == 0;
  must(layer.append(test.k_at(0), test.v_at(0), other), "append with other live heads after T = 0");
  return holds();
}

/// Law 6, snapshot: restore(snapshot), then any operations = those operations right after the snapshot; no aliasing.
template <class Engine>
Outcome snapshot(const Engine& engine, const TestCase& test) {
  const auto original = lived_in_layer(engine, test);
  auto layer = original;
  const auto saved = must(layer.snapshot(), "snapshot");
  // A different life: other rows, another length, other mass.
  for (std::size_t i = 0; i < 1 + test.salt % 5 && test.positions > 0; ++i) {
    must(layer.append(test.v_at(i % test.positions), test.k_at(i % test.positions), test.alive), "append");
  }
  must(layer.truncate_last(test.salt % 9), "truncate_last");
  must(layer.accumulate_imp(std::vector<float>(layer.seq_len(), 0.5F)), "accumulate_imp");
  if (test.salt % 3 == 0) layer.clear();
  must(layer.restore(saved), "restore");
  if (auto found = layer_difference(layer, original, test)) return violated("after restore: " + *found);
  // What a restored layer does next must not reach the snapshot, and must be what the original does next.
  auto twin = original;
  for (auto* one : {&layer, &twin}) {
    if (test.positions > 0) must(one->append(test.k_at(0), test.v_at(0), test.alive), "append");
    must(one->accumulate_imp(std::vector<float>(one->seq_len(), 1.0F)), "accumulate_imp");
  }
  if (auto found = layer_difference(layer, twin, test)) return violated("operations after restore: " + *found);
  must(layer.restore(saved), "restore again");
  if (auto found = layer_difference(layer, original, test)) return violated("the snapshot changed: " + *found);
  auto other = empty_layer(engine, test);
  must(other.restore(saved), "restore into another layer");
  if (auto found = difference(ask(other, test), ask(original, test))) return violated("restored elsewhere: " + *found);

  for (Geometry wrong : {Geometry{test.geometry.num_kv_heads + 1, test.geometry.head_dim},
                         Geometry{test.geometry.num_kv_heads, test.geometry.head_dim + 1}}) {
    auto misfit = must(engine.make(wrong), "create");
    const auto before = observe(misfit);
    const auto answer = misfit.restore(saved);
    if (answer || answer.error().code != ErrorCode::shape_mismatch) {
      return violated("a snapshot of another geometry is not refused as shape_mismatch");
    }
    if (auto found = difference(observe(misfit), before)) return violated("a refused restore changed " + *found);
  }
  return holds();
}

/// A layer configured as `layer` is, without a sequence.
template <class Engine>
typename Engine::Cache configured_like(const Engine& engine, const TestCase& test, const typename Engine::Cache& layer) {
  auto fresh = empty_layer(engine, test);
  if (!layer.sinks().empty()) must(fresh.set_sinks(layer.sinks()), "set_sinks");
  fresh.set_wire_layer(layer.wire_layer());
  fresh.set_wire_identity(layer.wire_identity());
  fresh.set_linear_wire_allowed(layer.linear_wire_allowed());
  return fresh;
}

/// Law 7, round trip: import(export) into a fresh layer of the same configuration = the layer, now and after further
/// operations. f16 rounds each element once: the second trip is the first.
template <class Engine>
Outcome round_trip(const Engine& engine, const TestCase& test) {
  auto layer = lived_in_layer(engine, test);
  auto copy = configured_like(engine, test, layer);
  must(copy.import_wire(must(layer.export_wire(WireFormat::f32), "export_wire")), "import_wire");
  if (auto found = layer_difference(copy, layer, test)) return violated("f32 round trip: " + *found);
  for (auto* one : {&layer, &copy}) {
    if (test.positions > 0) must(one->append(test.v_at(0), test.k_at(0), test.alive), "append");
    must(one->truncate_last(test.salt % 3), "truncate_last");
  }
  if (auto found = layer_difference(copy, layer, test)) return violated("operations after an f32 round trip: " + *found);

  const auto narrow = layer.export_wire(WireFormat::f16);
  if (!narrow) {
    if (narrow.error().code == ErrorCode::f16_overflow) return holds();  // its place is checked against the reference
    return violated(fmt::format("f16 export was refused with {}", name(narrow.error().code)));
  }
  auto once = configured_like(engine, test, layer);
  must(once.import_wire(*narrow), "import_wire of f16");
  if (first_difference(once.importance(), layer.importance())) return violated("importance was narrowed under f16");
  auto twice = configured_like(engine, test, layer);
  must(twice.import_wire(must(once.export_wire(WireFormat::f16), "export_wire")), "import_wire of f16");
  return unless(layer_difference(twice, once, test), "second f16 trip against the first");
}

/// Law 8, canonical: accepted bytes re-export to the same bytes. Valid records, shortened and lengthened ones, and records
/// changed in a few bytes, some of which are still accepted. The layer that takes them holds something already.
template <class Engine>
Outcome canonical_record(const Engine& engine, const TestCase& test) {
  const auto layer = lived_in_layer(engine, test);
  Random random(test.salt + 2);
  for (WireFormat format : {WireFormat::f32, WireFormat::f16}) {
    const auto exported = layer.export_wire(format);
    if (!exported) continue;
    for (int trial = 0; trial < 14; ++trial) {
      auto bytes = *exported;
      // 0: the record itself. 1–5: payload bytes changed, mostly accepted. 6–9: any bytes. Then other lengths.
      const std::size_t from = trial < 6 ? std::min<std::size_t>(wire::header_bytes + 24, bytes.size() - 1) : 0;
      for (int i = 0; i < trial && trial < 10; ++i) bytes[from + random.below(bytes.size() - from)] ^= std::uint8_t(random.bits());
      if (trial == 10 || trial == 11) bytes.resize(bytes.size() + random.between(1, 8), std::uint8_t(random.bits()));
      if (trial > 11) bytes.erase(bytes.end() - static_cast<std::ptrdiff_t>(random.between(1, bytes.size())), bytes.end());
      auto target = layer;
      if (!target.import_wire(bytes)) {
        if (trial == 0) return violated("a layer refuses its own record");
        if (auto found = layer_difference(target, layer, test)) return violated("a refused import changed it: " + *found);
        continue;
      }
      const bool versioned = bytes.size() >= 4 && std::equal(wire::magic.begin(), wire::magic.end(), bytes.begin());
      if (!versioned) continue;  // the header was hit and a body of the older kind happened to fit: covered by the corpus
      const auto again = target.export_wire(bytes[wire::offset_f16] == 0 ? WireFormat::f32 : WireFormat::f16);
      if (!again || *again != bytes) return violated(fmt::format("trial {}: accepted bytes are not written again", trial));
    }
  }
  return holds();
}

/// Law 10, clear = new, with configuration kept.
template <class Engine>
Outcome clear(const Engine& engine, const TestCase& test) {
  auto layer = lived_in_layer(engine, test);
  const auto fresh = configured_like(engine, test, layer);
  layer.clear();
  if (auto found = layer_difference(layer, fresh, test)) return violated("cleared against new: " + *found);
  std::vector<std::uint8_t> other = test.alive;
  for (auto& flag : other) flag = flag == 0;
  if (test.positions == 0) return holds();
  auto twin = fresh;
  must(layer.append(test.k_at(0), test.v_at(0), other), "append with other live heads after clear");
  must(twin.append(test.k_at(0), test.v_at(0), other), "append");
  return unless(layer_difference(layer, twin, test), "cleared and appended to against new and appended to");
}

}  // namespace kvcert::certify::laws
