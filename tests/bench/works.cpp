#include "tests/bench/works.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>

#include "optimized/buffer.hpp"
#include "optimized/dispatch.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "tests/bench/yardsticks.hpp"

namespace kvcert::bench {
namespace {

using optimized::Isa;
using optimized::LayerKvCache;
using Floats = std::vector<float>;

template <class T>
T must(Result<T> result, const char* what) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "kvcert_bench: %s: %s\n", what, result.error().message.c_str());
  std::exit(1);
}

void must(const Result<void>& result, const char* what) {
  if (result) return;
  std::fprintf(stderr, "kvcert_bench: %s: %s\n", what, result.error().message.c_str());
  std::exit(1);
}

Floats numbers(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats values(n);
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

/// 8 KV heads throughout: what one layer of a model with grouped queries has.
struct Shape {
  std::size_t head_dim, fan_out, rows;
  std::size_t positions = 1;
  static constexpr std::size_t kv_heads = 8;
  Geometry geometry() const { return {kv_heads, head_dim}; }
  double stored() const { return static_cast<double>(rows * kv_heads * head_dim); }  // elements of K
  std::size_t group() const { return positions * fan_out * head_dim; }               // of a KV head's queries
};

LayerKvCache filled(const Shape& shape, KvMode mode, Isa isa) {
  LayerKvCache layer = must(LayerKvCache::create(shape.geometry(), mode, isa), "create");
  const std::size_t at_once = std::min<std::size_t>(shape.rows, 1024);
  for (std::size_t row = 0; row < shape.rows; row += at_once) {
    const std::size_t n = std::min(at_once, shape.rows - row), floats = n * shape.kv_heads * shape.head_dim;
    must(layer.append_chunk(numbers(floats, static_cast<std::uint32_t>(2 * row + 1)),
                            numbers(floats, static_cast<std::uint32_t>(2 * row + 2)), n),
         "append_chunk");
  }
  return layer;
}

/// Queries and answers of all KV heads, and one layer per ISA.
struct Step {
  Shape shape;
  std::vector<LayerKvCache> layers{};
  Floats q = numbers(Shape::kv_heads * shape.group(), 3);
  Floats out = Floats(q.size());
  Floats acc = Floats(shape.rows);

  Query query(std::size_t head) const {
    return {.q_group = std::span(q).subspan(head * shape.group(), shape.group()),
            .kv_head = head,
            .scale = LayerKvCache::default_scale(shape.head_dim)};
  }
  std::span<float> answer(std::size_t head) { return std::span(out).subspan(head * shape.group(), shape.group()); }
  void done() {
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  void decode(const LayerKvCache& layer) {
    for (std::size_t head = 0; head < Shape::kv_heads; ++head)
      must(layer.attend_group(query(head), answer(head), acc), "attend_group");
    done();
  }
  void prefill(const LayerKvCache& layer) {
    for (std::size_t head = 0; head < Shape::kv_heads; ++head)
      must(layer.attend_chunk(query(head), shape.positions, shape.rows - shape.positions, 0, answer(head), acc),
           "attend_chunk");
    done();
  }
  /// The same positions in a call each, head by head: one KV head's rows stay in the caches for all of its positions.
  void head_by_head(const LayerKvCache& layer) {
    for (std::size_t head = 0; head < Shape::kv_heads; ++head)
      for (std::size_t i = 0; i < shape.positions; ++i) position(layer, head, i);
    done();
  }
  /// The same calls in the order of a model that takes one token at a time: all rows come from memory for each token.
  void token_by_token(const LayerKvCache& layer) {
    for (std::size_t i = 0; i < shape.positions; ++i)
      for (std::size_t head = 0; head < Shape::kv_heads; ++head) position(layer, head, i);
    done();
  }
  void position(const LayerKvCache& layer, std::size_t head, std::size_t i) {
    const std::size_t group = shape.fan_out * shape.head_dim;
    Query one = query(head);
    one.q_group = one.q_group.subspan(i * group, group);
    must(layer.attend_group_upto(one, shape.rows - shape.positions + 1 + i, answer(head).subspan(i * group, group), acc),
         "attend_group_upto");
  }
  void by(void (*attention)(const Attention&)) {
    const LayerKvCache& layer = layers.back();
    for (std::size_t head = 0; head < Shape::kv_heads; ++head)
      attention({shape.head_dim, shape.fan_out, shape.rows, shape.positions,
                 LayerKvCache::default_scale(shape.head_dim), must(layer.head_keys(head), "head_keys").data(),
                 must(layer.head_values(head), "head_values").data(), query(head).q_group.data(), answer(head).data()});
    done();
  }
};

/// A yardstick has to do the same work, though not to the bit.
void check_same(const Floats& a, const Floats& b, const std::string& name) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::fabs(a[i] - b[i]) <= 1e-4F)) {
      std::fprintf(stderr, "kvcert_bench: yardstick %s computes %g for %g\n", name.c_str(), static_cast<double>(b[i]),
                   static_cast<double>(a[i]));
      std::exit(1);
    }
}

