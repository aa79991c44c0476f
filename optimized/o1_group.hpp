// The O(1) Nyström state of one KV group: exact sinks, an exact ring, and a far field of landmarks per query head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kvcert/error.hpp"
#include "kvcert/storage.hpp"
#include "optimized/buffer.hpp"
#include "optimized/isa.hpp"

namespace kvcert::optimized {

namespace kernels {
struct Table;
}

/// invalid_argument unless landmarks ≥ 4, window ≥ 1 and rect is one of the enum's.
Result<void> check_o1_config(const O1Config& config);
/// window + sink + o1_boundary, saturating: up to so many rows a group is exact-only and a layer is not sealed.
std::uint64_t last_exact_rows(const O1Config& config);

/// A copyable value; a copy is its snapshot. HPK = query heads of the group, m_eff landmarks.
class O1Group {
 public:
  O1Group(const O1Group&) = default;
  /// What is moved from is exact-only, without rows.
  O1Group(O1Group&& other) noexcept
      : config_(other.config_),
        head_dim_(other.head_dim_),
        heads_(other.heads_),
        kernels_(other.kernels_),
        scale_(other.scale_),
        state_(std::exchange(other.state_, {})) {}
  O1Group& operator=(O1Group other) noexcept;
  ~O1Group() = default;

  /// The state after t rows: keys, values [t × HD], queries [t][HPK × HD]. Exact-only while t ≤ window + sink + 8: then
  /// every key, later ones too, stays exact. With the kernels of default_isa(), which reads KVCERT_ISA. Errors:
  /// shape_mismatch; invalid_argument (landmarks < 4, window < 1, an unknown rect, HD or HPK 0, a product of sizes over
  /// 2^63 − 1, a bad KVCERT_ISA); non_finite (A, the last pivot, M); out_of_memory.
  static Result<O1Group> prefill(const O1Config& config, std::size_t head_dim, std::size_t heads,
                                 std::span<const float> keys, std::span<const float> values,
                                 std::span<const float> queries);
  /// With these kernels; reads no environment. Errors: as above, and invalid_argument where isa is not available.
  static Result<O1Group> prefill(const O1Config& config, std::size_t head_dim, std::size_t heads,
                                 std::span<const float> keys, std::span<const float> values,
                                 std::span<const float> queries, Isa isa);
  /// One position: q, out [HPK × HD], k, v [HD]. Inserts the row, then every head attends. Inputs may be views of the
  /// group. Errors: shape_mismatch, invalid_argument (out overlaps something), out_of_memory.
  Result<void> step(std::span<const float> q, std::span<const float> k, std::span<const float> v, std::span<float> out);

  bool exact_only() const { return state_.exact_only; }
  std::size_t head_dim() const { return head_dim_; }
  std::size_t heads() const { return heads_; }
  std::uint64_t far_count() const { return state_.far_count; }
  /// Valid until the next step; nullopt if exact-only. Throws std::bad_alloc.
  std::optional<O1GroupView> view() const;
  /// All floats that view() shows.
  std::uint64_t view_floats() const;

  // For a layer that has checked its arguments.

  /// Queries of head h at position i: queries + i · query_stride + h · HD. Errors: non_finite. Throws std::bad_alloc.
  static Result<O1Group> build(const O1Config& config, std::size_t head_dim, std::size_t heads, const float* keys,
                               const float* values, std::size_t rows, const float* queries, std::size_t query_stride,
                               const kernels::Table* kernels);
  /// Memory for one more step: afterwards insert_and_attend cannot fail. Throws std::bad_alloc, having changed nothing.
  void reserve();
  /// step() without checks; q, k, v outside the group.
  void insert_and_attend(const float* q, const float* k, const float* v, float* out);
  bool overlaps(std::span<const std::byte> memory) const;
  /// Whose kernels the next steps run: those of the layer that the state now belongs to.
  void run_on(const kernels::Table* kernels) { kernels_ = kernels; }

 private:
  O1Group(const O1Config& config, std::size_t head_dim, std::size_t heads, const kernels::Table* kernels);
  std::size_t near_rows() const { return state_.exact_rows + state_.ring_length; }
  /// Throws std::bad_alloc, having changed nothing.
  void insert_rows(const float* k, const float* v, std::size_t rows);
  void insert(const float* k, const float* v, float* memory);
  void absorb(const float* k, const float* v, float* memory);
  void attend(std::size_t head, const float* q, float* out, float* memory) const;
  float landmark_weights(std::size_t head, const float* q, float* u, float* exponents, float* memory) const;
  void near_scores(const float* q, float* out) const;
  void add_near_values(const float* weight, float* out) const;
  std::size_t scratch_floats() const;

  /// All that a step changes, and what sealing made.
  struct State {
    bool exact_only = true;
    // Exact-only: all rows, and room for more. Sealed: the first `sink` rows.
    Buffer<float> exact_keys, exact_values;
    std::size_t exact_rows = 0;
    // Sealed.
    Buffer<float> ring_keys, ring_values;  // [window × HD]
    std::size_t ring_length = 0;
    std::size_t ring_head = 0;
    std::size_t landmarks = 0;             // m_eff
    Buffer<float> key_landmarks;           // K̃ [m_eff × HD]
    Buffer<float> query_landmarks;         // Q̃ [HPK][m_eff × HD]
    Buffer<float> mixing;                  // M [HPK][m_eff × m_eff]
    Buffer<float> sums;                    // T [HPK][m_eff × HD]
    Buffer<float> masses;                  // Z [HPK][m_eff]
    Buffer<float> maxima;                  // μ [HPK][m_eff]
    std::uint64_t far_count = 0;
  };

  O1Config config_;
  std::size_t head_dim_;
  std::size_t heads_;
  const kernels::Table* kernels_;
  float scale_;
  State state_;
};

}  // namespace kvcert::optimized
