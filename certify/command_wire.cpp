#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "certify/commands.hpp"
#include "certify/engine.hpp"
#include "certify/record_fields.hpp"

namespace kvcert::certify {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

/// Nothing, with a message on standard error, if the file cannot be read.
std::optional<Bytes> read_file(const std::string& path) {
  std::error_code fault;
  if (std::filesystem::is_directory(path, fault)) {
    fmt::print(stderr, "kvcert: {} is a directory\n", path);
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  Bytes bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || !file.is_open() || (file.fail() && !file.eof())) {
    fmt::print(stderr, "kvcert: cannot read {}\n", path);
    return std::nullopt;
  }
  return bytes;
}

/// One decoder's answer about a buffer.
struct Answer {
  std::optional<Error> refused;
  bool written_again = false;  ///< accepted, and the export is the same bytes (unversioned: a version-2 record around them)
};

template <class Cache>
Answer decode(Cache layer, const WireOptions& options, const RecordFields& fields, const Bytes& bytes) {
  // A layer of the record's kind; where the record does not get so far as to name a ring that can be, any layer will do.
  if (fields.kind == 1U) {
    if (auto result = layer.set_wire_kind(WireKind::linear); !result) return {result.error(), false};
  } else if (fields.kind == 2U && fields.window && *fields.window > 0 && *fields.window <= bytes.size()) {
    if (auto result = layer.install_bounded(*fields.window); !result) return {result.error(), false};
  }
  layer.set_wire_layer(static_cast<std::uint32_t>(options.layer.value_or(fields.layer.value_or(0))));
  layer.set_wire_identity(options.identity.value_or(fields.identity.value_or(0)));
  layer.set_linear_wire_allowed(!options.refuse_unversioned);
  if (auto result = layer.import_wire(bytes); !result) return {result.error(), false};
  const auto again = layer.export_wire(fields.f16 == 1U ? WireFormat::f16 : WireFormat::f32);
  if (!again) return {{}, false};
  const std::size_t body = fields.versioned ? 0 : wire::header_bytes;
  return {{}, again->size() == bytes.size() + body &&
                  std::equal(bytes.begin(), bytes.end(), again->begin() + static_cast<std::ptrdiff_t>(body))};
}

json to_json(const Error& error) {
  return {{"code", name(error.code)}, {"offset", error.offset}, {"expected", error.expected}, {"found", error.found},
          {"sentence", error.message}};
}

}  // namespace

int run_wire_show(const WireOptions& options) {
  const auto bytes = read_file(options.file);
  if (!bytes) return 2;
  const RecordFields record = read_fields(*bytes);
  if (options.json) {
    json fields = json::array();
    for (const RecordField& field : record.fields) {
      fields.push_back({{"offset", field.offset}, {"bytes", field.bytes}, {"name", field.name}, {"value", field.value}});
    }
    fmt::print("{}\n", json{{"file", options.file},
                            {"bytes", bytes->size()},
                            {"versioned", record.versioned},
                            {"fields", fields},
                            {"stopped", record.stopped},
                            {"trailing_bytes", record.trailing}}
                           .dump(1, ' ', false, json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}: {} bytes, {}\n", options.file, bytes->size(),
             record.versioned ? "a CMFS record" : "no CMFS header: read as the unversioned body");
  for (const RecordField& field : record.fields) {
    fmt::print("{:>8}  {:<18} {}\n", field.offset, field.name, field.value);
  }
  if (!record.stopped.empty()) fmt::print("stopped:  {}\n", record.stopped);
  if (record.trailing > 0) fmt::print("{:>8}  {} bytes after the end of the record\n", bytes->size() - record.trailing, record.trailing);
  return 0;
}

int run_wire_check(const WireOptions& options) {
  const auto bytes = read_file(options.file);
  if (!bytes) return 2;
  const RecordFields record = read_fields(*bytes);
  // A layer for the record as it describes itself, unless the caller says what it should be. Without a readable geometry
  // any layer will do: the decoders never get that far.
  const Geometry geometry{options.kv_heads.value_or(record.kv_heads.value_or(1)),
                          options.head_dim.value_or(record.head_dim.value_or(1))};
  if (options.kv_heads && *options.kv_heads > bytes->size()) {
    fmt::print(stderr, "kvcert: --kv-heads {} is more than a record of {} bytes can hold\n", *options.kv_heads, bytes->size());
    return 2;
  }
  const bool possible = geometry.num_kv_heads > 0 && geometry.head_dim > 0 && geometry.num_kv_heads <= bytes->size();
  const Geometry layer = possible ? geometry : Geometry{options.kv_heads.value_or(1), options.head_dim.value_or(1)};
  const auto reference_layer = reference::LayerKvCache::create(layer);
  const auto optimized_layer = optimized::LayerKvCache::create(layer, optimized::Isa::scalar);
  if (!reference_layer || !optimized_layer) {  // no decoder was asked: the layer itself cannot be
    fmt::print(stderr, "kvcert: {}\n", (reference_layer ? optimized_layer.error() : reference_layer.error()).message);
    return 2;
  }
  const Answer reference = decode(*reference_layer, options, record, *bytes);
  const Answer optimized = decode(*optimized_layer, options, record, *bytes);
  for (const Answer* answer : {&reference, &optimized}) {
    if (answer->refused && answer->refused->code == ErrorCode::out_of_memory) {
      fmt::print(stderr, "kvcert: {}\n", answer->refused->message);
      return 2;
    }
  }
  const bool agree = reference.refused.has_value() == optimized.refused.has_value() &&
                     (!reference.refused || same_verdict(*reference.refused, *optimized.refused));
  const bool good = agree && !reference.refused && reference.written_again && optimized.written_again;
  if (options.json) {
    json answer{{"file", options.file}, {"bytes", bytes->size()}, {"verdict", reference.refused ? "refused" : "accepted"},
                {"decoders_agree", agree}, {"kv_heads", layer.num_kv_heads}, {"head_dim", layer.head_dim}};
    if (reference.refused) answer["refused"] = to_json(*reference.refused);
    if (!agree && optimized.refused) answer["refused_by_optimized"] = to_json(*optimized.refused);
    if (!reference.refused) answer["written_again"] = reference.written_again && optimized.written_again;
    fmt::print("{}\n", answer.dump(1, ' ', false, json::error_handler_t::replace));
    return good ? 0 : 1;
  }
  if (!agree) {
    const auto say = [](const Answer& a) { return a.refused ? std::string(name(a.refused->code)) : std::string("accepts it"); };
    fmt::print("{}: THE DECODERS DISAGREE: reference says {}, optimized says {}. That is a fault of kvcert; please report it.\n",
               options.file, say(reference), say(optimized));
    return 1;
  }
  if (reference.refused) {
    fmt::print("{}: refused, {} at offset {}\n  {}\n", options.file, name(reference.refused->code), reference.refused->offset,
               reference.refused->message);
    if (!record.versioned) {
      fmt::print("  There is no CMFS magic, so it was read as the unversioned body, whose first field is a flag, 0 or 1.\n");
    }
    return 1;
  }
  fmt::print("{}: accepted by both decoders as a layer of {} KV head(s) × {}{}\n", options.file, layer.num_kv_heads, layer.head_dim,
             good && !record.versioned ? ", and written again as a version-2 record around the same bytes"
             : good                    ? ", and written again to the same bytes"
                                       : "; BUT IT IS NOT WRITTEN AGAIN TO THE SAME BYTES");
  return good ? 0 : 1;
}

}  // namespace kvcert::certify
