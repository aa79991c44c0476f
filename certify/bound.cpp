#include "certify/bound.hpp"

#include <cmath>
#include <limits>

#include "certify/bound_head.hpp"
#include "certify/bound_number.hpp"

namespace kvcert::certify {
namespace {

/// Why the case has no bound, as far as its inputs say.
std::string input_not_covered(const HeadInput& in, bool sink) {
  if (in.keys.empty()) return "no visible row";
  if (!finite(in.q) || !finite(in.keys) || !finite(in.values)) return "an input is not finite";
  if (!std::isfinite(in.scale) || !std::isfinite(in.softcap)) return "scale or softcap is not finite";
  if (in.softcap < 0) return "the softcap is negative";
  if (sink && !std::isfinite(*in.sink)) return "the sink is not finite";
  if (!finite(in.key_error) || !finite(in.value_error)) return "what storage may have changed is not finite";
  return {};
}

void take_case(Formula& f, const HeadInput& in) {
  f.head_dim = in.q.size();
  f.n = in.keys.size() / in.q.size();
  f.scale = in.scale;
  for (std::size_t p = 0; p < f.n; ++p) {
    Interval z = 0, A = 0;
    for (std::size_t j = 0; j < f.head_dim; ++j) {
      // Products of two binary32 are exact in binary64, but for those below 2^-1022; the smallest is 2^-298.
      const double product = static_cast<double>(in.q[j]) * static_cast<double>(in.keys[p * f.head_dim + j]);
      z += product;
      A += std::fabs(product);
    }
    f.z.push_back(z);
    f.A.push_back(A);
  }
}

/// Σ_j of what the absolute errors of storage add to a dot's magnitude. The theorems know relative ones only; where these
/// are 0, what is evaluated is the theorems' formula.
Interval absolute_in_dot(const HeadInput& in, const EngineParameters& e, std::size_t row) {
  Interval added = 0;
  const std::size_t dim = in.q.size();
  for (std::size_t j = 0; j < dim; ++j) {
    const Interval q = abs(Interval(in.q[j]));
    if (!in.key_error.empty())
      added += (q * (1 + Interval(e.u_q)) + Interval(e.query_error)) * abs(Interval(in.key_error[row * dim + j]));
    if (e.query_error != 0) added += Interval(e.query_error) * abs(Interval(in.keys[row * dim + j])) * (1 + Interval(e.u_k));
  }
  return added;
}

/// How far a stored value may lie from the row's, beside the relative u_v: relative to what is stored, as u_v is.
Interval absolute_in_value(const HeadInput& in, const EngineParameters& e, std::size_t at) {
  return in.value_error.empty() ? Interval(0) : abs(Interval(in.value_error[at])) / (1 - Interval(e.u_v));
}

}  // namespace

EngineParameters canonical_parameters(std::size_t head_dim, std::size_t visible_rows) {
  EngineParameters e;
  e.h_q = (head_dim + 15) / 16 + 4;
  e.h_v = visible_rows == 0 ? 0 : visible_rows - 1;
  e.h_s = (visible_rows + 15) / 16 + 4;
  return e;
}

HeadBound evaluate_bound(const HeadInput& in, const EngineParameters& e, std::span<const float> output) {
  const auto not_covered = [](std::string why) { return HeadBound{std::move(why), {}, {}, {}, {}}; };
  const bool sink = in.sink && *in.sink != -std::numeric_limits<float>::infinity();
  if (std::string why = input_not_covered(in, sink); !why.empty()) return not_covered(std::move(why));

  Formula f;
  take_engine(f, e);
  take_case(f, in);
  const auto stored = rows<Interval>(f.n, [&](std::size_t p) { return absolute_in_dot(in, e, p); });
  const Interval worst_product = greatest<Interval>(f.n, [&](std::size_t p) { return f.A[p] + stored[p]; });
  const Interval reach = worst_product * maximum(Interval(1), abs(f.scale)) * power(1 + f.u, f.head_dim + f.r);
  if (!certainly_less(reach, Interval(e.overflow))) return not_covered("a score may overflow");
  if (std::string why = settle_scores(f, stored, {}, in.softcap, sink ? in.sink : std::nullopt); !why.empty()) {
    return not_covered(std::move(why));
  }
  HeadBound result;
  for (std::size_t d = 0; d < f.head_dim; ++d) {
    const Dimension dimension{.value = [&](std::size_t p) { return Interval(in.values[p * f.head_dim + d]); },
                              .added = [&](std::size_t p) { return absolute_in_value(in, e, p * f.head_dim + d); }};
    const auto answer = output.empty() ? std::nullopt : std::optional(output[d]);
    if (std::string why = bound_dimension(f, dimension, e.overflow, result, answer); !why.empty()) return not_covered(std::move(why));
  }
  return result;
}

}  // namespace kvcert::certify
