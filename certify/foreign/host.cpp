#include "certify/foreign/host.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "certify/environment.hpp"
#include "certify/foreign/answer.hpp"
#include "certify/foreign/model.hpp"
#include "certify/json_text.hpp"
#include "kvcert/engine.h"

namespace kvcert::certify {
namespace {

using nlohmann::json;

Precision precision_of(kvcert_precision p) {
  switch (p) {
    case KVCERT_F16: return Precision::f16;
    case KVCERT_BF16: return Precision::bf16;
    case KVCERT_INT8: return Precision::int8;
    case KVCERT_F32: break;
  }
  return Precision::f32;
}

Declared declaration(const kvcert_engine& e) {
  Declared d;
  d.name = e.name != nullptr ? e.name : "unnamed";
  d.version = e.version != nullptr ? e.version : "";
  d.canonical = (e.claims & KVCERT_CLAIMS_CANONICAL) != 0;
  d.deterministic = (e.claims & KVCERT_CLAIMS_DETERMINISTIC) != 0;
  d.batch_invariant = (e.claims & KVCERT_CLAIMS_BATCH_INVARIANT) != 0;
  d.same_variants = (e.claims & KVCERT_CLAIMS_SAME_VARIANTS) != 0;
  d.key_storage = precision_of(e.key_storage);
  d.value_storage = precision_of(e.value_storage);
  d.accumulation = precision_of(e.accumulation);
  d.probability = precision_of(e.probability);
  d.query = precision_of(e.query);
  d.record = precision_of(e.record);
  d.key_group = e.key_group;
  d.value_group = e.value_group;
  if (e.exp_ulps > 0) d.exp_ulps = double{e.exp_ulps};
  if (e.tanh_ulps > 0) d.tanh_ulps = double{e.tanh_ulps};
  if (e.variants != nullptr) {
    d.variants.clear();
    for (const char* const* name = e.variants; *name != nullptr; ++name) d.variants.emplace_back(*name);
  }
  return d;
}

constexpr float canary() { return std::bit_cast<float>(std::uint32_t{0x7FA5A5A5U}); }
constexpr std::size_t guard = 16;  // floats behind an output that must stay as they are

StepAnswer answer_of(kvcert_status status, const char* call) {
  StepAnswer answer;
  switch (status) {
    case KVCERT_OK: break;
    case KVCERT_UNSUPPORTED: answer.status = Status::unsupported; break;
    case KVCERT_REFUSED: answer.status = Status::refused; break;
    default:
      answer.status = Status::failed;
      answer.text = status == KVCERT_FAILED ? fmt::format("{} answered KVCERT_FAILED", call)
                                            : fmt::format("{} answered {}, which is no kvcert_status", call, static_cast<int>(status));
  }
  return answer;
}

/// Plays one case on the engine. Layers, snapshots and records live as long as the case.
class Play {
 public:
  Play(const kvcert_engine& engine, std::uint32_t variant) : e_(engine), variant_(variant) {}
  ~Play() {
    for (auto& [slot, saved] : snapshots_) {
      if (e_.free_snapshot != nullptr) e_.free_snapshot(saved);
    }
    for (auto& [on, layer] : layers_) {
      if (layer != nullptr && e_.destroy != nullptr) e_.destroy(layer);
    }
  }
  Play(const Play&) = delete;
  Play& operator=(const Play&) = delete;

  StepAnswer step(const EngineStep& s) {
    StepAnswer answer = call(s);
    if (answer.status == Status::ok && !model_.must_refuse(s)) model_.apply(s);
    return answer;
  }
  std::map<std::string, CallTime> take_times() { return std::exchange(times_, {}); }

 private:
  static StepAnswer unsupported() { return {.status = Status::unsupported, .numbers = {}, .count = {}, .text = {}}; }

