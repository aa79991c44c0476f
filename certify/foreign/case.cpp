#include "certify/foreign/case.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "certify/foreign/tensor_text.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;

constexpr std::array<const char*, engine_op_count> names{
    "create", "append", "attend", "forward", "length", "truncate", "clear", "snapshot", "restore", "export", "import",
    "accumulate", "importance", "evict_recent", "evict_by_mass", "commit", "draft", "accept", "discard", "state"};

constexpr std::size_t largest = std::size_t{1} << 20U;       // of any single size
constexpr std::size_t most_numbers = std::size_t{1} << 26U;  // of any tensor

std::size_t count(const json& object, const char* field, std::size_t low, std::size_t high) {
  if (!object.contains(field)) throw std::runtime_error(fmt::format("there is no \"{}\"", field));
  const json& value = object.at(field);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < low || value.get<std::uint64_t>() > high) {
    throw std::runtime_error(fmt::format("\"{}\" is {}, expected an integer from {} to {}", field, value.dump(), low, high));
  }
  return value.get<std::size_t>();
}

std::size_t count_or(const json& object, const char* field, std::size_t fallback, std::size_t high) {
  return object.contains(field) ? count(object, field, 0, high) : fallback;
}

std::vector<float> tensor(const json& object, const char* field, Precision type, std::size_t size) {
  if (!object.contains(field) || !object.at(field).is_string()) {
    throw std::runtime_error(fmt::format("\"{}\" must be a string of hex digits", field));
  }
  if (size > most_numbers) throw std::runtime_error(fmt::format("\"{}\" would have {} numbers, more than {}", field, size, most_numbers));
  return tensor_from_hex(object.at(field).get_ref<const std::string&>(), type, field, size);
}

std::vector<float> any_tensor(const json& object, const char* field) {
  const json& value = object.contains(field) ? object.at(field) : json("");
  if (!value.is_string()) throw std::runtime_error(fmt::format("\"{}\" must be a string of hex digits", field));
  return tensor_from_hex(value.get_ref<const std::string&>(), Precision::f32, field, value.get_ref<const std::string&>().size() / 8);
}

json layer_json(const EngineLayer& layer) {
  json object{{"kv_heads", layer.kv_heads}, {"head_dim", layer.head_dim}, {"query_heads", layer.query_heads},
              {"scale", tensor_hex({&layer.scale, 1})}};
  if (layer.window != 0) object["window"] = layer.window;
  if (layer.softcap != 0) object["softcap"] = tensor_hex({&layer.softcap, 1});
  if (!layer.sinks.empty()) object["sinks"] = tensor_hex(layer.sinks);
  if (layer.layer != 0) object["layer"] = layer.layer;
  if (layer.identity != 0) object["identity"] = layer.identity;
  return object;
}

EngineLayer layer_from(const json& object) {
  EngineLayer layer;
  layer.kv_heads = count(object, "kv_heads", 1, largest);
  layer.head_dim = count(object, "head_dim", 1, largest);
  layer.query_heads = count(object, "query_heads", 1, largest);
  layer.window = count_or(object, "window", 0, SIZE_MAX);
  layer.scale = tensor(object, "scale", Precision::f32, 1).front();
  if (object.contains("softcap")) layer.softcap = tensor(object, "softcap", Precision::f32, 1).front();
  layer.sinks = any_tensor(object, "sinks");
  if (!layer.sinks.empty() && layer.sinks.size() != layer.query_heads) {
    throw std::runtime_error(fmt::format("\"sinks\" has {} logits, expected none or {}", layer.sinks.size(), layer.query_heads));
  }
  layer.layer = static_cast<std::uint32_t>(count_or(object, "layer", 0, 0xFFFFFFFF));
  layer.identity = count_or(object, "identity", 0, SIZE_MAX);
  return layer;
}

json step_json(const EngineStep& step, Precision type) {
  json object{{"op", name(step.op)}};
  if (step.on != 0) object["on"] = step.on;
  switch (step.op) {
    case EngineOp::create: object.update(layer_json(step.layer)); break;
    case EngineOp::forward: object["q"] = tensor_hex(step.q, type); [[fallthrough]];
    case EngineOp::append:
      object["n"] = step.n;
      object["k"] = tensor_hex(step.k, type);
      object["v"] = tensor_hex(step.v, type);
      break;
    case EngineOp::attend:
      object["from"] = step.from;
      object["n"] = step.n;
      object["q"] = tensor_hex(step.q, type);
      break;
    case EngineOp::truncate: object["n"] = step.n; break;
    case EngineOp::import_state:
      if (step.cut != 0) object["cut"] = step.cut;
      [[fallthrough]];
    case EngineOp::snapshot:
    case EngineOp::restore:
    case EngineOp::export_state: object["slot"] = step.slot; break;
    case EngineOp::accumulate: object["mass"] = tensor_hex(step.numbers); break;
    case EngineOp::evict_by_mass:
      object["sink"] = step.sink;
      object["recent"] = step.recent;
      [[fallthrough]];
    case EngineOp::evict_recent: object["keep"] = step.n; break;
    case EngineOp::commit: object["n"] = step.n; [[fallthrough]];
    case EngineOp::draft: object["vector"] = tensor_hex(step.numbers); break;
    default: break;
  }
  return object;
}

