#include "certify/closed_forms.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "certify/bound_rows.hpp"
#include "reference/evaluate.hpp"
#include "reference/layer_kv_cache.hpp"

namespace kvcert::certify {
namespace {

std::string numbers(std::span<const double> values) {
  std::string text;
  for (double x : values) text += fmt::format("{}{:.9g}", text.empty() ? "" : ", ", x);
  return text;
}

std::vector<double> wide(std::span<const float> values) { return {values.begin(), values.end()}; }

/// How far apart two answers are, each dimension against its own size.
double distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += std::isfinite(a[d]) ? std::fabs(a[d] - b[d]) / (1 + std::fabs(b[d])) : INFINITY;
  return sum;
}

/// The bound over rows that all score 0; [HD], with what a closed form in binary64 is itself off by.
std::vector<double> with_slack(const HeadBound& bound, std::span<const double> right) {
  std::vector<double> allowed;
  for (std::size_t d = 0; d < right.size(); ++d) {
    allowed.push_back(bound.not_covered.empty() ? bound.bound[d] + std::fabs(right[d]) * 0x1p-48 : 0.0);
  }
  return allowed;
}

}  // namespace

std::optional<std::string> misses(const ClosedForm& form, std::span<const float> out) {
  for (const WrongForm& wrong : form.wrong) {
    bool apart = false;
    for (std::size_t d = 0; d < out.size(); ++d) apart = apart || std::fabs(wrong.value[d] - form.right[d]) > 2 * form.allowed[d];
    if (!apart) return fmt::format("{}: the probe cannot tell the right answer from \"{}\"", form.question, wrong.behaviour);
  }
  const auto good = [&](std::size_t d) {
    if (form.allowed[d] == 0) return bits(out[d]) == bits(static_cast<float>(form.right[d]));
    return std::fabs(double{out[d]} - form.right[d]) <= form.allowed[d];
  };
  bool right = true;
  for (std::size_t d = 0; d < out.size(); ++d) right = right && good(d);
  if (right) return std::nullopt;
  const auto got = wide(out);
  std::string sentence = fmt::format("{}: expected {} (± {}), engine answered {}", form.question, numbers(form.right), numbers(form.allowed),
                                     numbers(got));
  const auto nearest = std::min_element(form.wrong.begin(), form.wrong.end(), [&](const WrongForm& a, const WrongForm& b) {
    return distance(got, a.value) < distance(got, b.value);
  });
  if (nearest == form.wrong.end() || !std::isfinite(distance(got, nearest->value))) return sentence;
  const bool so = distance(got, nearest->value) < 1e-4;  // rounding of a wrong answer, not a bound on it
  return sentence + (so ? ": it answers as if " : ": the nearest wrong way of working known here is that ") + nearest->behaviour;
}

WindowForms::WindowForms(std::size_t window) : window_(window) {}

std::vector<float> WindowForms::keys(std::size_t position) const {
  std::vector<float> row(geometry.num_kv_heads * geometry.head_dim);
  for (std::size_t at = 0; at < row.size(); ++at) row[at] = static_cast<float>((position * 7 + at % geometry.head_dim) % 5) - 2.0F;
  return row;
}

std::vector<float> WindowForms::values(std::size_t position) const {
  std::vector<float> row(geometry.num_kv_heads * geometry.head_dim);
  for (std::size_t at = 0; at < row.size(); ++at) row[at] = static_cast<float>(at % 2 == 0 ? position : position * position);
  return row;
}

std::vector<double> WindowForms::mean(std::size_t from, std::size_t to) const {
  double sum = 0, squares = 0;
  for (std::size_t p = from; p < to; ++p) sum += static_cast<double>(p), squares += static_cast<double>(p * p);
  std::vector<double> result;
  for (std::size_t d = 0; d < geometry.head_dim; ++d) result.push_back((d % 2 == 0 ? sum : squares) / static_cast<double>(to - from));
  return result;
}

std::vector<float> WindowForms::rounded(std::size_t position) const {
  // Integers below 2^24 on both sides of the division: rounding to binary64 first changes nothing.
  const auto exact = mean(first_visible(position), position + 1);
  return {exact.begin(), exact.end()};
}

