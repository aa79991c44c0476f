// The bytes build a state in both implementations; its records must be the same, must be accepted by a fresh layer, and must
// bring back that state, now and after further operations (laws 7 and 8).
#include "certify/observe.hpp"
#include "certify/player.hpp"
#include "fuzz/byte_source.hpp"
#include "fuzz/fail.hpp"
#include "fuzz/furnished.hpp"
#include "fuzz/record_bytes.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "reference/layer_kv_cache.hpp"

namespace {

using namespace kvcert;
using namespace kvcert::fuzz;

/// What an input says, once, so that both implementations are built from the same.
struct Plan {
  Geometry geometry{1, 1};
  WireKind kind = WireKind::full;
  KvMode mode = KvMode::f32;
  std::size_t window = 1, rows = 0;
  std::uint64_t identity = 0, counter = 0;
  std::uint32_t layer = 0;
  bool has_scratch = false;
  std::vector<std::uint8_t> alive;
  std::vector<float> k, v, importance, vector;
};

Plan plan_of(ByteSource& in) {
  Plan plan;
  plan.geometry = {1 + in.below(most_heads), 1 + in.below(most_dims)};
  plan.kind = static_cast<WireKind>(in.below(3));
  plan.mode = static_cast<KvMode>(in.below(16) < 13 ? 0 : 1 + in.below(3));
  plan.window = 1 + in.below(5);
  plan.rows = in.below(6);
  plan.identity = in.integer(8);
  plan.layer = static_cast<std::uint32_t>(in.integer(4));
  const std::size_t dead = in.below(16);
  for (std::size_t head = 0; head < plan.geometry.num_kv_heads; ++head) plan.alive.push_back((dead >> head & 1U) == 0 ? 1 : 0);
  plan.has_scratch = in.flag();
  plan.counter = in.flag() ? in.integer(8) & max_count : in.below(4);
  plan.vector = in.numbers(in.below(4));
  plan.importance = in.numbers(plan.rows);
  const std::size_t floats = plan.rows * plan.geometry.num_kv_heads * plan.geometry.head_dim;
  plan.k = in.numbers(floats);
  plan.v = in.numbers(floats);
  return plan;
}

/// A record of no rows that brings the vector: the only way to give one to a full layer.
Bytes vector_record(const Plan& plan) {
  Bytes out;
  put_header(out, {plan.identity, plan.layer, true}, WireKind::full, 0, 0);
  for (std::uint64_t field : {std::size_t{0}, std::size_t{0}, plan.geometry.num_kv_heads, plan.geometry.head_dim, plan.vector.size(),
                              std::size_t{0}}) {
    put_le(out, field, 4);
  }
  for (float x : plan.vector) put_le(out, std::bit_cast<std::uint32_t>(x), 4);
  for (std::size_t head = 0; head < 2 * plan.geometry.num_kv_heads; ++head) put_le(out, 0, 4);
  return out;
}

template <LayerCache Cache>
Cache configured(const Plan& plan) {
  Cache layer = created<Cache>(plan.geometry, plan.kind == WireKind::full ? plan.mode : KvMode::f32, plan.layer);
  layer.set_wire_identity(plan.identity);
  layer.set_wire_layer(plan.layer);
  if (plan.kind == WireKind::linear) furnishing::must(layer.set_wire_kind(WireKind::linear));
  if (plan.kind == WireKind::bounded) furnishing::must(layer.install_bounded(plan.window));
  return layer;
}

template <LayerCache Cache>
void append_rows(Cache& layer, const Plan& plan) {
  if (plan.mode == KvMode::f32 && !plan.vector.empty()) furnishing::must(layer.import_wire(vector_record(plan)));
  const std::size_t row = plan.geometry.num_kv_heads * plan.geometry.head_dim;
  for (std::size_t i = 0; i < plan.rows; ++i) {
    // int8 storage refuses what is not finite; then the layer has one row less.
    static_cast<void>(layer.append(std::span(plan.k).subspan(i * row, row), std::span(plan.v).subspan(i * row, row), plan.alive));
  }
  static_cast<void>(layer.accumulate_imp(std::span(plan.importance).first(std::min<std::size_t>(layer.seq_len(), plan.rows))));
}

template <LayerCache Cache>
void step_ring(Cache& layer, const Plan& plan) {
  const auto [heads, dim] = plan.geometry;
  if (dim < 2) return;
  const std::array<float, 1> frequency{0.25F};
  const auto rope = furnishing::must(Cache::Rope::create(plan.window, frequency, 1.0F));
  std::vector<float> out(heads * dim);
  for (std::size_t i = 0; i < plan.rows; ++i) {
    const auto k = std::span(plan.k).subspan(i * heads * dim, heads * dim);
    furnishing::must(layer.bounded_step(k, k, std::span(plan.v).subspan(i * heads * dim, heads * dim), {}, rope, 1.0F, heads, out));
  }
}

template <LayerCache Cache>
Cache built(const Plan& plan) {
  Cache layer = configured<Cache>(plan);
  switch (plan.kind) {
    case WireKind::full: append_rows(layer, plan); break;
    case WireKind::linear:
      furnishing::must(layer.linear_commit(plan.vector, plan.counter));
      if (plan.has_scratch) furnishing::must(layer.linear_set_scratch(plan.importance));
      break;
    case WireKind::bounded: step_ring(layer, plan); break;
  }
  return layer;
}

std::string show(const Result<Bytes>& record) {
  if (record) return fmt::format("{} bytes", record->size());
  const Error& e = record.error();
  return fmt::format("{} (tensor {}, head {}, element {}, found {:#x})", name(e.code), static_cast<int>(e.tensor), e.head, e.element, e.found);
}

/// What an import is to bring back: all but the scratch and the rollback rows.
template <LayerCache Cache>
certify::Observed to_come_back(const Cache& layer) {
  certify::Observed seen = certify::observe(layer);
  seen.scratch.reset();
  seen.undo_rows = 0;
  return seen;
}

/// The same calls on both; none that could tell rollback rows or a scratch.
template <LayerCache Cache>
std::vector<certify::Reply> further(const Cache& layer, const Plan& plan) {
  using certify::Op;
  const certify::Setting setting{.geometry = plan.geometry};
  certify::Player player(layer, setting);
  std::vector<certify::Reply> replies;
  std::uint64_t seed = 3;
  for (Op op : {Op::append, Op::attend_group, Op::bounded_step, Op::linear_commit, Op::append, Op::attend_chunk}) {
    replies.push_back(player.play(certify::materialize({op, seed += 31}, setting, player.situation())));
  }
  return replies;
}

template <LayerCache Cache>
void check_return(const char* who, const Cache& layer, const Bytes& record, WireFormat format, const Plan& plan) {
  Cache fresh = configured<Cache>(plan);
  if (auto result = fresh.import_wire(record); !result) fail(fmt::format("{}: refuses its own record: {}", who, result.error().message));
  if (auto broken = certify::incoherence(fresh)) fail(fmt::format("{}: after the trip: {}", who, *broken));
  const auto again = fresh.export_wire(format);
  if (!again || *again != record) fail(fmt::format("{}: the second trip differs from the first: {}", who, show(again)));
  if (format != WireFormat::f32) return;
  if (auto differs = certify::difference(certify::observe(fresh), to_come_back(layer))) {
    fail(fmt::format("{}: the trip did not bring back the {}", who, *differs));
  }
  Cache left = layer;
  if (plan.has_scratch) static_cast<void>(left.discard_linear_scratch());
  if (further(fresh, plan) != further(left, plan)) fail(fmt::format("{}: after the trip the layer lives on differently", who));
}

void check_sizes(ByteSource& in) {
  const Geometry geometry{in.integer(in.flag() ? 8 : 2), in.integer(in.flag() ? 8 : 2)};
  const std::uint64_t rows = in.integer(in.flag() ? 8 : 2), live = in.integer(in.flag() ? 8 : 1), vector = in.integer(in.flag() ? 8 : 1);
  const WireFormat format = in.flag() ? WireFormat::f16 : WireFormat::f32;
  const auto a = reference::LayerKvCache::wire_bytes(geometry, rows, live, vector, format);
  const auto b = optimized::LayerKvCache::wire_bytes(geometry, rows, live, vector, format);
  if (a.has_value() != b.has_value() || (a && *a != *b) || (!a && !same_verdict(a.error(), b.error()))) {
    fail(fmt::format("wire_bytes of {} × {}, {} rows, {} live heads, a vector of {}: {} and {}", geometry.num_kv_heads, geometry.head_dim,
                     rows, live, vector, a ? std::to_string(*a) : a.error().message, b ? std::to_string(*b) : b.error().message));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteSource in({data, size});
  if (in.below(4) == 3) {
    check_sizes(in);
    return 0;
  }
  const Plan plan = plan_of(in);
  const auto reference = built<reference::LayerKvCache>(plan);
  const auto optimized = built<optimized::LayerKvCache>(plan);
  for (WireFormat format : {WireFormat::f32, WireFormat::f16}) {
    const auto a = reference.export_wire(format);
    const auto b = optimized.export_wire(format);
    const bool alike = a.has_value() == b.has_value() && (a ? *a == *b : same_verdict(a.error(), b.error()) || a.error().code == ErrorCode::not_describable);
    if (!alike) fail(fmt::format("{}: the reference writes {}, the optimized cache {}", format == WireFormat::f16 ? "f16" : "f32", show(a), show(b)));
    if (!a) continue;
    check_return("reference", reference, *a, format, plan);
    check_return("optimized", optimized, *b, format, plan);
  }
  return 0;
}
