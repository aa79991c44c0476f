// The contract of every kernel. One translation unit per ISA fills one Table. What else computes on floats (int8 storage, the
// ring's rotation, the O(1) state) is portable code in the same order of operations, without ISA flags.
//
// The order of operations is the canonical one of docs/arithmetic.md and a kernel must not leave it: no reassociation,
// no contraction but the fma written here, no reciprocal estimates. So all ISAs give the same bits, except for the sign
// and payload of a NaN where it is said that a NaN need not be canonical. fma(a, b, c) is rounded once, to nearest
// even.
//
// Every kernel may assume:
//   * the default floating-point environment (to nearest, no flush to zero, exceptions masked): FloatEnvironment sets
//     it;
//   * pointers aligned to 4 bytes and to nothing more; sizes as stated, zero included unless it says ≥ 1;
//   * that arrays do not overlap unless it says that they may.
// Every kernel must:
//   * read only the elements named here (never past the end of a row, not even to discard), write only those named
//     here;
//   * allocate nothing, throw nothing, be safe on several threads, and count itself once per call.
//
// Checked by tests/kernels_test.cpp (each against a plain restatement of the formula, with canaries, every width around
// the vector's, special values) and, for exp and tanh, by proofs/exhaustive on all 2^32 inputs.
//
// An ISA's translation unit is compiled with that ISA's flags, so code that the linker may share with others must not
// come from it: no inline functions or templates from headers (std included), only its own with internal linkage. That
// is why this header declares plain functions on plain pointers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvcert::optimized::kernels {

/// The NaN that is delivered where an operation's result is NaN.
static constexpr std::uint32_t canonical_nan = 0x7FC00000;

/// Lanes of the dot product and of the denominator.
static constexpr std::size_t lanes = 16;

struct Table {
  /// out[h · stride + r] = dot(q_h, k_r) · scale.
  /// q [heads × head_dim], k [rows × head_dim], heads, rows and head_dim ≥ 1, stride ≥ rows. Any bits.
  /// dot: 16 lanes, all +0; lane j mod 16 takes fma(q_j, k_j, lane), j ascending; a lane without elements stays +0;
  /// then lane i += lane i+8 (i < 8), i+4, i+2, i+1. A NaN need not be canonical.
  /// Reads each row of k once for all heads as far as caches see it. Elements r ≥ rows of out are left alone.
  void (*scores)(const float* q, std::size_t heads, const float* k, std::size_t rows, std::size_t head_dim, float scale,
                 float* out, std::size_t stride);

  /// row[i] = cap · tanh(row[i] / cap), each operation correctly rounded. row [n], any bits; cap finite, > 0 (subnormal
  /// included). A NaN need not be canonical.
  void (*softcap_row)(float* row, std::size_t n, float cap);

  /// Each row h = p + h · stride, [n], becomes softmax(row h), in place. heads and n ≥ 1, stride ≥ n, any bits; element i
  /// belongs to the lane (first_lane + i) mod 16, and first_lane < 16 (the absolute index of the first visible row, mod
  /// 16). sinks: nullptr, or [heads] logits of any bits.
  ///   m = maximum of row and sink from −∞, NaN ignored       (the sign of a zero m reaches no result)
  ///   e_i = exp(row[i] − m), correctly rounded
  ///   denominator: 16 lanes, all +0, each += its e_i, i ascending; fold as in scores; then + exp(sink − m)
  ///   row[i] = e_i / denominator, correctly rounded; a NaN is canonical.
  /// No memory is read meanwhile, so a kernel may ask the caches for [ahead, ahead + ahead_bytes), which will be: a hint
  /// that reads nothing and changes no result.
  void (*softmax_rows)(float* p, std::size_t heads, std::size_t stride, std::size_t n, std::size_t first_lane,
                       const float* sinks, const void* ahead, std::size_t ahead_bytes);

  /// out[h · head_dim + d] = fma(p[h · stride + r], v[r · head_dim + d], itself), r ascending, for every r whose
  /// p[h · stride + r] is not ±0; such a row changes no bit of head h. p [heads × stride], v [rows × head_dim], out
  /// [heads × head_dim] in and out, heads, rows and head_dim ≥ 1, stride ≥ rows. Any bits. A NaN need not be canonical.
  void (*weighted_sum)(const float* p, std::size_t heads, std::size_t stride, const float* v, std::size_t rows,
                       std::size_t head_dim, float* out);

  /// acc[i] += row[i], a NaN sum is canonical. Both [n], any bits. row may overlap acc if it begins at or after it:
  /// each sum is of the values before the call.
  void (*add_row)(float* acc, const float* row, std::size_t n);

  /// Every NaN of row [n] becomes canonical_nan, all else stays.
  void (*canonicalize_row)(float* row, std::size_t n);

  /// out[i] = exp(in[i]) and tanh(in[i]), correctly rounded to binary32, to nearest even, over the whole domain:
  /// subnormal results, overflow to +∞, ±∞; a NaN is canonical. Both [n]; in may be out.
  void (*exp_row)(const float* in, float* out, std::size_t n);
  void (*tanh_row)(const float* in, float* out, std::size_t n);

  /// Calls of this table's kernels so far (relaxed; this one is not counted).
  std::uint64_t (*calls)();
};

/// Defined by the ISA's translation unit, present where the build has that unit.
extern const Table scalar_table;
extern const Table avx2_table;
extern const Table avx512_table;

}  // namespace kvcert::optimized::kernels
