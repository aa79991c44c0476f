#include "certify/record_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kvcert/wire.hpp"

namespace kvcert::certify {
namespace {

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  RecordFields read() {
    result_.versioned = bytes_.size() >= 4 && std::equal(wire::magic.begin(), wire::magic.end(), bytes_.begin());
    if (result_.versioned && !header()) return result_;
    const std::uint64_t kind = result_.kind.value_or(0);
    if (kind > 2) {
      result_.stopped = fmt::format("kind {} is unknown ({} bytes follow)", kind, bytes_.size() - at_);
      return result_;
    }
    if (kind == 0 ? body() : kind == 1 ? linear_body() : ring_body()) result_.trailing = bytes_.size() - at_;
    return result_;
  }

 private:
  std::optional<std::uint64_t> integer(const std::string& name, std::size_t size, bool hex = false) {
    if (!fits(name, size)) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{bytes_[at_ + i]} << (8 * i);
    result_.fields.push_back({at_, size, name, hex ? fmt::format("{:#x}", value) : std::to_string(value)});
    at_ += size;
    return value;
  }

  bool fits(const std::string& name, std::uint64_t size) {
    if (size <= bytes_.size() - at_) return true;
    result_.stopped = fmt::format("{} at offset {} needs {} bytes, and {} are left", name, at_, size, bytes_.size() - at_);
    return false;
  }

  bool array(const std::string& name, std::uint64_t elements, std::uint64_t element_bytes) {
    if (elements > max_count / 4) {
      result_.stopped = fmt::format("{} at offset {} would have {} elements or more", name, at_, max_count / 4);
      return false;
    }
    if (!fits(name, elements * element_bytes)) return false;
    if (elements == 0) return true;
    std::string preview;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(elements, 4); ++i) {
      preview += fmt::format("{}{}", preview.empty() ? "" : ", ", element(at_ + i * element_bytes, element_bytes));
    }
    if (elements > 4) preview += ", …";
    result_.fields.push_back({at_, elements * element_bytes, name,
                              fmt::format("{} × {}: {}", elements, element_bytes == 2 ? "f16" : "f32", preview)});
    at_ += elements * element_bytes;
    return true;
  }

  float element(std::size_t at, std::uint64_t size) const {
    const auto low = static_cast<std::uint32_t>(bytes_[at] | bytes_[at + 1] << 8);
    if (size == 4) return std::bit_cast<float>(low | static_cast<std::uint32_t>(bytes_[at + 2] | bytes_[at + 3] << 8) << 16U);
    // For showing only: the value of a binary16.
    const std::uint32_t exponent = low >> 10U & 31U;
    const auto fraction = static_cast<float>(low & 1023U);
    float value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0F + fraction, static_cast<int>(exponent) - 25);
    if (exponent == 31) value = fraction == 0 ? INFINITY : NAN;
    return (low & 0x8000U) != 0 ? -value : value;
  }

  bool header() {
    result_.fields.push_back({0, 4, "magic", "CMFS"});
    at_ = 4;
    return integer("version", 4) && (result_.identity = integer("identity", 8, true)) &&
           (result_.layer = integer("layer", 4)) && (result_.kind = integer("kind", 1)) &&
           (result_.f16 = integer("f16 flag", 1)) && integer("reserved", 2) && integer("position", 8);
  }

  bool sizes() {
    return (result_.kv_heads = integer("num_kv_heads", 4)) && (result_.head_dim = integer("head_dim", 4));
  }

  bool linear_body() {
    if (!sizes()) return false;
    const auto length = integer("linear_len", 4);
    return length && array("recurrent vector", *length, 4);
  }

  bool ring_body() {
    if (!sizes() || !(result_.window = integer("window", 4)) || !integer("len", 4) || !integer("head", 4)) return false;
    const std::uint64_t per_slot = *result_.kv_heads * *result_.head_dim;  // of 32 bits each
    const bool fits_64 = *result_.window == 0 || per_slot <= max_count / *result_.window;
    const std::uint64_t elements = fits_64 ? per_slot * *result_.window : max_count;
    const std::uint64_t size = result_.f16 == 1U ? 2 : 4;
    return array("ring_k", elements, size) && array("ring_v", elements, size);
  }

  bool body() {
    const auto flag = integer("body f16 flag", 4);
    if (!flag) return false;
    if (!result_.versioned) result_.f16 = flag;
    if (!integer("seq_len", 4)) return false;
    result_.kv_heads = integer("num_kv_heads", 4);
    if (!result_.kv_heads) return false;
    result_.head_dim = integer("head_dim", 4);
    if (!result_.head_dim) return false;
    const auto linear = integer("linear_len", 4);
    if (!linear) return false;
    const auto importance = integer("imp_len", 4);
    if (!importance || !array("recurrent vector", *linear, 4) || !array("importance", *importance, 4)) return false;
    const std::uint64_t size = *flag == 1 ? 2 : 4;
    for (std::uint64_t head = 0; head < *result_.kv_heads; ++head) {
      for (const char* tensor : {"k", "v"}) {
        const auto length = integer(fmt::format("head {} {}_len", head, tensor), 4);
        if (!length || !array(fmt::format("head {} {}", head, tensor), *length, size)) return false;
      }
    }
    return true;
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  RecordFields result_;
};

}  // namespace

RecordFields read_fields(std::span<const std::uint8_t> bytes) { return Reader(bytes).read(); }

}  // namespace kvcert::certify