  StepAnswer call(const EngineStep& s) {
    if (s.op == EngineOp::create) return create(s);
    kvcert_layer* layer = layers_.contains(s.on) ? layers_.at(s.on) : nullptr;
    if (layer == nullptr) return unsupported();
    switch (s.op) {
      case EngineOp::append: return e_.append ? append(layer, s) : unsupported();
      case EngineOp::attend: return attend(layer, s, s.from);
      case EngineOp::forward: return forward(layer, s);
      case EngineOp::truncate: return e_.truncate ? answer_of(e_.truncate(layer, s.n), "truncate") : unsupported();
      case EngineOp::clear: return e_.clear ? answer_of(e_.clear(layer), "clear") : unsupported();
      case EngineOp::discard: return e_.discard ? answer_of(e_.discard(layer), "discard") : unsupported();
      case EngineOp::accept: return e_.accept ? answer_of(e_.accept(layer), "accept") : unsupported();
      case EngineOp::accumulate: return e_.accumulate ? answer_of(e_.accumulate(layer, s.numbers.data(), s.numbers.size()), "accumulate") : unsupported();
      case EngineOp::commit: return e_.commit ? answer_of(e_.commit(layer, s.numbers.data(), s.numbers.size(), s.n), "commit") : unsupported();
      case EngineOp::draft: return e_.draft ? answer_of(e_.draft(layer, s.numbers.data(), s.numbers.size()), "draft") : unsupported();
      case EngineOp::snapshot: return snapshot(layer, s);
      case EngineOp::restore: return restore(layer, s);
      case EngineOp::export_state: return export_state(layer, s);
      case EngineOp::import_state: return import_state(layer, s);
      default: return observe(layer, s);
    }
  }

  StepAnswer create(const EngineStep& s) {
    if (e_.create == nullptr) return unsupported();
    const EngineLayer& l = s.layer;
    sinks_[s.on] = l.sinks;  // an engine may keep the pointer
    const kvcert_config config{sizeof(kvcert_config), l.kv_heads, l.head_dim, l.query_heads, l.window, l.scale, l.softcap,
                               l.sinks.empty() ? nullptr : sinks_[s.on].data(), l.layer, l.identity, variant_};
    kvcert_layer* layer = nullptr;
    StepAnswer answer = answer_of(e_.create(&config, &layer), "create");
    if (answer.status == Status::ok && layer == nullptr) return {.status = Status::failed, .numbers = {}, .count = {}, .text = "create answered KVCERT_OK and no layer"};
    if (layers_.contains(s.on) && layers_[s.on] != nullptr && e_.destroy != nullptr) e_.destroy(layers_[s.on]);
    layers_[s.on] = answer.status == Status::ok ? layer : nullptr;
    return answer;
  }

  template <class Call>
  StepAnswer into_output(std::size_t size, const char* name, const Call& call_engine) {
    std::vector<float> out(size + guard, canary());
    StepAnswer answer = answer_of(call_engine(out.data()), name);
    for (std::size_t i = size; i < out.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(out[i]) != 0x7FA5A5A5U) {
        return {.status = Status::failed, .numbers = {}, .count = {}, .text = fmt::format("{} wrote past the end of the {} numbers of its output", name, size)};
      }
    }
    out.resize(size);
    if (answer.status == Status::ok) answer.numbers = std::move(out);
    return answer;
  }

  /// The library's part of a step, and how long it took.
  template <class Call>
  kvcert_status timed(const char* name, std::size_t count, std::size_t visible, const Call& call_engine) {
    const auto begin = std::chrono::steady_clock::now();
    const kvcert_status status = call_engine();
    const auto taken = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
    if (status == KVCERT_OK && count > 0) times_[name].add({1, count, visible, static_cast<std::uint64_t>(taken)});
    return status;
  }

  /// Query heads of all positions of a step; 0 where the engine made a layer that it had to refuse.
  std::size_t queries(const EngineStep& s) const { return model_.has_layer(s) ? s.n * model_.layer(s).config.query_heads : 0; }

