// Closed forms over whole walks: q = 0, so every visible row weighs the same, asked through every call that attends, from the
// empty layer through three wraps of the window. probes.hpp has the questions of one call.
#pragma once

#include <string>
#include <vector>

#include "certify/judge.hpp"
#include "certify/laws/law.hpp"

namespace kvcert::certify {

/// A way in which an engine may work wrongly, and what it would then answer.
struct WrongForm {
  std::string behaviour;
  std::vector<double> value;  ///< [HD]
};

/// The answer to one query head.
struct ClosedForm {
  std::string question;
  std::vector<double> right;    ///< [HD]
  std::vector<double> allowed;  ///< [HD]; 0: this very value, every operation being exact
  std::vector<WrongForm> wrong;
};

/// Nothing if `out` [HD] is right; else what was expected, what came, and the nearest wrong form by name. A form that could not
/// tell a wrong answer from the right one is a fault of the probe, and said as such.
std::optional<std::string> misses(const ClosedForm& form, std::span<const float> out);

/// Which calls are asked.
enum class Asked : std::uint8_t { group, chunk, ring };

/// Windows of W rows over V = position (even dimensions) and position² (odd ones, which tell apart what has the same mean).
/// Sums of these integers are exact, so where the visible rows number a power of two the mean itself is the canonical answer.
class WindowForms {
 public:
  explicit WindowForms(std::size_t window);

  static constexpr Geometry geometry{2, 4};
  static constexpr std::size_t fan_out = 3;
  static constexpr float scale = 0.5F;
  std::size_t window() const { return window_; }
  /// Rows for the ring to fill and then wrap three times, and a few more.
  std::size_t rows() const { return 4 * window_ + 3; }
  std::size_t first_visible(std::size_t position) const { return position + 1 > window_ ? position + 1 - window_ : 0; }
  std::vector<float> keys(std::size_t position) const;    ///< [KVH × HD], the same for every head
  std::vector<float> values(std::size_t position) const;  ///< [KVH × HD]
  std::vector<float> inv_freq() const { return {1.0F, 0.25F}; }

  /// What `position` is to be told while `stored` rows are stored; in a chunk [from, to) where there is one.
  ClosedForm at(Asked asked, std::size_t position, std::size_t stored, std::size_t from = 0, std::size_t to = 0) const;
  /// The mean of the visible positions (of their squares), rounded to binary32 once.
  std::vector<float> rounded(std::size_t position) const;