std::vector<double> WindowForms::allowed(Asked asked, std::size_t position) const {
  const std::size_t from = first_visible(position), n = position + 1 - from, dim = geometry.head_dim;
  if (std::has_single_bit(n)) return std::vector<double>(dim, 0.0);
  std::vector<float> k, v;
  for (std::size_t p = from; p <= position; ++p) {
    const auto key = keys(p), value = values(p);
    k.insert(k.end(), key.begin(), key.begin() + static_cast<std::ptrdiff_t>(dim));
    v.insert(v.end(), value.begin(), value.begin() + static_cast<std::ptrdiff_t>(dim));
  }
  const std::vector<float> q(dim, 0.0F);
  const auto right = mean(from, position + 1);
  if (asked != Asked::ring) {
    return with_slack(evaluate_bound({.q = q, .keys = k, .values = v, .scale = scale, .softcap = 0, .sink = std::nullopt},
                                     canonical_parameters(dim, n)), right);
  }
  const std::vector<float> cos(n * 2, 1.0F), sin(n * 2, 1.0F);  // of no consequence beside a query of 0, but at most 1
  BoundedInput in{.q = q, .sink_keys = {}, .sink_values = {}, .keys = {}, .values = {}, .cos = cos, .sin = sin, .half = 2, .scale = scale};
  for (std::size_t delta = 0; delta < n; ++delta) {
    in.keys.push_back(std::span(k).subspan((n - 1 - delta) * dim, dim));
    in.values.push_back(std::span(v).subspan((n - 1 - delta) * dim, dim));
  }
  return with_slack(evaluate_bounded_bound(in), right);
}

ClosedForm WindowForms::at(Asked asked, std::size_t p, std::size_t stored, std::size_t from, std::size_t to) const {
  const std::size_t first = first_visible(p), n = p + 1 - first;
  ClosedForm form{fmt::format("q = 0, V = position and position², window {}, position {} of {} sees rows {}..{}", window_, p, stored, first, p),
                  mean(first, p + 1), allowed(asked, p), {}};
  const auto wrong = [&](std::string behaviour, std::vector<double> value) { form.wrong.push_back({std::move(behaviour), std::move(value)}); };
  if (first > 0) wrong("the window held one row more", mean(first - 1, p + 1));
  if (n == window_ && n > 1) wrong("the window held one row less", mean(first + 1, p + 1));
  if (p + 1 < stored) wrong("it saw the row ahead", mean(first, p + 2));
  if (first > 0) wrong(fmt::format("the newest row's slot were stale and still held row {}", p - window_), mean(first - 1, p));
  if (n > 1) wrong("it missed the newest row", mean(first, p));
  if (first > 1) wrong("it ignored where the window begins", mean(0, p + 1));
  if (n < window_ && p > 0) {
    auto padded = mean(0, p + 1);
    for (double& x : padded) x *= static_cast<double>(n) / static_cast<double>(window_);
    wrong("slots never written were rows of 0", padded);
  }
  if (asked == Asked::chunk && to > p + 1) {
    const auto last = mean(to > window_ ? to - window_ : 0, to);
    if (last != form.right) wrong("the whole chunk had overwritten the ring first", last);
  }
  if (asked == Asked::chunk && from > first) wrong("the window began with the chunk", mean(from, p + 1));
  return form;
}

