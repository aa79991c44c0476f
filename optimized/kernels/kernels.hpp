// The contract of every kernel. An ISA fills one Table: its f32 kernels, and behind it one table for each further kind of
// work, from a translation unit of its own. What else computes on floats (the column field, sealing an O(1) state) is
// portable code in the same order of operations, without ISA flags.
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

/// Channels that share a scale in int8 keys; the last group of a row may be shorter.
static constexpr std::size_t int8_group = 32;

/// int8 rows. Their arrays may have any alignment.
struct Int8Kernels {
  /// out[h · stride + r] = acc · scale with acc = fma(dot(q_h's group g, k_r's group g), scales[r · groups + g], acc),
  /// groups ascending from +0; dot as in Table::scores, of q and the integers as floats. q [heads × head_dim] has its
  /// columns multiplied in, k [rows × head_dim], scales [rows × groups], groups = ⌈head_dim / 32⌉; heads, rows and
  /// head_dim ≥ 1, stride ≥ rows. Any bits, but k from −127 … 127. A NaN need not be canonical. Elements r ≥ rows of out
  /// are left alone.
  void (*scores)(const float* q, std::size_t heads, const std::int8_t* k, std::size_t rows, std::size_t head_dim,
                 const float* scales, float scale, float* out, std::size_t stride);

  /// As Table::weighted_sum, v being integers as floats. p has the rows' scales multiplied in.
  void (*weighted_sum)(const float* p, std::size_t heads, std::size_t stride, const std::int8_t* v, std::size_t rows,
                       std::size_t head_dim, float* out);

  /// Whether x [n], any bits, and x / columns are finite throughout. columns: [n] or nullptr.
  bool (*quantizable)(const float* x, const float* columns, std::size_t n);

  /// r = x / columns (x where columns is nullptr); for each `group` ≥ 1 channels, the last ones maybe fewer,
  /// s = max(absmax(r) / 127, 1e-12), q = r / s rounded half away from zero, clamped to ±127. x [n] quantizable, n ≥ 1,
  /// q [n], scales [⌈n / group⌉].
  void (*quantize_row)(const float* x, const float* columns, std::size_t n, std::size_t group, std::int8_t* q,
                       float* scales);

  std::uint64_t (*calls)();
};

/// binary16 arrays of records, little-endian, at any address. docs/wire.md says what becomes of a NaN.
struct Binary16Kernels {
  /// out[i] = in[i] to nearest even. True if some finite in[i] has become infinite. in [n] any bits, out [2 · n bytes].
  bool (*narrow)(const float* in, unsigned char* out, std::size_t n);
  /// out[i] = in[i], exactly, a NaN's payload and signalling bit included. in [2 · n bytes] any bits, out [n].
  void (*widen)(const unsigned char* in, float* out, std::size_t n);

  std::uint64_t (*calls)();
};

/// A row of cosines and one of sines for each row of keys, [rows × half]: pairs (i, i + half) are turned, i < half.
struct Rotation {
  const float* cos;
  const float* sin;
  std::size_t half;
};

/// The ring of a bounded layer, and the O(1) state.
struct StateKernels {
  /// As Table::scores with row r of keys at k + r · step, and q_h turned for it: with c, s of the rotation's row r,
  /// (x0, x1) = (q_i, q_{i + half}) becomes (x0·c − x1·s, x0·s + x1·c), each product and sum rounded; what lies past
  /// 2 · half ≤ head_dim stays. half ≥ 1. Any bits. A NaN need not be canonical.
  void (*rotated_scores)(const float* q, std::size_t heads, const float* k, std::ptrdiff_t step, std::size_t rows,
                         std::size_t head_dim, Rotation rotation, float scale, float* out, std::size_t stride);

  /// As Table::weighted_sum with row r of values at v + r · step.
  void (*stepped_sum)(const float* p, std::size_t heads, std::size_t stride, const float* v, std::ptrdiff_t step,
                      std::size_t rows, std::size_t head_dim, float* out);

  /// sum[d] = fma(w[r], row[r · n + d], sum[d]), r ascending, a w of 0 like any other. w [rows], row [rows × n], sum
  /// [n] in and out. Any bits. A NaN need not be canonical.
  void (*fma_rows)(const float* w, const float* row, std::size_t rows, std::size_t n, float* sum);

  std::uint64_t (*calls)();
};

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

  /// Calls of this table's own kernels so far (relaxed; this one is not counted). So in the tables below.
  std::uint64_t (*calls)();

  const Int8Kernels* int8;
  const Binary16Kernels* binary16;
  const StateKernels* state;
};

/// Defined by the ISA's translation unit, present where the build has that unit.
extern const Table scalar_table;
extern const Int8Kernels scalar_int8;
extern const Binary16Kernels scalar_binary16;
extern const StateKernels scalar_state;

extern const Table avx2_table;  ///< with scalar_binary16: dispatch puts f16c_binary16 there where the CPU has F16C
extern const Int8Kernels avx2_int8;
extern const StateKernels avx2_state;
extern const Table avx512_table;
extern const Int8Kernels avx512_int8;
extern const Binary16Kernels avx512_binary16;  ///< whose conversions belong to AVX-512F
extern const StateKernels avx512_state;
extern const Binary16Kernels f16c_binary16;  ///< needs AVX and F16C

extern const Table neon_table;
extern const Int8Kernels neon_int8;
extern const Binary16Kernels neon_binary16;
extern const StateKernels neon_state;

}  // namespace kvcert::optimized::kernels