  /// How many rows the queries of positions from ... from + n - 1 see, over all query heads.
  std::size_t visible(const EngineStep& s, std::size_t from) const {
    if (!model_.has_layer(s)) return 0;
    const LayerModel& layer = model_.layer(s);
    std::size_t rows = 0;
    for (std::size_t position = from; position < from + s.n; ++position) rows += position + 1 - layer.first_visible(position);
    return rows * layer.config.query_heads;
  }

  StepAnswer append(kvcert_layer* layer, const EngineStep& s) {
    const std::size_t rows = model_.has_layer(s) ? s.n * model_.layer(s).config.kv_heads : 0;
    return answer_of(timed("append", rows, 0, [&] { return e_.append(layer, s.k.data(), s.v.data(), s.n); }), "append");
  }

  StepAnswer attend(kvcert_layer* layer, const EngineStep& s, std::size_t from) {
    if (e_.attend == nullptr) return unsupported();
    return into_output(s.q.size(), "attend", [&](float* out) {
      return timed("attend", queries(s), visible(s, from), [&] { return e_.attend(layer, s.q.data(), from, s.n, out); });
    });
  }

  StepAnswer forward(kvcert_layer* layer, const EngineStep& s) {
    if (e_.forward != nullptr) {
      return into_output(s.q.size(), "forward", [&](float* out) {
        return timed("forward", queries(s), visible(s, model_.has_layer(s) ? model_.layer(s).positions() : 0),
                     [&] { return e_.forward(layer, s.k.data(), s.v.data(), s.q.data(), s.n, out); });
      });
    }
    if (e_.append == nullptr || e_.attend == nullptr) return unsupported();
    const std::size_t from = model_.layer(s).positions();
    StepAnswer answer = answer_of(e_.append(layer, s.k.data(), s.v.data(), s.n), "append");
    return answer.status == Status::ok ? attend(layer, s, from) : answer;
  }

  StepAnswer snapshot(kvcert_layer* layer, const EngineStep& s) {
    if (e_.snapshot == nullptr) return unsupported();
    void* saved = nullptr;
    StepAnswer answer = answer_of(e_.snapshot(layer, &saved), "snapshot");
    if (answer.status != Status::ok) return answer;
    if (snapshots_.contains(s.slot) && e_.free_snapshot != nullptr) e_.free_snapshot(snapshots_[s.slot]);
    snapshots_[s.slot] = saved;
    return answer;
  }

  StepAnswer restore(kvcert_layer* layer, const EngineStep& s) {
    if (e_.restore == nullptr || !snapshots_.contains(s.slot)) return unsupported();
    return answer_of(e_.restore(layer, snapshots_[s.slot]), "restore");
  }

  StepAnswer export_state(kvcert_layer* layer, const EngineStep& s) {
    if (e_.export_state == nullptr) return unsupported();
    std::size_t size = 0;
    StepAnswer answer = answer_of(e_.export_state(layer, nullptr, 0, &size), "export_state");
    if (answer.status != Status::ok) return answer;
    if (size > std::size_t{1} << 30U) return {.status = Status::failed, .numbers = {}, .count = {}, .text = fmt::format("export_state asks for {} bytes", size)};
    std::vector<std::uint8_t> bytes(size);
    std::size_t written = 0;
    answer = answer_of(e_.export_state(layer, bytes.data(), bytes.size(), &written), "export_state");
    if (answer.status == Status::ok && written != size) {
      return {.status = Status::failed, .numbers = {}, .count = {}, .text = fmt::format("export_state said {} bytes and wrote {}", size, written)};
    }
    records_[s.slot] = std::move(bytes);
    return answer;
  }

  StepAnswer import_state(kvcert_layer* layer, const EngineStep& s) {
    if (e_.import_state == nullptr || !records_.contains(s.slot)) return unsupported();
    // A buffer of its own size, so that a read past the end is one for a sanitizer, too.
    const auto& whole = records_[s.slot];
    const std::vector<std::uint8_t> bytes(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(std::min(s.cut, whole.size())));
    return answer_of(e_.import_state(layer, bytes.data(), bytes.size()), "import_state");
  }

