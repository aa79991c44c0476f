// The accuracy bound of docs/arithmetic.md, evaluated for one query head.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvcert::certify {

/// What an engine's arithmetic is made of. Names, units and meaning are those of docs/arithmetic.md; sizes are in powers
/// of two or counts of roundings, so every member is exact.
struct EngineParameters {
  double u = 0x1p-24;           ///< unit roundoff
  double lambda = 0x1p-150;     ///< absolute underflow unit; 2^-126 for an engine that flushes
  double lambda_add = 0;        ///< of additions: 0, or 2^-126 for an engine that flushes
  double epsilon = 0x1p-24;     ///< |êxp(x) − eˣ| ≤ ε·eˣ + ω for x ≤ 0
  double omega = 0x1p-150;
  double tau = 0x1p-24;         ///< tanh: relative part
  double omega_tanh = 0x1p-150; ///< tanh: absolute part
  double u_q = 0, u_k = 0, u_v = 0;  ///< storing q, k, v: relative
  double query_error = 0;       ///< storing q: absolute, below the normal numbers
  double u_P = 0, lambda_P = 0; ///< casting P: relative, absolute
  std::size_t h_q = 0;          ///< most roundings a product takes in a dot
  std::size_t r = 1;            ///< roundings of the score scaling
  std::size_t r_sigma = 0;      ///< roundings of the sink's scaling
  std::size_t g_c = 1;          ///< 1 for ÷ softcap, 2 for × 1/softcap
  std::size_t rescalings = 0;   ///< L: most rescalings of an accumulator
  std::size_t h_v = 0;          ///< most additions a term takes in the weighted sum
  std::size_t h_s = 0;          ///< most additions a term takes in the denominator
  std::size_t g = 1;            ///< 1 for ÷ denominator, 2 for × 1/denominator
  double overflow = 0x1p127;    ///< no intermediate may reach this
};

/// The parameters of the canonical order, for n visible rows.
EngineParameters canonical_parameters(std::size_t head_dim, std::size_t visible_rows);

/// One query head over its visible rows. All numbers are taken as given.
struct HeadInput {
  std::span<const float> q;  ///< [HD]
  std::span<const float> keys, values;  ///< [n × HD], visible rows only
  /// Empty, or [n × HD]: how far a stored number may lie from that row's, beside the relative u_k and u_v.
  std::span<const float> key_error{}, value_error{};
  float scale = 1, softcap = 0;
  std::optional<float> sink;  ///< −∞ counts as absent
};

struct HeadBound {
  /// Empty: the hypotheses hold and the bound applies. Else the hypothesis that fails: the case is not judged.
  std::string not_covered;
  std::vector<double> bound;     ///< [HD], |ô_d − o_d| may not exceed this; rounded up
  std::vector<double> unit;      ///< [HD], u · Σ_p w_p |v_pd|, the yardstick errors are also reported in; rounded to nearest
  std::vector<double> exact;     ///< [HD], the real output, to nearest
  std::vector<double> error;     ///< [HD], |output_d − exact output|, rounded up; empty if no output was given
};

/// Evaluates the bound, and the error of `output` [HD] where one is given. Everything is an enclosure of 200 bits; the formula
/// itself is bound_formula.hpp, printed from its proof.
HeadBound evaluate_bound(const HeadInput& input, const EngineParameters& engine, std::span<const float> output = {});

}  // namespace kvcert::certify