 private:
  std::vector<double> mean(std::size_t from, std::size_t to) const;
  std::vector<double> allowed(Asked asked, std::size_t position) const;
  std::size_t window_;
};

/// The exact mode gives the correctly rounded mean, through attention and through the ring.
Outcome exact_windows(std::size_t window);

/// The windows of the contract's closed forms, and the head maps (query heads, KV heads).
inline constexpr std::size_t closed_windows[] = {1, 2, 3, 4, 64};
inline constexpr std::pair<std::size_t, std::size_t> head_maps[] = {{8, 2}, {6, 2}, {6, 3}, {12, 4}, {4, 1}};

/// V = KV head + 1 over three rows; query head h reads KV head h / fan-out.
ClosedForm head_form(Asked asked, std::size_t query_heads, std::size_t kv_heads, std::size_t head);
/// V = 1, scores 0, a sink of ln 2: rows / (rows + 2), which is 1/2 over two rows.
ClosedForm sink_form(std::size_t rows);

/// Holds the out [heads × HD] of a call against one form for every head.
inline std::optional<std::string> all_miss(const ClosedForm& form, std::span<const float> out, Tally& tally) {
  const std::size_t dim = form.right.size();
  for (std::size_t head = 0; head < out.size() / dim; ++head) {
    if (auto found = misses(form, out.subspan(head * dim, dim))) return fmt::format("query head {}: {}", head, *found);
    tally.numbers += dim;
  }
  return std::nullopt;
}

template <class Engine>
Outcome group_windows(const Engine& engine, std::size_t window, Tally& tally) {
  const WindowForms forms(window);
  auto layer = must(engine.make(WindowForms::geometry), "create");
  const std::vector<float> q(WindowForms::fan_out * WindowForms::geometry.head_dim, 0.0F);
  std::vector<float> out(q.size());
  for (std::size_t p = 0; p < forms.rows(); ++p) {  // in its turn
    must(layer.append(forms.keys(p), forms.values(p), {}), "append");
    Query query{.q_group = q, .kv_head = p % 2, .scale = WindowForms::scale, .first = forms.first_visible(p)};
    must(layer.attend_group(query, out, {}), "attend_group");
    if (auto found = all_miss(forms.at(Asked::group, p, p + 1), out, tally)) return violated(*found);
  }
  for (std::size_t p = 0; p < forms.rows(); ++p) {  // and with all rows there
    Query query{.q_group = q, .kv_head = (p + 1) % 2, .scale = WindowForms::scale, .first = forms.first_visible(p)};
    must(layer.attend_group_upto(query, p + 1, out, {}), "attend_group_upto");
    if (auto found = all_miss(forms.at(Asked::group, p, forms.rows()), out, tally)) return violated(*found);
  }
  return holds();
}

template <class Engine>
Outcome chunk_windows(const Engine& engine, std::size_t window, Tally& tally) {
  const WindowForms forms(window);
  const std::size_t rows = forms.rows(), dim = WindowForms::geometry.head_dim;
  auto layer = must(engine.make(WindowForms::geometry), "create");
  for (std::size_t p = 0; p < rows; ++p) must(layer.append(forms.keys(p), forms.values(p), {}), "append");
  // The whole prompt; a chunk larger than the window with rows before and after it; one position.
  for (auto [from, to] : {std::pair<std::size_t, std::size_t>{0, rows}, {2 * window - 1, 3 * window + 2}, {rows - 1, rows}}) {
    const std::size_t b = to - from;
    const std::vector<float> q(b * WindowForms::fan_out * dim, 0.0F);
    std::vector<float> out(q.size());
    for (std::size_t kv_head : {0, 1}) {
      Query query{.q_group = q, .kv_head = kv_head, .scale = WindowForms::scale};
      must(layer.attend_chunk(query, b, from, window, out, {}), "attend_chunk");
      for (std::size_t i = 0; i < b; ++i) {
        const auto got = std::span<const float>(out).subspan(i * WindowForms::fan_out * dim, WindowForms::fan_out * dim);
        if (auto found = all_miss(forms.at(Asked::chunk, from + i, rows, from, to), got, tally)) return violated(*found);
      }
    }
  }
  return holds();
}

template <class Engine>
Outcome ring_windows(const Engine& engine, std::size_t window, Tally& tally) {
  const WindowForms forms(window);
  auto layer = must(engine.make(WindowForms::geometry), "create");
  must(layer.install_bounded(window), "install_bounded");
  const auto rope = must(Engine::Cache::Rope::create(window, forms.inv_freq(), 1.0F), "Rope::create");
  const std::size_t heads = WindowForms::geometry.num_kv_heads * WindowForms::fan_out;
  const std::vector<float> q(heads * WindowForms::geometry.head_dim, 0.0F);
  std::vector<float> out(q.size());
  for (std::size_t p = 0; p < forms.rows(); ++p) {
    must(layer.bounded_step(q, forms.keys(p), forms.values(p), {}, rope, WindowForms::scale, heads, out), "bounded_step");
    if (auto found = all_miss(forms.at(Asked::ring, p, p + 1), out, tally)) return violated(*found);
  }
  return holds();
}

/// Every query head of a head map, through one of the calls.
template <class Engine>
Outcome head_map_holds(const Engine& engine, Asked asked, std::pair<std::size_t, std::size_t> map, Tally& tally) {
  const auto [query_heads, kv_heads] = map;
  const std::size_t dim = 4, rows = 3, fan_out = query_heads / kv_heads;
  auto layer = must(engine.make({kv_heads, dim}), "create");
  std::vector<float> k(kv_heads * dim, 0.5F), v;
  for (std::size_t at = 0; at < kv_heads * dim; ++at) v.push_back(static_cast<float>(at / dim + 1));
  const std::vector<float> q(query_heads * dim, 0.0F);
  std::vector<float> out(q.size());
  if (asked == Asked::ring) {
    must(layer.install_bounded(rows), "install_bounded");
    const auto rope = must(Engine::Cache::Rope::create(rows, std::vector<float>{0.5F}, 1.0F), "Rope::create");
    for (std::size_t i = 0; i < rows; ++i) must(layer.bounded_step(q, k, v, {}, rope, 1.0F, query_heads, out), "bounded_step");
  } else {
    for (std::size_t i = 0; i < rows; ++i) must(layer.append(k, v, {}), "append");
    for (std::size_t group = 0; group < kv_heads; ++group) {
      const Query query{.q_group = std::span(q).first(fan_out * dim), .kv_head = group};
      const auto part = std::span(out).subspan(group * fan_out * dim, fan_out * dim);
      if (asked == Asked::group) must(layer.attend_group(query, part, {}), "attend_group");
      else must(layer.attend_chunk(query, 1, rows - 1, 0, part, {}), "attend_chunk");
    }
  }
  for (std::size_t head = 0; head < query_heads; ++head) {
    if (auto found = misses(head_form(asked, query_heads, kv_heads, head), std::span<const float>(out).subspan(head * dim, dim))) {
      return violated(fmt::format("query head {}: {}", head, *found));
    }
    tally.numbers += dim;
  }
  return holds();
}

/// V = 1 with a sink of ln 2 over rows of score 0, through attend_group_upto and attend_chunk.
template <class Engine>
Outcome sink_of_ln_2(const Engine& engine, Tally& tally) {
  const std::size_t dim = 2, rows = 4;
  auto layer = must(engine.make({1, dim}), "create");
  const std::vector<float> one(dim, 1.0F), q(rows * 2 * dim, 0.0F), sinks(2, 0.6931472F);
  for (std::size_t i = 0; i < rows; ++i) must(layer.append(one, one, {}), "append");
  std::vector<float> chunk(q.size()), out(2 * dim);
  must(layer.attend_chunk({.q_group = q, .sinks = sinks}, rows, 0, 0, chunk, {}), "attend_chunk");
  for (std::size_t n = 1; n <= rows; ++n) {
    const ClosedForm form = sink_form(n);
    must(layer.attend_group_upto({.q_group = std::span(q).first(2 * dim), .sinks = sinks}, n, out, {}), "attend_group_upto");
    if (auto found = all_miss(form, out, tally)) return violated(*found);
    if (auto found = all_miss(form, std::span<const float>(chunk).subspan((n - 1) * 2 * dim, 2 * dim), tally)) return violated("chunk, " + *found);
  }
  return holds();
}

}  // namespace kvcert::certify