  /// length, importance, evict_*, state.
  StepAnswer observe(kvcert_layer* layer, const EngineStep& s) {
    StepAnswer answer;
    std::size_t removed = 0;
    switch (s.op) {
      case EngineOp::length: {
        if (e_.length == nullptr) return unsupported();
        std::uint64_t n = 0;
        answer = answer_of(e_.length(layer, &n), "length");
        answer.count = n;
        return answer;
      }
      case EngineOp::evict_recent:
        if (e_.evict_recent == nullptr) return unsupported();
        answer = answer_of(e_.evict_recent(layer, s.n, &removed), "evict_recent");
        answer.count = removed;
        return answer;
      case EngineOp::evict_by_mass:
        if (e_.evict_by_mass == nullptr) return unsupported();
        answer = answer_of(e_.evict_by_mass(layer, s.n, s.sink, s.recent, &removed), "evict_by_mass");
        answer.count = removed;
        return answer;
      case EngineOp::importance: {
        if (e_.importance == nullptr) return unsupported();
        const std::size_t n = model_.layer(s).positions();
        return into_output(n, "importance", [&](float* out) { return e_.importance(layer, out, n); });
      }
      case EngineOp::state: {
        if (e_.state == nullptr) return unsupported();
        std::size_t floats = 0;
        answer = into_output(1024, "state", [&](float* out) { return e_.state(layer, out, 1024, &floats); });
        if (answer.numbers) answer.numbers->resize(std::min<std::size_t>(floats, 1024));
        return answer;
      }
      default: return unsupported();
    }
  }

  const kvcert_engine& e_;
  std::uint32_t variant_;
  Model model_;
  std::map<std::string, CallTime> times_;
  std::map<std::size_t, kvcert_layer*> layers_;
  std::map<std::size_t, std::vector<float>> sinks_;
  std::map<std::size_t, void*> snapshots_;
  std::map<std::size_t, std::vector<std::uint8_t>> records_;
};

/// Loads the engine; a sentence if that does not work.
std::string load(const HostOptions& options, kvcert_engine& engine) {
  void* library = dlopen(options.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fmt::format("cannot load {}: {}", options.library, dlerror());
  auto* entry = reinterpret_cast<const kvcert_engine* (*)(const char*)>(dlsym(library, "kvcert_engine_v1"));
  if (entry == nullptr) return fmt::format("{} does not export kvcert_engine_v1", options.library);
  const kvcert_engine* given = entry(options.option.c_str());
  if (given == nullptr) return fmt::format("kvcert_engine_v1 refused the option \"{}\"", options.option);
  if (given->abi != KVCERT_ENGINE_ABI) {
    return fmt::format("the engine is of ABI version {}, this program speaks version {}", given->abi, KVCERT_ENGINE_ABI);
  }
  engine = kvcert_engine{};
  std::memcpy(&engine, given, std::min(given->size, sizeof(engine)));  // an older engine ends earlier
  return {};
}

}  // namespace

int run_host(const HostOptions& options) {
  const std::uint64_t control = float_control();
  kvcert_engine engine{};
  const std::string fault = load(options, engine);
  if (!fault.empty()) {
    std::cout << json{{"refused", fault}}.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
    return 2;
  }
  std::string changed = float_control() == control ? "" : fmt::format("{}, when the library was loaded", describe_float_control(float_control(), control));
  set_float_control(control);
  std::cout << json{{"engine", to_json(declaration(engine))}}.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const EngineCase test = engine_case_from_json(parse_json(line));
    EngineAnswer answer;
    answer.id = test.id;
    {
      Play play(engine, static_cast<std::uint32_t>(options.variant));
      for (const EngineStep& step : test.steps) {
        answer.steps.push_back(play.step(step));
        if (float_control() != control && changed.empty()) {
          changed = fmt::format("{}, after {}", describe_float_control(float_control(), control), name(step.op));
        }
        set_float_control(control);
      }
      answer.times = play.take_times();
    }
    answer.environment = std::exchange(changed, "");
    std::cout << to_json(answer).dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  }
  return 0;
}

}  // namespace kvcert::certify
