// Construction, checks and views of a group. Absorbing and attending are in o1_step.cpp.
#include "optimized/o1_group.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "kvcert/geometry.hpp"
#include "optimized/default_scale.hpp"
#include "optimized/dispatch.hpp"
#include "optimized/failure.hpp"
#include "optimized/head_block.hpp"
#include "optimized/o1_seal.hpp"
#include "optimized/overlap.hpp"
#include "optimized/scratch.hpp"
#include "optimized/stable_input.hpp"

namespace kvcert::optimized {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

Buffer<float> filled(std::size_t floats, float value) {
  Buffer<float> buffer(floats);
  std::ranges::fill(buffer.view(), value);
  return buffer;
}

/// Lengths as far as they can be compared, then scalars.
Result<void> check_prefill(const O1Config& config, std::size_t head_dim, std::size_t heads, std::size_t keys,
                           std::size_t values, std::size_t queries) {
  if (values != keys) return wrong_length("values", keys, values);
  if (head_dim != 0 && keys % head_dim != 0)
    return failure(ErrorCode::shape_mismatch, head_dim, keys, "keys are no multiple of head_dim long");
  if (head_dim == 0 || heads == 0)
    return failure(ErrorCode::invalid_argument, 1, 0, "head_dim and query heads are at least 1");
  const bool prescribed = keys == 0 || heads <= max_count / keys;  // no rows prescribe no queries, however many heads
  if (prescribed && queries != keys * heads) return wrong_length("queries", keys * heads, queries);
  if (!prescribed || heads > max_count / head_dim)
    return failure(ErrorCode::invalid_argument, 0, heads, "rows x query heads x head_dim exceeds 2^63 - 1");
  return check_o1_config(config);
}

}  // namespace

Result<void> check_o1_config(const O1Config& config) {
  if (config.landmarks < 4)
    return failure(ErrorCode::invalid_argument, 4, config.landmarks, "landmarks are at least 4");
  if (config.window < 1) return failure(ErrorCode::invalid_argument, 1, 0, "window is at least 1");
  if (config.rect != O1Rect::aggregate && config.rect != O1Rect::fm)
    return failure(ErrorCode::invalid_argument, static_cast<std::uint64_t>(O1Rect::fm),
                   static_cast<std::uint64_t>(config.rect), "a rect that does not exist");
  return {};
}

std::uint64_t last_exact_rows(const O1Config& config) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t sum = o1_boundary;
  for (const std::size_t part : {config.window, config.sink}) sum = part > most - sum ? most : sum + part;
  return sum;
}

O1Group::O1Group(const O1Config& config, std::size_t head_dim, std::size_t heads, const kernels::Table* kernels)
    : config_(config), head_dim_(head_dim), heads_(heads), kernels_(kernels), scale_(default_scale(head_dim)) {}

O1Group& O1Group::operator=(O1Group other) noexcept {
  std::swap(config_, other.config_);
  std::swap(head_dim_, other.head_dim_);
  std::swap(heads_, other.heads_);
  std::swap(kernels_, other.kernels_);
  std::swap(scale_, other.scale_);
  std::swap(state_, other.state_);
  return *this;
}

Result<O1Group> O1Group::build(const O1Config& config, std::size_t head_dim, std::size_t heads, const float* keys,
                               const float* values, std::size_t rows, const float* queries, std::size_t query_stride,
                               const kernels::Table* kernels) {
  O1Group group(config, head_dim, heads, kernels);
  State& state = group.state_;
  state.exact_only = rows <= last_exact_rows(config);
  state.exact_rows = state.exact_only ? rows : config.sink;
  state.exact_keys = Buffer<float>(std::span(keys, state.exact_rows * head_dim));
  state.exact_values = Buffer<float>(std::span(values, state.exact_rows * head_dim));
  if (state.exact_only) return group;

  const std::size_t m = std::clamp<std::size_t>(rows / 8, 4, config.landmarks);
  const std::size_t per_head = checked_product(m, head_dim);
  state.landmarks = m;
  state.key_landmarks = Buffer<float>(per_head);
  state.query_landmarks = Buffer<float>(checked_product(heads, per_head));
  state.mixing = Buffer<float>(checked_product(heads, checked_product(m, m)));
  if (!seal_landmarks({.head_dim = head_dim,
                       .heads = heads,
                       .rows = rows,
                       .landmarks = m,
                       .scale = group.scale_,
                       .keys = keys,
                       .queries = queries,
                       .query_stride = query_stride},
                      state.key_landmarks.data(), state.query_landmarks.data(), state.mixing.data()))
    return failure(ErrorCode::non_finite, 0, 0, "landmark attention, its last pivot or its inverse is not finite");

  state.ring_keys = filled(config.window * head_dim, 0.0F);  // rows > window: no wrap
  state.ring_values = filled(config.window * head_dim, 0.0F);
  state.sums = filled(state.query_landmarks.size(), 0.0F);
  state.masses = filled(heads * m, 0.0F);
  state.maxima = filled(heads * m, minus_infinity);
  group.insert_rows(keys + config.sink * head_dim, values + config.sink * head_dim, rows - config.sink);
  return group;
}

