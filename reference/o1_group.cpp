#include "reference/o1_group.hpp"

#include <algorithm>
#include <iterator>

#include "reference/binary32.hpp"
#include "reference/binary64.hpp"
#include "reference/checks.hpp"
#include "reference/evaluate.hpp"
#include "reference/o1_decode.hpp"
#include "reference/o1_seal.hpp"

namespace kvcert::reference {

namespace {

/// Rounded to binary32, for storage.
std::vector<float> stored(const std::vector<Binary64>& numbers) {
  std::vector<float> result;
  for (const Binary64 number : numbers) result.push_back(number.rounded().carrier());
  return result;
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return Binary32::of(value).is_finite(); });
}

}  // namespace

O1Group& O1Group::operator=(const O1Group& other) {
  State copy = other.state_;  // all that can fail
  std::swap(state_, copy);
  return *this;
}

Result<O1Group> O1Group::prefill(const O1Config& config, std::size_t head_dim, std::size_t query_heads,
                                 std::span<const float> keys, std::span<const float> values,
                                 std::span<const float> queries) {
  return or_out_of_memory([&]() -> Result<O1Group> {
    // Lengths, as far as they can be compared: k and v are of one length, whole rows, and queries of as many positions.
    if (auto fits = check_length("values", values.size(), keys.size(), "the length of keys"); !fits) return handed_on(fits);
    const std::size_t t = head_dim == 0 ? 0 : keys.size() / head_dim;
    if (head_dim != 0 && keys.size() % head_dim != 0) {
      return refuse(ErrorCode::shape_mismatch, head_dim, keys.size(),
                    sentence("keys has ", keys.size(), " floats, which is no multiple of head_dim ", head_dim));
    }
    const auto query_floats = checked_product({t, query_heads, head_dim});
    if (head_dim != 0 && query_heads != 0 && query_floats) {
      auto fits = check_length("queries", queries.size(), *query_floats, "positions x query_heads x head_dim");
      if (!fits) return handed_on(fits);
    }
    if (head_dim == 0 || query_heads == 0 || !query_floats || !checked_product({query_heads, head_dim})) {
      return refuse(ErrorCode::invalid_argument, 1, 0,
                    sentence("head_dim is ", head_dim, " and query_heads ", query_heads,
                             ", but both are at least 1 and their product at most 2^63 - 1"));
    }
    if (auto accepted = check_o1_config(config); !accepted) return handed_on(accepted);

    State state;
    state.config = config;
    state.head_dim = head_dim;
    state.scale = canonical_default_scale(head_dim);
    state.heads.resize(query_heads);
    state.exact_only = o1_stays_exact(config, t);
    if (state.exact_only) {
      state.sink_keys.assign(keys.begin(), keys.end());
      state.sink_values.assign(values.begin(), values.end());
      return O1Group(std::move(state));
    }
    if (auto sealed = seal(state, keys, queries); !sealed) return handed_on(sealed);
    const std::size_t sink_floats = config.sink * head_dim;
    std::ranges::copy(keys.first(sink_floats), std::back_inserter(state.sink_keys));
    std::ranges::copy(values.first(sink_floats), std::back_inserter(state.sink_values));
    for (std::size_t row = config.sink; row < t; ++row) {
      insert(state, keys.subspan(row * head_dim, head_dim), values.subspan(row * head_dim, head_dim));
    }
    return O1Group(std::move(state));
  });
}

/// Landmarks and M, and room for everything else. keys [t × HD], queries [t][HPK × HD].
Result<void> O1Group::seal(State& state, std::span<const float> keys, std::span<const float> queries) {
  const std::size_t head_dim = state.head_dim;
  const std::size_t t = keys.size() / head_dim;
  const std::size_t m = state.m_eff = landmarks_for(t, state.config.landmarks);
  const std::vector<Binary64> K = segment_means<Binary64>({keys, head_dim, head_dim}, t, m);
  state.K_tilde = stored(K);
  for (std::size_t h = 0; h < state.heads.size(); ++h) {
    Head& head = state.heads[h];
    const StridedRows rows{queries.subspan(h * head_dim), state.heads.size() * head_dim, head_dim};
    const std::vector<Binary64> Q = segment_means<Binary64>(rows, t, m);
    const std::vector<Binary64> A = landmark_kernel(Q, K, m, state.scale);
    const auto refused = [&](const char* what) {
      return refuse(ErrorCode::non_finite, 0, 0, sentence(what, " of query head ", h, " is not finite"));
    };
    if (!std::ranges::all_of(A, &Binary64::is_finite)) return refused("the landmark kernel A");
    const auto M = regularized_inverse(A, m);
    if (!M) return refused("the inverse of the last pivot");
    head.M = stored(*M);
    if (!all_finite(head.M)) return refused("M");
    head.Q_tilde = stored(Q);
    head.T.assign(m * head_dim, 0.0F);
    head.Z.assign(m, 0.0F);
    head.mu.assign(m, Binary32::minus_infinity().carrier());
  }
  state.ring_keys.assign(state.config.window * head_dim, 0.0F);
  state.ring_values.assign(state.config.window * head_dim, 0.0F);
  return {};
}

