// The O(1) decode over a group's views.
#include <algorithm>
#include <iterator>

#include "reference/binary32.hpp"
#include "reference/checks.hpp"
#include "reference/decide.hpp"
#include "reference/evaluate.hpp"
#include "reference/o1_decode.hpp"

namespace kvcert::reference {

namespace {

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return Binary32::of(value).is_finite(); });
}

bool fits(const O1GroupView& view) {
  const auto landmark_floats = checked_product({view.m_eff, view.head_dim});
  const auto squares = checked_product({view.m_eff, view.m_eff});
  const auto ring_floats = checked_product({view.ring_length != 0 ? view.window : 0, view.head_dim});
  if (view.head_dim == 0 || !landmark_floats || !squares || !ring_floats) return false;
  const auto head_fits = [&](const O1HeadView& head) {
    return head.T.size() == *landmark_floats && head.Z.size() == view.m_eff && head.mu.size() == view.m_eff &&
           head.M.size() == *squares;
  };
  return view.sink_keys.size() % view.head_dim == 0 && view.sink_values.size() == view.sink_keys.size() &&
         view.ring_length <= view.window && view.ring_head <= view.window && view.ring_keys.size() >= *ring_floats &&
         view.ring_values.size() == view.ring_keys.size() && view.K_tilde.size() == *landmark_floats &&
         view.sink_keys.size() / view.head_dim + view.ring_length != 0 &&
         (view.far_count == 0 || std::ranges::all_of(view.heads, head_fits));
}

std::size_t heads(std::span<const float> q, const O1GroupView& view) {
  return std::min(q.size() / view.head_dim, view.heads.size());
}

bool in_exact_domain(std::span<const float> q, const O1GroupView& view, const O1HeadView& head) {
  const NearRows near = near_rows(view);
  return all_finite(q) && all_finite(std::span(&view.scale, 1)) && std::ranges::all_of(near.keys, all_finite) &&
         std::ranges::all_of(near.values, all_finite) &&
         (view.far_count == 0 || (all_finite(view.K_tilde) && all_finite(head.T) && all_finite(head.Z) &&
                                  all_finite(head.mu) && all_finite(head.M)));
}

}  // namespace

OutputAnswer canonical_o1_decode(std::span<const float> q, const O1GroupView& after) {
  OutputAnswer answer;
  if (!fits(after)) return answer;
  const Binary32Section section;
  for (std::size_t h = 0; h < heads(q, after); ++h) {
    const auto output = o1_decode<Binary32>(q.subspan(h * after.head_dim, after.head_dim), after, after.heads[h]);
    std::ranges::transform(*output, std::back_inserter(answer.output), &Binary32::carrier);
  }
  return answer;
}

std::optional<OutputAnswer> exact_o1_decode(std::span<const float> q, const O1GroupView& after) {
  OutputAnswer answer;
  if (!fits(after)) return answer;
  const ExponentRange range = ExponentRange::widest();
  for (std::size_t h = 0; h < heads(q, after); ++h) {
    const auto query = q.subspan(h * after.head_dim, after.head_dim);
    if (!in_exact_domain(query, after, after.heads[h])) return std::nullopt;
    const auto entries =
        decide_all([&]<class Real>() { return o1_decode<Real>(query, after, after.heads[h]); }, answer.ties);
    if (!entries) return std::nullopt;
    std::ranges::copy(*entries, std::back_inserter(answer.output));
  }
  return answer;
}

O1GroupView exact_only_view(std::span<const float> keys, std::span<const float> values, std::size_t head_dim,
                            std::size_t heads) {
  O1GroupView view;
  view.sink_keys = keys;
  view.sink_values = values;
  view.heads.resize(heads);
  view.head_dim = head_dim;
  view.scale = canonical_default_scale(head_dim);
  return view;
}

}  // namespace kvcert::reference