using Method = void (Step::*)(const LayerKvCache&);

Prepared attention_of(const Shape& shape, KvMode mode, Method method, bool with_yardsticks) {
  auto step = std::make_shared<Step>(Step{shape});
  const std::vector<Isa> isas = optimized::available_isas();
  step->layers.reserve(isas.size());
  Prepared prepared;
  for (const Isa isa : isas) {
    step->layers.push_back(filled(shape, mode, isa));
    prepared.calls.emplace_back(isa, [step, method, layer = &step->layers.back()] { ((*step).*method)(*layer); });
  }
  if (!with_yardsticks) return prepared;
  prepared.yardsticks = {{"plain loops", [step] { step->by(plain_loops); }}, {"Eigen", [step] { step->by(with_eigen); }}};
  prepared.calls.back().second();
  const Floats truth = step->out;
  for (const Yardstick& yardstick : prepared.yardsticks) {
    yardstick.call();
    check_same(truth, step->out, yardstick.name);
  }
  return prepared;
}

std::string text(const Shape& shape) {
  return "8x" + std::to_string(shape.head_dim) + " fan-out " + std::to_string(shape.fan_out) + " rows " +
         std::to_string(shape.rows);
}

Work decode(const Shape& shape, int rounds) {
  return {.name = "decode " + text(shape),
          .bytes = 2 * 4 * shape.stored(),
          .multiply_adds = 2 * shape.stored() * static_cast<double>(shape.fan_out),
          .units = 1,
          .rounds = rounds,
          .cold = true,
          .prepare = [shape] { return attention_of(shape, KvMode::f32, &Step::decode, true); }};
}

Work decode_int8(const Shape& shape) {
  const double scales = shape.stored() / 32 + shape.stored() / static_cast<double>(shape.head_dim);
  return {.name = "decode q8 " + text(shape),
          .bytes = 2 * shape.stored() + 4 * scales,
          .multiply_adds = 2 * shape.stored() * static_cast<double>(shape.fan_out),
          .units = 1,
          .rounds = 15,
          .cold = true,
          .prepare = [shape] { return attention_of(shape, KvMode::q8, &Step::decode, false); }};
}

Work prefill(const std::string& name, const Shape& shape, Method method, bool with_yardsticks) {
  const double pairs = static_cast<double>(shape.positions) *
                       (static_cast<double>(shape.rows) - static_cast<double>(shape.positions - 1) / 2);
  return {.name = name + " " + std::to_string(shape.positions) + " " + text(shape),
          .bytes = 2 * 4 * shape.stored(),
          .multiply_adds = 2 * pairs * static_cast<double>(Shape::kv_heads * shape.head_dim * shape.fan_out),
          .units = 1,
          .rounds = 7,
          .cold = true,
          .prepare = [shape, method, with_yardsticks] {
            return attention_of(shape, KvMode::f32, method, with_yardsticks);
          }};
}

constexpr std::size_t window = 128, ring_sinks = 4;

