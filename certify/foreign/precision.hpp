// What an engine says of its arithmetic, and the bound's parameters that follow from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "certify/bound.hpp"

namespace kvcert::certify {

enum class Precision : std::uint8_t { f32, f16, bf16, int8 };

constexpr const char* name(Precision precision) {
  constexpr const char* names[] = {"f32", "f16", "bf16", "int8"};
  return names[static_cast<std::size_t>(precision)];
}

/// The floating formats: unit roundoff, half the smallest subnormal, and what must not be reached.
struct Format {
  double u = 0x1p-24;
  double lambda = 0x1p-150;
  double overflow = 0x1p127;
};
Format format_of(Precision precision);

/// The declaration of an engine, from engine.h or from the first line of a pipe's answers. What is not declared is binary32
/// in any order of operations.
struct Declared {
  std::string name = "unnamed", version;
  bool canonical = false, deterministic = false, batch_invariant = false, same_variants = false;
  Precision key_storage = Precision::f32, value_storage = Precision::f32;
  Precision accumulation = Precision::f32, probability = Precision::f32, query = Precision::f32, record = Precision::f32;
  std::size_t key_group = 0, value_group = 0;  ///< int8: channels that share a scale, 0 = a head's whole row
  double exp_ulps = 4, tanh_ulps = 4;
  std::vector<std::string> variants{""};
};

nlohmann::json to_json(const Declared& declared);
/// Throws std::runtime_error with a sentence for a person.
Declared declared_from_json(const nlohmann::json& json);

/// The worst case of any engine that works as declared, in any order, over n visible rows.
EngineParameters parameters_for(const Declared& declared, std::size_t head_dim, std::size_t visible_rows, bool sink);

/// How far a stored number may lie from what was appended, beyond the relative part (u_k, u_v): [rows × HD].
std::vector<float> storage_error(Precision storage, std::size_t group, std::span<const float> rows, std::size_t head_dim);
/// The relative part of storage.
double storage_roundoff(Precision storage);
/// The coarser of two formats: what rows are after a record of that format.
Precision coarser(Precision a, Precision b);
/// Whether a number that must be stored cannot be, in this format.
bool overflows(Precision storage, std::span<const float> numbers);

}  // namespace kvcert::certify
