// Both C++ decoders behind the protocol of wire_oracle.ml: a record a line in, a verdict a line out. Where the two
// disagree the line holds both.
#include <charconv>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kvcert/error.hpp"
#include "kvcert/geometry.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "reference/layer_kv_cache.hpp"

namespace {

using namespace kvcert;
using Bytes = std::vector<std::uint8_t>;

struct Config {
  WireKind kind;
  Geometry geometry;
  std::size_t window;
  std::uint32_t layer;
  std::uint64_t identity;
  bool allowed;
};

/// A polynomial over words, kept to 62 bits: what the oracle's integers hold.
class Digest {
 public:
  void word(std::uint64_t w) { value_ = ((value_ * 1000003) ^ w) & ((std::uint64_t{1} << 62) - 1); }
  void position(std::uint64_t n) {
    word(n & 0xFFFFFFFF);
    word(n >> 32);
  }
  void floats(std::span<const float> values) {
    word(values.size());
    for (const float& value : values) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);  // a float in a register could lose a signalling bit
      word(bits);
    }
  }
  void bytes(std::span<const std::uint8_t> values) {
    word(values.size());
    for (const std::uint8_t value : values) word(value);
  }
  std::string text() const { return std::to_string(value_); }

 private:
  std::uint64_t value_ = 0;
};

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

template <class Cache>
Cache layer_of(const Config& config) {
  Cache layer = must(Cache::create(config.geometry));
  layer.set_wire_layer(config.layer);
  layer.set_wire_identity(config.identity);
  layer.set_linear_wire_allowed(config.allowed);
  if (config.kind == WireKind::linear) must(layer.set_wire_kind(WireKind::linear));
  if (config.kind == WireKind::bounded) must(layer.install_bounded(config.window));
  return layer;
}

template <class Cache>
std::string state_digest(const Cache& layer) {
  Digest digest;
  digest.word(static_cast<std::uint64_t>(layer.wire_kind()));
  digest.position(layer.seq_len());
  if (layer.wire_kind() == WireKind::bounded) {
    digest.floats(layer.bounded_keys());
    digest.floats(layer.bounded_values());
    return digest.text();
  }
  digest.floats(layer.linear_state());
  if (layer.wire_kind() == WireKind::linear) return digest.text();
  digest.floats(layer.importance());
  const auto keys = layer.k_heads();
  const auto values = layer.v_heads();
  for (std::size_t head = 0; head < keys.size(); ++head) {
    digest.floats(keys[head]);
    digest.floats(values[head]);
  }
  return digest.text();
}

template <class Cache>
std::string record_digest(const Cache& layer, WireFormat format) {
  const auto record = layer.export_wire(format);
  if (!record) return std::string(name(record.error().code)) + ":" + std::to_string(record.error().found);
  Digest digest;
  digest.bytes(*record);
  return digest.text();
}

template <class Cache>
std::string verdict(const Config& config, const Bytes& bytes) {
  Cache layer = layer_of<Cache>(config);
  if (const auto imported = layer.import_wire(bytes); !imported) {
    const Error& e = imported.error();
    return std::string(name(e.code)) + " " + std::to_string(e.offset) + " " + std::to_string(e.expected) + " " +
           std::to_string(e.found);
  }
  const bool versioned = bytes.size() >= 4 && std::memcmp(bytes.data(), "CMFS", 4) == 0;
  const int flag = bytes[versioned ? 21 : 0];
  return "accept " + std::to_string(flag) + " " + state_digest(layer) + " " + record_digest(layer, WireFormat::f32) + " " +
         record_digest(layer, WireFormat::f16);
}

template <class T>
T number(const std::string& text, int base) {
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (fault != std::errc{} || end != text.data() + text.size()) throw std::runtime_error("no number: " + text);
  return value;
}

std::string judge(const std::string& line) {
  std::istringstream words(line);
  std::string kind, heads, dim, window, layer, identity, allowed, hex;
  if (!(words >> kind >> heads >> dim >> window >> layer >> identity >> allowed >> hex))
    throw std::runtime_error("eight words a line: " + line);
  const Config config{.kind = static_cast<WireKind>(number<std::uint8_t>(kind, 10)),
                      .geometry = {number<std::size_t>(heads, 10), number<std::size_t>(dim, 10)},
                      .window = number<std::size_t>(window, 10),
                      .layer = number<std::uint32_t>(layer, 10),
                      .identity = number<std::uint64_t>(identity, 16),
                      .allowed = allowed == "1"};
  Bytes bytes;
  if (hex != "-")
    for (std::size_t i = 0; i < hex.size(); i += 2) bytes.push_back(number<std::uint8_t>(hex.substr(i, 2), 16));
  // No byte may be read behind the buffer: an exact allocation shows it to a sanitizer.
  bytes.shrink_to_fit();
  const std::string reference = verdict<reference::LayerKvCache>(config, bytes);
  const std::string optimized = verdict<optimized::LayerKvCache>(config, bytes);
  return reference == optimized ? reference : "reference: " + reference + "; optimized: " + optimized;
}

}  // namespace

int main() try {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) std::cout << judge(line) << '\n';
  return std::cout.flush() ? 0 : 1;
} catch (const std::exception& fault) {
  std::cerr << "wire_verdicts: " << fault.what() << '\n';
  return 1;
}