Result<O1Group> O1Group::prefill(const O1Config& config, std::size_t head_dim, std::size_t heads,
                                 std::span<const float> keys, std::span<const float> values,
                                 std::span<const float> queries) {
  return catching_memory([&]() -> Result<O1Group> {
    // The arguments first: what they are refused for must not depend on the environment.
    if (auto valid = check_prefill(config, head_dim, heads, keys.size(), values.size(), queries.size()); !valid)
      return std::unexpected(valid.error());
    const auto isa = default_isa();
    if (!isa) return std::unexpected(isa.error());
    return prefill(config, head_dim, heads, keys, values, queries, *isa);
  });
}

Result<O1Group> O1Group::prefill(const O1Config& config, std::size_t head_dim, std::size_t heads,
                                 std::span<const float> keys, std::span<const float> values,
                                 std::span<const float> queries, Isa isa) {
  return catching_memory([&]() -> Result<O1Group> {
    if (auto valid = check_prefill(config, head_dim, heads, keys.size(), values.size(), queries.size()); !valid)
      return std::unexpected(valid.error());
    const kernels::Table* kernels = kernel_table(isa);
    if (kernels == nullptr)
      return failure(ErrorCode::invalid_argument, 0, static_cast<std::uint64_t>(isa),
                     "this build or machine cannot run " + std::string(optimized::name(isa)) + " kernels");
    return build(config, head_dim, heads, keys.data(), values.data(), keys.size() / head_dim, queries.data(),
                 heads * head_dim, kernels);
  });
}

Result<void> O1Group::step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                           std::span<float> out) {
  return catching_memory([&]() -> Result<void> {
    if (q.size() != heads_ * head_dim_) return wrong_length("q", heads_ * head_dim_, q.size());
    if (k.size() != head_dim_) return wrong_length("k", head_dim_, k.size());
    if (v.size() != head_dim_) return wrong_length("v", head_dim_, v.size());
    if (out.size() != q.size()) return wrong_length("out", q.size(), out.size());
    for (const auto input : {q, k, v})
      if (overlap(out, input)) return failure(ErrorCode::invalid_argument, 0, 0, "out overlaps an input");
    if (overlaps(std::as_bytes(out))) return failure(ErrorCode::invalid_argument, 0, 0, "out overlaps the group");
    const StableInput query(q, overlaps(std::as_bytes(q))), key(k, overlaps(std::as_bytes(k)));
    const StableInput value(v, overlaps(std::as_bytes(v)));
    reserve();
    insert_and_attend(query.data(), key.data(), value.data(), out.data());
    return {};
  });
}

void O1Group::reserve() {
  const std::size_t needed = (state_.exact_rows + 1) * head_dim_;
  if (state_.exact_only && state_.exact_keys.size() < needed) {
    const std::size_t floats = std::max({needed, 2 * state_.exact_keys.size(), 16 * head_dim_});
    Buffer<float> keys(floats), values(floats);
    keys.copy_in(0, state_.exact_keys.view().first(state_.exact_rows * head_dim_));
    values.copy_in(0, state_.exact_values.view().first(state_.exact_rows * head_dim_));
    state_.exact_keys.swap(keys);
    state_.exact_values.swap(values);
  }
  scratch(scratch_floats());
}

bool O1Group::overlaps(std::span<const std::byte> memory) const {
  for (const Buffer<float>* buffer :
       {&state_.exact_keys, &state_.exact_values, &state_.ring_keys, &state_.ring_values, &state_.key_landmarks,
        &state_.query_landmarks, &state_.mixing, &state_.sums, &state_.masses, &state_.maxima})
    if (bytes_overlap(memory, std::as_bytes(buffer->view()))) return true;
  return false;
}

std::optional<O1GroupView> O1Group::view() const {
  if (state_.exact_only) return std::nullopt;
  O1GroupView view{.sink_keys = state_.exact_keys.view(),
                   .sink_values = state_.exact_values.view(),
                   .ring_keys = state_.ring_keys.view(),
                   .ring_values = state_.ring_values.view(),
                   .ring_length = state_.ring_length,
                   .ring_head = state_.ring_head,
                   .K_tilde = state_.key_landmarks.view(),
                   .heads = std::vector<O1HeadView>(heads_),
                   .m_eff = state_.landmarks,
                   .window = config_.window,
                   .sink = config_.sink,
                   .head_dim = head_dim_,
                   .scale = scale_,
                   .far_count = state_.far_count,
                   .rect = config_.rect};
  const std::size_t m = state_.landmarks, rows = m * head_dim_;
  for (std::size_t h = 0; h < heads_; ++h)
    view.heads[h] = {.T = state_.sums.view().subspan(h * rows, rows),
                     .Z = state_.masses.view().subspan(h * m, m),
                     .mu = state_.maxima.view().subspan(h * m, m),
                     .Q_tilde = state_.query_landmarks.view().subspan(h * rows, rows),
                     .M = state_.mixing.view().subspan(h * m * m, m * m)};
  return view;
}

std::uint64_t O1Group::view_floats() const {
  if (state_.exact_only) return 0;
  return 2 * (state_.exact_keys.size() + state_.ring_keys.size()) + state_.key_landmarks.size() +
         state_.query_landmarks.size() + state_.mixing.size() + state_.sums.size() + state_.masses.size() +
         state_.maxima.size();
}

}  // namespace kvcert::optimized
