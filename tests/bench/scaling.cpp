#include "tests/bench/scaling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "optimized/dispatch.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "tests/bench/measure.hpp"

namespace kvcert::bench {
namespace {

using optimized::LayerKvCache;

struct Point {
  double rows, seconds;
};

/// Least squares through (log rows, log seconds).
double slope(const std::vector<Point>& points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(points.size());
  for (const Point& point : points) {
    const double a = std::log(point.rows), b = std::log(point.seconds);
    x += a, y += b, xx += a * a, xy += a * b;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

void print_points(const std::string& title, const std::vector<Point>& points) {
  const double fitted = slope(points);
  std::printf("\n%s: cost ~ rows^%.2f\n  %10s %14s %12s\n", title.c_str(), fitted, "rows", "ns", "ns per row");
  const double most = std::ranges::max(points, {}, &Point::seconds).seconds;
  for (const Point& point : points) {
    const auto bar = static_cast<std::size_t>(std::max(1.0, 40 * point.seconds / most));
    std::printf("  %10.0f %14.0f %12.2f  %s\n", point.rows, point.seconds * 1e9, point.seconds / point.rows * 1e9,
                std::string(bar, '#').c_str());
  }
  std::fflush(stdout);
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "kvcert_bench: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}

/// The least of several: a growing cost stays, a disturbed moment does not.
double least(int times, const std::function<double()>& seconds) {
  double best = seconds();
  for (int i = 1; i < times; ++i) best = std::min(best, seconds());
  return best;
}

/// From nothing to so many rows, one by one.
void print_append() {
  const Geometry geometry{1, 16};
  const std::vector<float> row(geometry.head_dim, 0.5F);
  std::vector<Point> points;
  for (std::size_t rows = 1 << 10; rows <= 1 << 20; rows *= 4)
    points.push_back({static_cast<double>(rows), least(3, [&] {
                        LayerKvCache layer = must(LayerKvCache::create(geometry));
                        const double start = thread_seconds();
                        for (std::size_t i = 0; i < rows; ++i)
                          if (!layer.append(row, row)) std::exit(1);
                        return thread_seconds() - start;
                      })});
  print_points("all appends from an empty layer, 1x16", points);
}

/// Of `rows` rows, those from `first` on are visible.
double attention_seconds(const LayerKvCache& layer, std::size_t first, std::size_t upto, const std::vector<float>& q) {
  std::vector<float> out(q.size());
  return least(15, [&] {
    const double start = thread_seconds();
    if (!layer.attend_group_upto({.q_group = q, .scale = 0.1F, .first = first}, upto, out, {})) std::exit(1);
    return thread_seconds() - start;
  });
}

void print_attention() {
  constexpr std::size_t head_dim = 128, most = 1 << 16, visible = 1024;
  LayerKvCache layer = must(LayerKvCache::create({1, head_dim}));
  const std::vector<float> rows(1024 * head_dim, 0.25F), q(4 * head_dim, 0.5F);
  for (std::size_t i = 0; i < most; i += 1024)
    if (!layer.append_chunk(rows, rows, 1024)) std::exit(1);
  std::vector<Point> all, last;
  for (std::size_t n = visible; n <= most; n *= 2) {
    all.push_back({static_cast<double>(n), attention_seconds(layer, 0, n, q)});
    last.push_back({static_cast<double>(n), attention_seconds(layer, n - visible, n, q)});
  }
  print_points("attention over all rows, 1x128, fan-out 4", all);
  print_points("attention over the last 1024 rows of so many", last);
}

}  // namespace

void print_scaling() {
  print_append();
  print_attention();
}

}  // namespace kvcert::bench
