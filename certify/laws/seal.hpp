// Law 12, the seal: M solves (AᵀA + λI)·M = Aᵀ as well as rounding allows, judged by its residual in enclosures.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "certify/laws/overlay.hpp"
#include "reference/evaluate.hpp"

namespace kvcert::certify::laws {

/// What the residual checks saw.
struct SealTally {
  std::uint64_t judged = 0, not_judged = 0;
  double worst_over_bound = 0;
};

/// Keys and queries of a sealed layer's group and head, as they were given: [t × HD] each.
struct SealInput {
  std::vector<float> keys, queries;
};

/// Rows that make G well conditioned, singular (all rows equal), ill conditioned (far apart) or nearly of rank 1 (all close).
inline void shape_rows(OverlayCase& overlay, std::uint64_t salt) {
  for (std::size_t i = 0; i < overlay.k.size(); ++i) {
    switch (salt % 4) {
      case 1: overlay.k[i] = overlay.k[0], overlay.q[i] = overlay.q[0]; break;
      case 2:
        for (auto* row : {&overlay.k[i], &overlay.q[i]}) {
          for (float& x : *row) x *= 4.0F;
        }
        break;
      case 3:
        for (auto* row : {&overlay.k[i], &overlay.q[i]}) {
          for (float& x : *row) x = 0.5F + x * 0x1p-12F;
        }
        break;
      default: break;
    }
  }
}

template <class Cache>
void fill_and_seal(Cache& layer, const OverlayCase& overlay) {
  must(layer.o1_begin(overlay.config), "o1_begin");
  for (std::size_t i = 0; i < overlay.prefill; ++i) {
    must(layer.append(overlay.k[i], overlay.v[i], {}), "append");
    must(layer.o1_push_q(overlay.q[i]), "o1_push_q");
  }
  must(layer.o1_seal(overlay.query_heads), "o1_seal");
}

inline SealInput seal_input(const OverlayCase& overlay, Geometry geometry, std::size_t group, std::size_t head) {
  const auto [kv_heads, dim] = geometry;
  const std::size_t fan_out = overlay.query_heads / kv_heads;
  SealInput in;
  for (std::size_t i = 0; i < overlay.prefill; ++i) {
    const auto add = [&](std::vector<float>& to, const std::vector<float>& row, std::size_t index) {
      const auto from = row.begin() + static_cast<std::ptrdiff_t>(index * dim);
      to.insert(to.end(), from, from + static_cast<std::ptrdiff_t>(dim));
    };
    add(in.keys, overlay.k[i], group);
    add(in.queries, overlay.q[i], group * fan_out + head);
  }
  return in;
}

/// The stored M with one entry wrong by `parts` times the rounding of its column's largest, in the row where G is heaviest:
/// that moves the residual there by more than `parts` / m of what rounding M explains.
inline std::vector<float> with_wrong_entry(const O1GroupView& view, std::size_t head, double parts) {
  const std::size_t m = view.m_eff, dim = view.head_dim;
  std::vector<float> M(view.heads[head].M.begin(), view.heads[head].M.end());
  std::size_t heaviest = 0;
  double most = -1;
  for (std::size_t a = 0; a < m; ++a) {
    double diagonal = 0;
    for (std::size_t b = 0; b < m; ++b) {
      double score = 0;
      for (std::size_t d = 0; d < dim; ++d) score += double{view.heads[head].Q_tilde[b * dim + d]} * double{view.K_tilde[a * dim + d]};
      diagonal += std::exp(2 * score * double{view.scale});
    }
    if (diagonal > most) most = diagonal, heaviest = a;
  }
  float largest = 0;
  for (std::size_t a = 0; a < m; ++a) largest = std::max(largest, std::fabs(M[a * m]));
  float& entry = M[heaviest * m];
  entry = static_cast<float>(double{entry} + parts * 0x1p-24 * double{largest});
  return M;
}

/// Law 12, seal: every head's stored M has a residual within its bound, and the same M with one entry wrong by a few roundings
/// per landmark has not.
template <class Engine>
Outcome seal_residual(const Engine& engine, const TestCase& test, SealTally& tally) {
  OverlayCase overlay(test);
  shape_rows(overlay, test.salt / 16);
  auto layer = must(engine.make(test.geometry), "create");
  fill_and_seal(layer, overlay);
  const auto views = layer.o1_views();
  if (!views) return violated("a sealed layer shows no views");
  const auto judged = tally.judged;
  for (std::size_t group = 0; group < views->size(); ++group) {
    const O1GroupView& view = (*views)[group];
    const std::size_t head = test.salt % view.heads.size();
    const SealInput in = seal_input(overlay, test.geometry, group, head);
    const auto residual = reference::seal_residual(in.keys, in.queries, view, head);
    if (!residual) {
      ++tally.not_judged;
      continue;
    }
    if (!residual->within) {
      return violated(fmt::format("group {}, head {}: the residual of M is {:.3g}, and rounding explains {:.3g}", group, head, residual->residual, residual->bound));
    }
    ++tally.judged;
    tally.worst_over_bound = std::max(tally.worst_over_bound, residual->residual / residual->bound);
    O1GroupView wrong = view;
    const auto planted = with_wrong_entry(view, head, 4.0 * static_cast<double>(view.m_eff) + 4);
    wrong.heads[head].M = planted;
    const auto caught = reference::seal_residual(in.keys, in.queries, wrong, head);
    if (!caught || caught->within) {
      return violated(fmt::format("group {}, head {}: an M with a wrong entry passes; its residual is {:.3g} of {:.3g}", group, head,
                                  caught ? caught->residual : 0.0, caught ? caught->bound : 0.0));
    }
  }
  return tally.judged == judged ? not_exercised() : holds();
}

}  // namespace kvcert::certify::laws
