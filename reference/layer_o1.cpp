// The O(1) overlay of a layer: collecting a prefill's queries beside exact rows, sealing, and steps after that.
#include <algorithm>
#include <iterator>
#include <utility>

#include "reference/checks.hpp"
#include "reference/layer_kv_cache.hpp"
#include "reference/o1_seal.hpp"

namespace kvcert::reference {

Result<void> LayerKvCache::o1_begin(const O1Config& config) {
  return or_out_of_memory([&]() -> Result<void> {
    if (auto unused = check_unused("o1_begin", true); !unused) return unused;
    if (auto accepted = check_o1_config(config); !accepted) return accepted;
    state_.o1.phase = O1Overlay::Phase::collecting;
    state_.o1.config = config;
    return {};
  });
}

std::size_t LayerKvCache::o1_trace_positions() const {
  return state_.o1.trace.empty() ? 0 : state_.o1.trace.size() / (state_.o1.query_heads * geometry_.head_dim);
}

Result<void> LayerKvCache::o1_push_q(std::span<const float> q_all) {
  return or_out_of_memory([&]() -> Result<void> {
    if (state() != LayerState::collecting) return {};
    O1Overlay& o1 = state_.o1;
    const std::size_t row = geometry_.num_kv_heads * geometry_.head_dim;
    if (q_all.empty() || q_all.size() % row != 0) {
      return refuse(ErrorCode::shape_mismatch, row, q_all.size(),
                    sentence("q_all has ", q_all.size(), " floats, which is no positive multiple of ", row));
    }
    if (o1.query_heads != 0) {
      auto fits = check_length("q_all", q_all.size(), o1.query_heads * geometry_.head_dim, "that of the first push");
      if (!fits) return fits;
    }
    const std::vector<float> copy(q_all.begin(), q_all.end());
    o1.trace.insert(o1.trace.end(), copy.begin(), copy.end());  // at the end: all or nothing
    o1.query_heads = copy.size() / geometry_.head_dim;
    return {};
  });
}

/// One state per KV group, from its rows and its heads' part of the trace [t][NH × HD].
/// Errors: shape_mismatch (trace, NH), invalid_argument (a dead head), non_finite.
Result<std::vector<O1Group>> LayerKvCache::sealed_groups(std::size_t query_heads) const {
  const auto& [num_kv_heads, head_dim] = geometry_;
  const O1Overlay& o1 = state_.o1;
  const std::size_t t = state_.seq_len;
  if (o1_trace_positions() != t) {
    return refuse(ErrorCode::shape_mismatch, t, o1_trace_positions(),
                  sentence("the trace has queries of ", o1_trace_positions(), " positions, the layer ", t));
  }
  if (query_heads != o1.query_heads) {
    return refuse(ErrorCode::shape_mismatch, o1.query_heads, query_heads,
                  sentence("the trace is of ", o1.query_heads, " query heads, the call of ", query_heads));
  }
  if (const auto dead = std::ranges::find(state_.alive, 0); dead != state_.alive.end()) {
    return refuse(ErrorCode::invalid_argument, 1, 0,
                  sentence("KV head ", dead - state_.alive.begin(), " is dead, and only a layer of live heads seals"));
  }
  const std::size_t group_floats = query_heads / num_kv_heads * head_dim;
  std::vector<O1Group> groups;
  groups.reserve(num_kv_heads);
  for (std::size_t g = 0; g < num_kv_heads; ++g) {
    std::vector<float> queries;  // [t][HPK × HD]
    queries.reserve(t * group_floats);
    for (std::size_t i = 0; i < t; ++i) {
      const auto all = std::span(o1.trace).subspan(i * query_heads * head_dim, query_heads * head_dim);
      std::ranges::copy(all.subspan(g * group_floats, group_floats), std::back_inserter(queries));
    }
    const HeadRows& head = state_.heads[g];
    auto group = O1Group::prefill(o1.config, head_dim, query_heads / num_kv_heads, head.keys.f32, head.values.f32, queries);
    if (!group) return handed_on(group);
    groups.push_back(*group);
  }
  return groups;
}

/// K, V, importance and trace go, memory included; T stays.
void LayerKvCache::release_rows() {
  for (HeadRows& head : state_.heads) head = HeadRows();
  state_.importance = std::vector<float>();
  state_.o1.trace = std::vector<float>();
}

Result<bool> LayerKvCache::o1_seal(std::size_t query_heads) {
  return or_out_of_memory([&]() -> Result<bool> {
    if (state() == LayerState::aborted) {
      return refuse(ErrorCode::wrong_state, 0, static_cast<std::uint64_t>(LayerState::aborted),
                    "an aborted layer cannot be sealed");
    }
    if (state() == LayerState::sealed) return true;
    if (state() != LayerState::collecting || o1_stays_exact(state_.o1.config, state_.seq_len)) return false;

    auto groups = sealed_groups(query_heads);
    if (!groups && groups.error().code == ErrorCode::out_of_memory) return handed_on(groups);
    if (!groups) {  // decoding must not silently go on exact
      auto refusal = handed_on(groups);  // first: its text needs memory
      release_rows();
      state_.o1.phase = O1Overlay::Phase::aborted;
      state_.o1.query_heads = 0;
      return refusal;
    }
    release_rows();
    state_.o1.phase = O1Overlay::Phase::sealed;
    state_.o1.groups = std::move(*groups);
    return true;
  });
}

Result<std::vector<float>> LayerKvCache::o1_step(std::span<const float> q_all, std::span<const float> k,
                                                 std::span<const float> v, std::size_t query_heads) {
  return or_out_of_memory([&]() -> Result<std::vector<float>> {
    if (auto allowed = check_state("o1_step", {LayerState::sealed}); !allowed) return handed_on(allowed);
    const auto& [num_kv_heads, head_dim] = geometry_;
    const std::size_t heads = state_.o1.query_heads;
    if (query_heads != heads) {
      return refuse(ErrorCode::shape_mismatch, heads, query_heads,
                    sentence("the state was sealed for ", heads, " query heads, the call is of ", query_heads));
    }
    if (auto fits = check_length("q_all", q_all.size(), heads * head_dim, "query_heads x head_dim"); !fits) {
      return handed_on(fits);
    }
    const std::size_t row = num_kv_heads * head_dim;
    if (auto fits = check_length("k", k.size(), row, "num_kv_heads x head_dim"); !fits) return handed_on(fits);
    if (auto fits = check_length("v", v.size(), row, "num_kv_heads x head_dim"); !fits) return handed_on(fits);
    if (state_.seq_len == max_count) {
      return refuse(ErrorCode::counter_exhausted, 0, 1, "one more position would be over 2^63 - 1");
    }

    // Beside the old groups, which inputs may be views of, and which stay if memory runs out.
    std::vector<O1Group> next = state_.o1.groups;
    std::vector<float> out(q_all.size());
    const std::size_t group_floats = heads / num_kv_heads * head_dim;
    for (std::size_t g = 0; g < num_kv_heads; ++g) {
      auto stepped = next[g].step(q_all.subspan(g * group_floats, group_floats), k.subspan(g * head_dim, head_dim),
                                  v.subspan(g * head_dim, head_dim),
                                  std::span(out).subspan(g * group_floats, group_floats));
      if (!stepped) return handed_on(stepped);
    }
    state_.o1.groups.swap(next);
    state_.seq_len += 1;
    return out;
  });
}

std::optional<std::vector<O1GroupView>> LayerKvCache::o1_views() const {
  if (!o1_sealed()) return std::nullopt;
  std::vector<O1GroupView> views;
  for (const O1Group& group : state_.o1.groups) {
    auto view = group.view();
    if (!view) return std::nullopt;
    views.push_back(std::move(*view));
  }
  return views;
}

std::uint64_t LayerKvCache::o1_memory_bytes() const {
  std::uint64_t floats = state_.o1.trace.size();
  for (const O1Group& group : state_.o1.groups) floats += group.floats();
  return 4 * floats;
}

}  // namespace kvcert::reference