Prepared prepare_bounded(const Shape& shape) {
  struct Ring {
    std::vector<LayerKvCache> layers;
    optimized::Rope rope;
    Floats q, k, v, sink_keys, sink_values, out;
  };
  const std::size_t row = Shape::kv_heads * shape.head_dim;
  Floats frequencies(shape.head_dim / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = std::pow(10000.0F, -static_cast<float>(i) / static_cast<float>(frequencies.size()));
  auto ring = std::make_shared<Ring>(Ring{{}, must(optimized::Rope::create(window, frequencies, 1), "rope"),
                                          numbers(row * shape.fan_out, 1), numbers(row, 2), numbers(row, 3),
                                          numbers(row * ring_sinks, 4), numbers(row * ring_sinks, 5),
                                          Floats(row * shape.fan_out)});
  const std::vector<Isa> isas = optimized::available_isas();
  ring->layers.reserve(isas.size());
  Prepared prepared;
  for (const Isa isa : isas) {
    ring->layers.push_back(must(LayerKvCache::create(shape.geometry(), isa), "create"));
    LayerKvCache* layer = &ring->layers.back();
    must(layer->install_bounded(window), "install_bounded");
    const auto call = [ring, layer, shape] {
      must(layer->bounded_step(ring->q, ring->k, ring->v, {ring->sink_keys, ring->sink_values}, ring->rope,
                               LayerKvCache::default_scale(shape.head_dim), Shape::kv_heads * shape.fan_out, ring->out),
           "bounded_step");
    };
    for (std::size_t i = 0; i < 2 * window; ++i) call();
    prepared.calls.emplace_back(isa, call);
  }
  return prepared;
}

Work bounded(const Shape& shape) {
  const auto heads = static_cast<double>(Shape::kv_heads * shape.fan_out), dims = static_cast<double>(shape.head_dim);
  // a turned pair of dimensions is four multiplications and two additions: three operations, counted as 1.5 fmas, a
  // dimension
  const double rotation = heads * dims * 1.5 * static_cast<double>(window);
  return {.name = "bounded step " + text(shape) + " sinks " + std::to_string(ring_sinks),
          .bytes = 0,
          .multiply_adds = 2 * heads * dims * static_cast<double>(window + ring_sinks) + rotation,
          .units = 1,
          .rounds = 101,
          .cold = false,
          .prepare = [shape] { return prepare_bounded(shape); }};
}

/// 16 MiB of payload as f32. The yardstick copies as many bytes as the record has, with the same allocation and first
/// touch: a vector for a record, keys and values apart for a layer.
Work wire(WireFormat format, bool import) {
  const Shape shape{128, 4, 2048};
  const double bytes = 2 * shape.stored() * (format == WireFormat::f32 ? 4 : 2);
  return {.name = std::string(import ? "import " : "export ") + (format == WireFormat::f32 ? "f32" : "f16") + " 8x128 rows " +
                  std::to_string(shape.rows),
          .bytes = import ? bytes : 2 * 4 * shape.stored(),
          .multiply_adds = 0,
          .units = 1,
          .rounds = 21,
          .cold = true,
          .prepare = [shape, format, import] {
            const Isa isa = optimized::available_isas().back();
            auto layer = std::make_shared<LayerKvCache>(filled(shape, KvMode::f32, isa));
            auto record = std::make_shared<std::vector<std::uint8_t>>(must(layer->export_wire(format), "export_wire"));
            const auto to_record = [layer, format] { benchmark::DoNotOptimize(layer->export_wire(format)->data()); };
            const auto from_record = [record, shape, isa] {
              LayerKvCache target = must(LayerKvCache::create(shape.geometry(), isa), "create");
              must(target.import_wire(*record), "import_wire");
              benchmark::DoNotOptimize(&target);
            };
            const auto copy_record = [record] {
              std::vector<std::uint8_t> copy;
              copy.reserve(record->size());
              copy.insert(copy.end(), record->begin(), record->end());
              benchmark::DoNotOptimize(copy.data());
            };
            const auto copy_rows = [record] {
              const std::size_t half = record->size() / 2;
              optimized::Buffer<std::uint8_t> keys(half), values(half);
              std::memcpy(keys.data(), record->data(), half);
              std::memcpy(values.data(), record->data() + half, half);
              benchmark::DoNotOptimize(keys.data());
              benchmark::DoNotOptimize(values.data());
            };
            Prepared prepared;
            prepared.calls = {{isa, import ? std::function<void()>(from_record) : std::function<void()>(to_record)}};
            prepared.yardsticks = {{"memcpy", import ? std::function<void()>(copy_rows) : std::function<void()>(copy_record)}};
            return prepared;
          }};
}

/// Appends into room that is there, and what takes them back.
Work append() {
  constexpr std::size_t times = 256;
  const Shape shape{128, 4, 4096};
  return {.name = "append 8x128, warm",
          .bytes = 0,
          .multiply_adds = 0,
          .units = times,
          .rounds = 51,
          .cold = false,
          .prepare = [shape] {
            const Isa isa = optimized::available_isas().back();
            auto layer = std::make_shared<LayerKvCache>(filled(shape, KvMode::f32, isa));
            auto row = std::make_shared<Floats>(numbers(Shape::kv_heads * shape.head_dim, 9));
            Prepared prepared;
            prepared.calls = {{isa, [layer, row] {
                                 for (std::size_t i = 0; i < times; ++i) must(layer->append(*row, *row), "append");
                                 must(layer->truncate_last(times), "truncate_last");
                               }}};
            return prepared;
          }};
}

}  // namespace

std::vector<Work> works() {
  const Shape usual{128, 4, 4096}, chunk{128, 4, 4096, 64};
  return {decode(usual, 31),
          decode({128, 4, 32768}, 9),
          decode({64, 8, 8192}, 21),
          decode_int8(usual),
          prefill("prefill", chunk, &Step::prefill, true),
          prefill("head by head", chunk, &Step::head_by_head, false),
          prefill("token by token", chunk, &Step::token_by_token, false),
          bounded({128, 4, window}),
          wire(WireFormat::f32, false),
          wire(WireFormat::f32, true),
          wire(WireFormat::f16, false),
          wire(WireFormat::f16, true),
          append()};
}

}  // namespace kvcert::bench
