#include "optimized/attend.hpp"

#include <algorithm>
#include <new>

#include "optimized/attend_int8.hpp"
#include "optimized/buffer.hpp"
#include "optimized/float_environment.hpp"
#include "optimized/scratch.hpp"

namespace kvcert::optimized {
namespace {

constexpr std::size_t queries_at_once = 64;

/// How much of V is asked for before it is read: what the exponentials leave time for, while it stays in a second-level
/// cache.
constexpr std::size_t values_ahead_bytes = std::size_t{1} << 19;

struct RowRange {
  std::size_t begin;
  std::size_t end;
  std::size_t size() const { return end - begin; }
};

RowRange visible_at(const AttendTask& task, std::size_t position) {
  const std::size_t end = task.end + position;
  const std::size_t begin = task.window != 0 && end > task.window ? end - task.window : 0;
  return {std::max(task.first, begin), end};
}

/// Queries [query, query + count) in the order positions, then heads; and the rows that some of them see. Later
/// positions begin and end later.
struct Tile {
  std::size_t query;
  std::size_t count;
  RowRange rows;
  std::size_t stride;  // floats from one query's probabilities to the next
};

Tile tile_at(const AttendTask& task, std::size_t query) {
  const std::size_t count = std::min(queries_at_once, task.positions * task.heads - query);
  const std::size_t begin = visible_at(task, query / task.heads).begin;
  const std::size_t end = visible_at(task, (query + count - 1) / task.heads).end;
  return {query, count, {begin, end}, padded_stride(end - begin)};
}

/// Floats for probabilities, then for a copy of the queries, then for int8 blocks. Counts and rows are those of arrays in
/// memory; only the product of both can be more than that.
std::size_t scratch_floats(const AttendTask& task, const Tile& tile) {
  std::size_t blocks = 0;
  if (task.keys.f32 == nullptr) blocks = int8_score_floats(tile.count, task.head_dim);
  if (task.values.f32 == nullptr) blocks = std::max(blocks, int8_sum_floats(task.head_dim));
  if (tile.stride > max_allocation_bytes / sizeof(float) / tile.count) throw std::bad_alloc();
  return tile.count * (tile.stride + task.head_dim) + blocks;
}

void attend_tile(const AttendTask& task, const Tile& tile, float* p) {
  const kernels::Table& kernel = *task.kernels;
  const std::size_t head_dim = task.head_dim;
  const RowRange rows = tile.rows;
  float* out = task.out + tile.query * head_dim;
  // Every few rows meet the queries again, so that they had better begin with a cache line, as the scratch does.
  float* q = p + tile.count * tile.stride;
  std::copy_n(task.q.data() + tile.query * head_dim, tile.count * head_dim, q);
  float* blocks = q + tile.count * head_dim;

  // 1. scores of all the tile's rows
  if (task.keys.f32 != nullptr)
    kernel.scores(q, tile.count, task.keys.f32 + rows.begin * head_dim, rows.size(), head_dim, task.scale, p,
                  tile.stride);
  else
    int8_scores(kernel, q, tile.count, task.keys, rows.begin, rows.size(), head_dim, task.scale, p, tile.stride,
                blocks);

  // While the exponentials are computed the memory would be idle.
  const float* values = task.values.f32 == nullptr ? nullptr : task.values.f32 + rows.begin * head_dim;
  std::size_t ahead = values == nullptr ? 0 : std::min(rows.size() * head_dim * sizeof(float), values_ahead_bytes);
  for (std::size_t u = 0, heads = 0; u < tile.count; u += heads, ahead = 0) {
    const std::size_t head = (tile.query + u) % task.heads;
    heads = std::min(task.heads - head, tile.count - u);  // of one position: they see the same rows
    const RowRange visible = visible_at(task, (tile.query + u) / task.heads);
    float* row = p + u * tile.stride;
    const std::size_t before = visible.begin - rows.begin, n = visible.size();
    float* seen = row + before;
    // 2. soft cap and probabilities, of what these queries see; lanes go by absolute row index, so a window does not
    // shift them
    for (std::size_t h = 0; h < heads && task.capped; ++h) kernel.softcap_row(seen + h * tile.stride, n, task.softcap);
    kernel.softmax_rows(seen, heads, tile.stride, n, visible.begin % kernels::lanes,
                        task.sinks == nullptr ? nullptr : task.sinks + head, values, ahead);
    const std::size_t end = std::min(visible.end, task.acc.size());
    for (std::size_t h = 0; h < heads; ++h, row += tile.stride) {
      // the rest weighs nothing: weighted_sum skips it, whatever its rows hold
      std::fill_n(row, before, 0.0F);
      std::fill(row + before + n, row + rows.size(), 0.0F);
      // 3. importance, positions and then heads ascending
      if (visible.begin < end)
        kernel.add_row(task.acc.data() + visible.begin, row + before, end - visible.begin);
    }
  }
  if (!task.probabilities.empty()) {
    std::fill_n(task.probabilities.begin(), rows.begin, 0.0F);
    std::copy_n(p, rows.size(), task.probabilities.begin() + static_cast<std::ptrdiff_t>(rows.begin));
  }

  // 4. output
  std::fill_n(out, tile.count * head_dim, 0.0F);
  if (values != nullptr)
    kernel.weighted_sum(p, tile.count, tile.stride, values, rows.size(), head_dim, out);
  else
    int8_weighted_sum(kernel, p, tile.count, tile.stride, task.values, rows.begin, rows.size(), head_dim, out, blocks);
  kernel.canonicalize_row(out, tile.count * head_dim);
}

/// Not inlined, so that nothing of it can move out of the caller's FloatEnvironment.
[[gnu::noinline]] void attend_all(const AttendTask& task, float* p) {
  for (std::size_t query = 0; query < task.positions * task.heads; query += queries_at_once)
    attend_tile(task, tile_at(task, query), p);
}

}  // namespace

void attend(const AttendTask& task) {
  std::size_t floats = 0;
  for (std::size_t query = 0; query < task.positions * task.heads; query += queries_at_once)
    floats = std::max(floats, scratch_floats(task, tile_at(task, query)));
  float* p = scratch(floats);
  const FloatEnvironment standard;
  attend_all(task, p);
}

void add_row(const kernels::Table& kernels, std::span<float> acc, std::span<const float> row) {
  const FloatEnvironment standard;
  kernels.add_row(acc.data(), row.data(), row.size());
}

}  // namespace kvcert::optimized
