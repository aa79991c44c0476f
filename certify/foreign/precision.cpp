#include "certify/foreign/precision.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace kvcert::certify {
namespace {

using nlohmann::json;

Precision precision_from(const json& object, const char* field, std::initializer_list<Precision> allowed) {
  if (!object.contains(field)) return Precision::f32;
  const json& value = object.at(field);
  std::string names;
  for (Precision precision : allowed) {
    if (value == name(precision)) return precision;
    names += fmt::format(" {}", name(precision));
  }
  throw std::runtime_error(fmt::format("\"{}\" is {}, expected one of:{}", field, value.dump(), names));
}

double ulps_from(const json& object, const char* field) {
  if (!object.contains(field)) return 4;
  const json& value = object.at(field);
  if (!value.is_number() || !(value.get<double>() > 0) || value.get<double>() > 1024) {
    throw std::runtime_error(fmt::format("\"{}\" is {}, expected a number above 0, at most 1024", field, value.dump()));
  }
  return value.get<double>();
}

std::size_t group_from(const json& object, const char* field) {
  if (!object.contains(field)) return 0;
  const json& value = object.at(field);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 1U << 20U) {
    throw std::runtime_error(fmt::format("\"{}\" is {}, expected an integer from 0 to 1048576", field, value.dump()));
  }
  return value.get<std::size_t>();
}

}  // namespace

Format format_of(Precision precision) {
  switch (precision) {
    case Precision::f16: return {0x1p-11, 0x1p-25, 0x1p15};
    case Precision::bf16: return {0x1p-8, 0x1p-134, 0x1p127};
    case Precision::f32:
    case Precision::int8: break;
  }
  return {};
}

json to_json(const Declared& d) {
  std::vector<std::string> claims;
  for (auto [claimed, claim] : {std::pair{d.canonical, "canonical"}, {d.deterministic, "deterministic"},
                                {d.batch_invariant, "batch_invariant"}, {d.same_variants, "same_variants"}}) {
    if (claimed) claims.emplace_back(claim);
  }
  return {{"name", d.name},
          {"version", d.version},
          {"claims", claims},
          {"key_storage", name(d.key_storage)},
          {"value_storage", name(d.value_storage)},
          {"accumulation", name(d.accumulation)},
          {"probability", name(d.probability)},
          {"query", name(d.query)},
          {"record", name(d.record)},
          {"key_group", d.key_group},
          {"value_group", d.value_group},
          {"exp_ulps", d.exp_ulps},
          {"tanh_ulps", d.tanh_ulps},
          {"variants", d.variants}};
}

Declared declared_from_json(const json& object) try {
  using enum Precision;
  Declared d;
  for (const auto& [field, value] : object.items()) {
    if (!to_json(d).contains(field)) throw std::runtime_error(fmt::format("the declaration has no field \"{}\"", field));
  }
  d.name = object.value("name", d.name);
  d.version = object.value("version", d.version);
  for (const json& claim : object.value("claims", json::array())) {
    if (claim == "canonical") d.canonical = true;
    else if (claim == "deterministic") d.deterministic = true;
    else if (claim == "batch_invariant") d.batch_invariant = true;
    else if (claim == "same_variants") d.same_variants = true;
    else throw std::runtime_error(fmt::format("{} is no claim: canonical, deterministic, batch_invariant, same_variants", claim.dump()));
  }
  d.key_storage = precision_from(object, "key_storage", {f32, f16, bf16, int8});
  d.value_storage = precision_from(object, "value_storage", {f32, f16, bf16, int8});
  d.accumulation = precision_from(object, "accumulation", {f32, f16, bf16});
  d.probability = precision_from(object, "probability", {f32, f16, bf16});
  d.query = precision_from(object, "query", {f32, f16, bf16});
  d.record = precision_from(object, "record", {f32, f16, bf16});
  d.key_group = group_from(object, "key_group");
  d.value_group = group_from(object, "value_group");
  d.exp_ulps = ulps_from(object, "exp_ulps");
  d.tanh_ulps = ulps_from(object, "tanh_ulps");
  if (object.contains("variants")) d.variants = object.at("variants").get<std::vector<std::string>>();
  if (d.variants.empty()) d.variants.emplace_back();
  const bool plain = d.key_storage == f32 && d.value_storage == f32 && d.accumulation == f32 && d.probability == f32 && d.query == f32;
  if (d.canonical && !plain) {
    throw std::runtime_error("canonical bits are those of f32 storage and f32 accumulation, and something else is declared");
  }
  return d;
} catch (const json::exception& fault) {
  throw std::runtime_error(fmt::format("not a declaration: {}", fault.what()));
}

