// Any bytes, two decoders: the layer fits what the record claims to be, so that the fuzzer gets past the header, or is what
// the prefix says; and a fixed, strict one, which the header has to get past.
#include <map>

#include "fuzz/fail.hpp"
#include "fuzz/import_case.hpp"
#include "fuzz/import_judge.hpp"
#include "fuzz/thorough.hpp"

namespace {

using namespace kvcert;
using namespace kvcert::fuzz;

/// The decoders of this shape, kept from run to run: furnishing a layer costs more than importing into it.
ImportJudge& judge_of(const LayerShape& shape) {
  static std::map<LayerShape, ImportJudge> kept;
  if (kept.size() >= shapes_at_most) kept.clear();
  return kept.try_emplace(shape, shape).first->second;
}

void judge(const ImportCase& given, bool deep) {
  if (const auto problem = judge_of(given.shape).judge(given.names, given.bytes, deep)) {
    const auto [heads, dim] = given.shape.geometry;
    fail(fmt::format("{} bytes to a layer of {} heads × {}, kind {}, window {}, life {}, index {}, identity {:016x}, {}: {}",
                     given.bytes.size(), heads, dim, static_cast<int>(given.shape.kind), given.shape.window,
                     static_cast<int>(given.shape.life), given.names.layer, given.names.identity,
                     given.names.linear_wire_allowed ? "taking unversioned bodies" : "refusing unversioned bodies", *problem));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView input(data, size);
  Digest digest;
  digest.add(input);
  const bool deep = thorough || digest.value() % 256 == 0;
  judge(import_case(input), deep);
  if (!has_prefix(input)) {
    judge({{.geometry = {2, 2}}, {.identity = 0xC0FFEE00, .layer = 3, .linear_wire_allowed = false}, input}, deep);
  }
  return 0;
}
