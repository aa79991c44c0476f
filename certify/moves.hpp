// Histories of any operations on one layer: what is done next is drawn from a seed and from the state the layer is in, so
// that whatever is left of a shrunk history still makes sense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvcert/layer_cache.hpp"

namespace kvcert::certify {

enum class Op : std::uint8_t {
  append,
  append_chunk,
  attend,
  attend_group,
  attend_chunk,
  accumulate_imp,
  truncate_last,
  evict_recent,
  evict_by_mass,
  clear,
  snapshot,
  restore,
  set_mode,
  set_wire_kind,
  linear_commit,
  linear_set_scratch,
  linear_accept_scratch,
  discard_linear_scratch,
  install_bounded,
  bounded_step,
  bounded_snapshot,
  bounded_restore,
  o1_begin,
  o1_push_q,
  o1_seal,
  o1_step,
  round_trip,     ///< export, import into the same layer
  import_record,  ///< a record from elsewhere, whole or damaged
  configure,      ///< sinks, layer, identity, linear_wire_allowed
  group,          ///< an O(1) group of its own: prefill, exact-only or sealed, and a few steps
};
inline constexpr std::size_t op_count = static_cast<std::size_t>(Op::group) + 1;
const char* name(Op op);

/// What kind of life a history mostly leads; every kind meets every operation now and then.
enum class Theme : std::uint8_t { plain, q8, q8_keys, q8_values, bounded, linear, o1 };
inline constexpr std::size_t theme_count = static_cast<std::size_t>(Theme::o1) + 1;

/// One step before it meets a state: an operation, and the seed of its arguments.
struct Step {
  Op op{};
  std::uint64_t seed = 0;
};

/// Where a history begins.
struct Setting {
  Theme theme{};
  Geometry geometry{1, 1};
  std::size_t fan_out = 1;  ///< query heads per KV head
  std::uint64_t seed = 0;
};

struct History {
  Setting setting;
  std::vector<Step> steps;
};
/// The history of this seed, with about `steps` steps.
History generate_history(std::uint64_t seed, std::size_t steps);
/// Histories with fewer steps, and simpler settings.
std::vector<History> simpler(const History& history);

/// What a move needs to know of the layer it will be played on.
struct Situation {
  LayerState state{};
  std::uint64_t seq_len = 0;
  std::size_t window = 0;  ///< of the ring; 0 = none
  std::vector<std::uint8_t> alive;
  std::size_t trace = 0;
  KvMode mode{};
  bool frozen = false;  ///< its int8 columns
  std::size_t saved = 0;  ///< snapshots at hand
};

/// One call with all its arguments. Which fields count depends on the operation.
struct Move {
  Op op{};
  std::vector<float> k, v, q, sinks, acc, inv_freq;
  std::vector<std::uint8_t> alive, bytes;
  std::size_t kv_head = 0, n = 0, from = 0, window = 0, heads = 0, which = 0;
  std::size_t out_floats = 0;
  float scale = 1, softcap = 0;
  KvMode mode{};
  bool frozen = false;  ///< its int8 columns
  WireKind kind{};
  WireFormat format{};
  O1Config o1;
};

/// The step's arguments in this situation: mostly fitting, one in twelve with something wrong.
Move materialize(const Step& step, const Setting& setting, const Situation& situation);

}  // namespace kvcert::certify
