// A plain engine behind kvcert/engine.h, correct unless one fault is planted. The option "fault=NAME" plants one of
// faults.inc; "kind=NAME" chooses how the engine works: scalar, online, ring, f16, bf16, int8, canonical.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kvcert/engine.h"

namespace broken {

enum class Fault {
  none,
#define FAULT(name, kind, check, what, hint) name,
#include "tests/broken/faults.inc"
#undef FAULT
};
enum class Kind { scalar, online, ring, f16, bf16, int8, canonical };

extern Fault planted;
extern Kind kind;
inline bool is(Fault fault) { return planted == fault; }

struct Rows {
  std::vector<float> k, v, importance;
};

struct Layer {
  std::size_t kv_heads = 0, dim = 0, query_heads = 0, window = 0;
  float scale = 1, softcap = 0;
  std::vector<float> sinks;
  std::uint32_t layer = 0, variant = 0;
  std::uint64_t identity = 0;

  std::size_t T = 0, last_batch = 0, committed = 0;
  bool just_truncated = false;
  std::shared_ptr<Rows> rows = std::make_shared<Rows>();
  std::vector<float> state;
  std::optional<std::vector<float>> draft;

  std::size_t row() const { return kv_heads * dim; }
  std::size_t slot(std::size_t p) const { return kind == Kind::ring && window != 0 ? p % window : p; }
  const float* key(std::size_t p, std::size_t head) const { return &rows->k[slot(p) * row() + head * dim]; }
  const float* value(std::size_t p, std::size_t head) const { return &rows->v[slot(p) * row() + head * dim]; }
};

/// One row of one KV head as it is kept.
void store(const float* from, float* to, std::size_t dim, bool key, const float* first_row);
float f16_round(float x);
/// One position's query head over its visible rows. i of n: its place in the call.
void attend_head(const Layer& layer, const float* q, std::size_t head, std::size_t position, std::size_t i, std::size_t n, float* out);

}  // namespace broken