/// `layers`: what was created so far, for the sizes of tensors.
EngineStep step_from(const json& object, Precision type, std::vector<EngineLayer>& layers) {
  EngineStep step;
  const json op = object.contains("op") ? object.at("op") : json();
  std::size_t at = 0;
  while (at < names.size() && op != names[at]) ++at;
  if (at == names.size()) throw std::runtime_error(fmt::format("\"op\" is {}, which is no operation", op.dump()));
  step.op = static_cast<EngineOp>(at);
  step.on = count_or(object, "on", 0, 15);
  if (step.op == EngineOp::create) {
    step.layer = layer_from(object);
    if (step.on > layers.size()) throw std::runtime_error(fmt::format("layer {} is created before layer {}", step.on, layers.size()));
    // A snapshot of a layer that is no more would be restored into one of another shape.
    if (step.on < layers.size()) throw std::runtime_error(fmt::format("layer {} is created twice", step.on));
    layers.push_back(step.layer);
    return step;
  }
  if (step.on >= layers.size()) throw std::runtime_error(fmt::format("layer {} was never created", step.on));
  const EngineLayer& layer = layers[step.on];
  switch (step.op) {
    case EngineOp::append:
    case EngineOp::forward:
      step.n = count(object, "n", 0, largest);
      step.k = tensor(object, "k", type, step.n * layer.row_floats());
      step.v = tensor(object, "v", type, step.n * layer.row_floats());
      if (step.op == EngineOp::forward) step.q = tensor(object, "q", type, step.n * layer.query_floats());
      break;
    case EngineOp::attend:
      step.from = count(object, "from", 0, SIZE_MAX);
      step.n = count(object, "n", 0, largest);
      step.q = tensor(object, "q", type, step.n * layer.query_floats());
      break;
    case EngineOp::truncate: step.n = count(object, "n", 0, SIZE_MAX); break;
    case EngineOp::import_state: step.cut = count_or(object, "cut", 0, SIZE_MAX); [[fallthrough]];
    case EngineOp::snapshot:
    case EngineOp::restore:
    case EngineOp::export_state: step.slot = count(object, "slot", 0, 15); break;
    case EngineOp::accumulate: step.numbers = any_tensor(object, "mass"); break;
    case EngineOp::evict_by_mass:
      step.sink = count(object, "sink", 0, SIZE_MAX);
      step.recent = count(object, "recent", 0, SIZE_MAX);
      [[fallthrough]];
    case EngineOp::evict_recent: step.n = count(object, "keep", 0, SIZE_MAX); break;
    case EngineOp::commit: step.n = count(object, "n", 0, largest); [[fallthrough]];
    case EngineOp::draft: step.numbers = any_tensor(object, "vector"); break;
    default: break;
  }
  return step;
}

}  // namespace

const char* name(EngineOp op) { return names[static_cast<std::size_t>(op)]; }

json to_json(const EngineCase& test) {
  json steps = json::array();
  for (const EngineStep& step : test.steps) steps.push_back(step_json(step, test.type));
  json object{{"id", test.id}, {"check", test.check}, {"about", test.about}, {"steps", std::move(steps)}};
  if (test.type != Precision::f32) object["type"] = name(test.type);
  if (!test.closed_form.empty()) object["closed_form"] = test.closed_form;
  return object;
}

EngineCase engine_case_from_json(const json& object) {
  EngineCase test;
  std::size_t at = 0;
  bool in_steps = false;
  try {
    if (!object.is_object()) throw std::runtime_error("it is no JSON object");
    test.id = object.at("id").get<std::string>();
    test.check = object.at("check").get<std::string>();
    test.about = object.value("about", "");
    const json type = object.value("type", json("f32"));
    if (type == "f16") test.type = Precision::f16;
    else if (type == "bf16") test.type = Precision::bf16;
    else if (type != "f32") throw std::runtime_error(fmt::format("\"type\" is {}, expected f32, f16 or bf16", type.dump()));
    if (object.contains("closed_form")) test.closed_form = object.at("closed_form").get<std::vector<double>>();
    std::vector<EngineLayer> layers;
    if (!object.at("steps").is_array()) throw std::runtime_error("\"steps\" is no array");
    in_steps = true;
    for (const json& step : object.at("steps")) {
      test.steps.push_back(step_from(step, test.type, layers));
      ++at;
    }
    return test;
  } catch (const std::exception& fault) {
    throw std::runtime_error(fmt::format("not a case{}: {}{}", test.id.empty() ? "" : fmt::format(" (\"{}\")", test.id),
                                         in_steps ? fmt::format("step {}: ", at + 1) : "", fault.what()));
  }
}

}  // namespace kvcert::certify
