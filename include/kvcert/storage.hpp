// Views of what a layer holds beside plain rows: int8 rows, the bounded ring, the O(1) state. No copies; each is valid until
// the next mutating call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvcert {

/// Channels that share one scale in int8 keys; the last group may be shorter. int8 values have one scale per row.
inline constexpr std::size_t q8_key_group = 32;
/// Rows that must be stored before the append that freezes the column field.
inline constexpr std::size_t q8_freeze_at = 64;
/// How many positions a ring can take back.
inline constexpr std::size_t undo_depth = 64;
/// A layer is sealed from w + sink + o1_boundary + 1 rows on; up to w + sink + o1_boundary a group stays exact.
inline constexpr std::size_t o1_boundary = 8;

/// One head's int8 tensor. x̂ = values · scale · column. All empty where the tensor is stored as f32.
struct Q8Rows {
  std::span<const std::int8_t> values;  ///< [rows × HD]
  std::span<const float> scales;        ///< keys [rows × ⌈HD / 32⌉], values [rows]
  std::span<const float> columns;       ///< [HD], or empty until frozen: then every column is 1
};

/// How an O(1) far field turns landmark weights into an output.
enum class O1Rect : std::uint8_t {
  aggregate,  ///< the far part is dropped where its denominator is not positive
  fm,         ///< every landmark weight is clamped at 0
};

/// Parameters of the O(1) overlay.
struct O1Config {
  std::size_t landmarks = 0;  ///< m ≥ 4: at most so many; a prefill of t rows uses clamp(t / 8, 4, m)
  std::size_t window = 0;     ///< w ≥ 1: rows in the exact ring
  std::size_t sink = 0;       ///< the first rows, kept exact for good
  O1Rect rect = O1Rect::aggregate;
  friend bool operator==(const O1Config&, const O1Config&) = default;
};

/// What one query head of a sealed group keeps.
struct O1HeadView {
  std::span<const float> T;        ///< [m_eff × HD], landmark sums of values
  std::span<const float> Z;        ///< [m_eff], landmark masses
  std::span<const float> mu;       ///< [m_eff], running maxima, −∞ until something was absorbed
  std::span<const float> Q_tilde;  ///< [m_eff × HD], query landmarks
  std::span<const float> M;        ///< [m_eff × m_eff], row a, column b
};

/// A sealed group's state. Row i ≥ sink of the sequence lies in ring slot (i − sink) mod w.
struct O1GroupView {
  std::span<const float> sink_keys, sink_values;  ///< [sink × HD]
  std::span<const float> ring_keys, ring_values;  ///< [w × HD]; slots never written are +0
  std::size_t ring_length = 0;                    ///< slots that hold a row
  std::size_t ring_head = 0;                      ///< the slot written next
  std::span<const float> K_tilde;                 ///< [m_eff × HD], key landmarks
  std::vector<O1HeadView> heads;                  ///< HPK of them
  std::size_t m_eff = 0, window = 0, sink = 0, head_dim = 0;
  float scale = 0;
  std::uint64_t far_count = 0;  ///< rows absorbed so far, by every head alike
  O1Rect rect = O1Rect::aggregate;
};

/// Trained sink keys of a bounded layer: weights, not state.
struct BoundedSinks {
  std::span<const float> keys, values;  ///< [KVH][S][HD] each; S = size / (KVH × HD), 0 = none
};

/// One word for what a layer is; docs/states.md says which call works in which.
enum class LayerState : std::uint8_t { plain, collecting, sealed, aborted, bounded, linear };

}  // namespace kvcert