Outcome exact_windows(std::size_t window) {
  const WindowForms forms(window);
  const std::size_t dim = WindowForms::geometry.head_dim, heads = WindowForms::geometry.num_kv_heads;
  const std::vector<float> q(heads * dim, 0.0F);
  std::vector<float> k, v, ring_k(heads * window * dim, 0.0F), ring_v(heads * window * dim, 0.0F);
  const auto rope = must(reference::LayerKvCache::Rope::create(window, forms.inv_freq(), 1.0F), "Rope::create");
  for (std::size_t p = 0; p < forms.rows(); ++p) {
    const auto key = forms.keys(p), value = forms.values(p);
    k.insert(k.end(), key.begin(), key.begin() + static_cast<std::ptrdiff_t>(dim));
    v.insert(v.end(), value.begin(), value.begin() + static_cast<std::ptrdiff_t>(dim));
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t slot = (head * window + p % window) * dim;
      std::copy_n(key.begin(), dim, ring_k.begin() + static_cast<std::ptrdiff_t>(slot));
      std::copy_n(value.begin(), dim, ring_v.begin() + static_cast<std::ptrdiff_t>(slot));
    }
    const Query query{.q_group = std::span(q).first(dim), .scale = WindowForms::scale, .first = forms.first_visible(p)};
    const auto attention = reference::exact_attend_group(query, k, v, dim, p + 1);
    const auto ring = reference::exact_bounded({.q = q, .query_heads = heads, .sinks = {}, .rope = {rope.half(), rope.cos(), rope.sin()}, .scale = WindowForms::scale},
                                               {.geometry = WindowForms::geometry, .window = window, .position = p + 1, .keys = ring_k, .values = ring_v});
    if (!attention || !ring) return violated(fmt::format("window {}, position {}: the exact mode has no answer", window, p));
    const auto expected = forms.rounded(p);
    const auto where = fmt::format("window {}, position {}: the exact mode, ", window, p);
    if (auto found = difference("attention", attention->output, expected)) return violated(where + *found);
    for (std::size_t head = 0; head < heads; ++head) {
      if (auto found = difference("ring", std::span<const float>(ring->output).subspan(head * dim, dim), expected)) return violated(where + *found);
    }
  }
  return holds();
}

ClosedForm head_form(Asked asked, std::size_t query_heads, std::size_t kv_heads, std::size_t head) {
  const std::size_t dim = 4, rows = 3, fan_out = query_heads / kv_heads, own = head / fan_out;
  const auto constant = [&](std::size_t kv_head) { return std::vector<double>(dim, static_cast<double>(kv_head + 1)); };
  const std::vector<float> q(dim, 0.0F), k(rows * dim, 0.5F), v(rows * dim, static_cast<float>(own + 1)), turn(rows, 1.0F);
  ClosedForm form{fmt::format("V = KV head + 1, {} query heads on {} KV heads", query_heads, kv_heads), constant(own), {}, {}};
  if (asked == Asked::ring) {
    BoundedInput in{.q = q, .sink_keys = {}, .sink_values = {}, .keys = {}, .values = {}, .cos = turn, .sin = turn, .half = 1, .scale = 1.0F};
    for (std::size_t p = 0; p < rows; ++p) in.keys.push_back(std::span(k).subspan(p * dim, dim)), in.values.push_back(std::span(v).subspan(p * dim, dim));
    form.allowed = with_slack(evaluate_bounded_bound(in), form.right);
  } else {
    form.allowed = with_slack(evaluate_bound({.q = q, .keys = k, .values = v, .scale = 1.0F, .softcap = 0, .sink = std::nullopt},
                                             canonical_parameters(dim, rows)), form.right);
  }
  if (head % kv_heads != own) form.wrong.push_back({"query heads were tiled over KV heads", constant(head % kv_heads)});
  for (std::size_t other = 0; other < kv_heads; ++other) {
    const bool tiled = other == head % kv_heads;
    if (other != own && !tiled) form.wrong.push_back({fmt::format("it read KV head {}", other), constant(other)});
  }
  return form;
}

ClosedForm sink_form(std::size_t rows) {
  const std::size_t dim = 2;
  const auto constant = [&](double value) { return std::vector<double>(dim, value); };
  const auto n = static_cast<double>(rows);
  const std::vector<float> q(dim, 0.0F), one(rows * dim, 1.0F);
  ClosedForm form{fmt::format("V = 1, a sink of ln 2 over {} zero logits", rows), constant(n / (n + 2)), {}, {}};
  // That binary32's ln 2 is not ln 2 takes its part of the bound.
  form.allowed = with_slack(evaluate_bound({.q = q, .keys = one, .values = one, .scale = 1.0F, .softcap = 0, .sink = 0.6931472F},
                                           canonical_parameters(dim, rows)), form.right);
  form.wrong = {{"the sink were dropped", constant(1)}, {"the sink were counted twice", constant(n / (n + 4))}};
  if (rows != 2) form.wrong.push_back({"every row had a sink", constant(1.0 / 3)});
  std::erase_if(form.wrong, [&](const WrongForm& wrong) { return wrong.value == form.right; });
  return form;
}

}  // namespace kvcert::certify