EngineParameters parameters_for(const Declared& d, std::size_t head_dim, std::size_t n, bool sink) {
  if (d.canonical) return canonical_parameters(head_dim, n);
  const Format format = format_of(d.accumulation);
  EngineParameters e;
  e.u = format.u;
  // A foreign engine may flush subnormals, in products and in additions: 2^-126 each. binary16 is taken to keep its
  // subnormals: flushed at 2^-14 they would be seen.
  const bool may_flush = d.accumulation != Precision::f16;
  e.lambda = std::max(format.lambda, may_flush ? 0x1p-126 : 0.0);
  e.lambda_add = may_flush ? 0x1p-126 : 0.0;
  e.overflow = format.overflow;
  e.epsilon = 2 * d.exp_ulps * format.u;
  e.omega = e.lambda;
  e.tau = 2 * d.tanh_ulps * format.u;
  e.omega_tanh = e.lambda;
  e.h_q = head_dim;
  e.r = 3;
  e.r_sigma = 2;
  e.g_c = 2;
  e.rescalings = n + 1;
  e.h_v = n == 0 ? 0 : n - 1;
  e.h_s = n + (sink ? 1 : 0) - (n == 0 ? 0 : 1);
  e.g = 2;
  e.u_q = storage_roundoff(d.query);
  e.u_k = storage_roundoff(d.key_storage);
  e.u_v = storage_roundoff(d.value_storage);
  if (d.query != Precision::f32) e.query_error = format_of(d.query).lambda;
  if (d.probability != Precision::f32) {
    e.u_P = format_of(d.probability).u;
    e.lambda_P = format_of(d.probability).lambda;
  }
  return e;
}

double storage_roundoff(Precision storage) {
  switch (storage) {
    case Precision::f16: return 0x1p-11;
    case Precision::bf16: return 0x1p-8;
    case Precision::f32:
    case Precision::int8: break;
  }
  return 0;
}

std::vector<float> storage_error(Precision storage, std::size_t group, std::span<const float> rows,
                                 std::size_t head_dim) {
  if (storage == Precision::f32) return {};
  std::vector<float> error(rows.size());
  if (storage != Precision::int8) {  // below the normal numbers rounding is no longer relative
    const Format format = format_of(storage);
    const double normal = format.lambda / format.u;
    std::transform(rows.begin(), rows.end(), error.begin(), [&](float x) {
      return x != 0 && std::fabs(double{x}) < normal ? std::max(static_cast<float>(format.lambda), 0x1p-149F) : 0.0F;
    });
    return error;
  }
  const std::size_t width = group == 0 ? head_dim : group;
  for (std::size_t row = 0; row < rows.size(); row += head_dim) {
    for (std::size_t from = 0; from < head_dim; from += width) {
      const auto channels = rows.subspan(row + from, std::min(width, head_dim - from));
      float largest = 0;
      for (float x : channels) largest = std::max(largest, std::fabs(x));
      // Half a step of absmax / 127, a scale that is kept in binary16 (as common block formats do), and the roundings of
      // quotient and product, at most 127 · 4 · 2^-24 of a step.
      const float half_step = largest == 0 ? 0.0F : std::max(largest * (0.5F / 127.0F + 0x1p-11F) * (1 + 0x1p-12F), 0x1p-149F);
      std::fill_n(error.begin() + static_cast<std::ptrdiff_t>(row + from), channels.size(), half_step);
    }
  }
  return error;
}

Precision coarser(Precision a, Precision b) {
  if (a == Precision::int8 || b == Precision::int8) return Precision::int8;
  return format_of(a).u > format_of(b).u ? a : b;
}

bool overflows(Precision storage, std::span<const float> numbers) {
  if (storage == Precision::f32) return false;
  const double limit = storage == Precision::f16 ? 65520.0 : storage == Precision::bf16 ? 0x1.FFp127 : 0x1p120;
  return std::any_of(numbers.begin(), numbers.end(), [&](float x) { return std::fabs(double{x}) >= limit; });
}

}  // namespace kvcert::certify