/// k, v [HD] become the newest row. A row that has to leave the ring for it is absorbed first.
void O1Group::insert(State& state, std::span<const float> k, std::span<const float> v) {
  if (state.exact_only) {
    std::ranges::copy(k, std::back_inserter(state.sink_keys));
    std::ranges::copy(v, std::back_inserter(state.sink_values));
    return;
  }
  const std::size_t head_dim = state.head_dim;
  const std::size_t slot = state.ring_head * head_dim;
  if (state.ring_length == state.config.window) {
    absorb(state, std::span(state.ring_keys).subspan(slot, head_dim), std::span(state.ring_values).subspan(slot, head_dim));
  } else {
    ++state.ring_length;
  }
  std::ranges::copy(k, state.ring_keys.begin() + static_cast<std::ptrdiff_t>(slot));
  std::ranges::copy(v, state.ring_values.begin() + static_cast<std::ptrdiff_t>(slot));
  state.ring_head = (state.ring_head + 1) % state.config.window;
}

/// Every head's far field takes the row in, once.
void O1Group::absorb(State& state, std::span<const float> k, std::span<const float> v) {
  const Binary32Section section;
  const std::size_t head_dim = state.head_dim;
  const Binary32 scale = Binary32::of(state.scale);
  for (Head& head : state.heads) {
    for (std::size_t b = 0; b < state.m_eff; ++b) {
      const auto landmark_query = loaded<Binary32>(std::span(head.Q_tilde).subspan(b * head_dim, head_dim));
      const std::span<float> T = std::span(head.T).subspan(b * head_dim, head_dim);
      Landmark<Binary32> landmark{Binary32::of(head.mu[b]), Binary32::of(head.Z[b]), loaded<Binary32>(T)};
      landmark.absorb(dot<Binary32>(landmark_query, k) * scale, v);
      head.mu[b] = landmark.mu.carrier();
      head.Z[b] = landmark.Z.carrier();
      std::ranges::transform(landmark.T, T.begin(), &Binary32::carrier);
    }
  }
  ++state.far_count;
}

Result<void> O1Group::step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                           std::span<float> out) {
  return or_out_of_memory([&]() -> Result<void> {
    const std::size_t floats = query_heads() * state_.head_dim;
    if (auto fits = check_length("q", q.size(), floats, "query_heads x head_dim"); !fits) return fits;
    if (auto fits = check_length("k", k.size(), state_.head_dim, "head_dim"); !fits) return fits;
    if (auto fits = check_length("v", v.size(), state_.head_dim, "head_dim"); !fits) return fits;
    if (auto fits = check_length("out", out.size(), floats, "query_heads x head_dim"); !fits) return fits;
    const std::span<const float> output = out;
    for (const std::span<const float> input : {q, k, v}) {
      if (overlap(output, input)) return refuse_overlap("out", "an input");
    }
    if (overlaps(output)) return refuse_overlap("out", "the group");

    // Beside the old state, which inputs may be views of, and which stays if memory runs out.
    State next = state_;
    insert(next, k, v);
    const OutputAnswer answer = canonical_o1_decode(q, view_of(next));
    std::ranges::copy(answer.output, out.begin());
    std::swap(state_, next);
    return {};
  });
}

std::optional<O1GroupView> O1Group::view() const {
  if (state_.exact_only) return std::nullopt;
  return view_of(state_);
}

O1GroupView O1Group::view_of(const State& state) {
  O1GroupView view;
  view.sink_keys = state.sink_keys;
  view.sink_values = state.sink_values;
  view.ring_keys = state.ring_keys;
  view.ring_values = state.ring_values;
  view.ring_length = state.ring_length;
  view.ring_head = state.ring_head;
  view.K_tilde = state.K_tilde;
  for (const Head& head : state.heads) view.heads.push_back({head.T, head.Z, head.mu, head.Q_tilde, head.M});
  view.m_eff = state.m_eff;
  view.window = state.config.window;
  view.sink = state.config.sink;
  view.head_dim = state.head_dim;
  view.scale = state.scale;
  view.far_count = state.far_count;
  view.rect = state.config.rect;
  return view;
}

std::uint64_t O1Group::floats() const {
  const State& s = state_;
  std::uint64_t sum = s.sink_keys.size() + s.sink_values.size() + s.ring_keys.size() + s.ring_values.size() +
                      s.K_tilde.size();
  for (const Head& h : s.heads) sum += h.T.size() + h.Z.size() + h.mu.size() + h.Q_tilde.size() + h.M.size();
  return sum;
}

bool O1Group::overlaps(std::span<const float> output) const {
  const auto meets = [&](const std::vector<float>& storage) { return overlap(output, std::span(storage)); };
  const State& s = state_;
  return meets(s.sink_keys) || meets(s.sink_values) || meets(s.ring_keys) || meets(s.ring_values) || meets(s.K_tilde) ||
         std::ranges::any_of(s.heads, [&](const Head& h) {
           return meets(h.T) || meets(h.Z) || meets(h.mu) || meets(h.Q_tilde) || meets(h.M);
         });
}

}  // namespace kvcert::reference
