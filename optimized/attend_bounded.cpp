#include "optimized/attend_bounded.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>

#include "optimized/buffer.hpp"
#include "optimized/float_environment.hpp"
#include "optimized/scratch.hpp"

namespace kvcert::optimized {
namespace {

constexpr std::size_t heads_at_once = 64;

std::size_t sink_rows(const BoundedTask& task) {
  return task.sinks.keys.size() / (task.geometry.num_kv_heads * task.geometry.head_dim);
}

std::size_t window_rows(const Ring& ring) {
  return static_cast<std::size_t>(std::min<std::uint64_t>(ring.position(), ring.window()));
}

/// Rows at distances [distance, distance + count) from the newest, one slot down each.
struct Run {
  std::size_t distance;
  std::size_t slot;  // of the first
  std::size_t count;
};

/// The window's rows, newest first: from the newest's slot down to slot 0, then from the last slot down.
std::array<Run, 2> runs_of(const Ring& ring) {
  const std::size_t rows = window_rows(ring);
  const auto newest = static_cast<std::size_t>((ring.position() - 1) % ring.window());
  const std::size_t first = std::min(rows, newest + 1);
  return {Run{0, newest, first}, Run{first, ring.window() - 1, rows - first}};
}

/// For each of the heads that are taken at once: its weights, and a copy of its query.
std::size_t scratch_floats(const BoundedTask& task, std::size_t columns) {
  const std::size_t heads = std::min(heads_at_once, task.heads / task.geometry.num_kv_heads);
  const std::size_t weights = padded_stride(columns), most = max_allocation_bytes / sizeof(float) / heads;
  if (task.geometry.head_dim > most || weights > most - task.geometry.head_dim) throw std::bad_alloc();
  return heads * (weights + task.geometry.head_dim);
}

/// Query heads [first, first + heads), which share KV head kv.
void attend_heads(const BoundedTask& task, const Ring& ring, std::size_t kv, std::size_t first, std::size_t heads,
                  float* p) {
  const kernels::Table& kernel = *task.kernels;
  const std::size_t head_dim = task.geometry.head_dim;
  const std::size_t sinks = sink_rows(task);
  const std::size_t rows = window_rows(ring);
  const std::size_t stride = padded_stride(sinks + rows);
  const std::size_t half = task.rope->half();
  const auto step = -static_cast<std::ptrdiff_t>(head_dim);
  float* out = task.out + first * head_dim;
  // Every key meets the queries again, so that they had better begin with a cache line, as the scratch does.
  float* q = p + heads * stride;
  std::copy_n(task.q + first * head_dim, heads * head_dim, q);

  // 1. scores
  if (sinks != 0)
    kernel.scores(q, heads, task.sinks.keys.data() + kv * sinks * head_dim, sinks, head_dim, task.scale, p, stride);
  for (const Run& run : runs_of(ring)) {
    if (run.count == 0) continue;
    const std::size_t from = run.distance * half;
    kernel.state->rotated_scores(q, heads, ring.key(kv, run.slot), step, run.count, head_dim,
                                 {task.rope->cos().data() + from, task.rope->sin().data() + from, half}, task.scale,
                                 p + sinks + run.distance, stride);
  }

  // 2. probabilities
  kernel.softmax_rows(p, heads, stride, sinks + rows, 0, nullptr, nullptr, 0);

  // 3. output
  std::fill_n(out, heads * head_dim, 0.0F);
  if (sinks != 0)
    kernel.weighted_sum(p, heads, stride, task.sinks.values.data() + kv * sinks * head_dim, sinks, head_dim, out);
  for (const Run& run : runs_of(ring)) {
    if (run.count == 0) continue;
    kernel.state->stepped_sum(p + sinks + run.distance, heads, stride, ring.value(kv, run.slot), step, run.count, head_dim,
                              out);
  }
  kernel.canonicalize_row(out, heads * head_dim);
}

/// Not inlined, so that nothing of it can move out of the caller's FloatEnvironment.
[[gnu::noinline]] void attend_all(const BoundedTask& task, const Ring& ring, float* p) {
  const std::size_t group = task.heads / task.geometry.num_kv_heads;
  for (std::size_t kv = 0; kv < task.geometry.num_kv_heads; ++kv)
    for (std::size_t head = 0; head < group; head += heads_at_once)
      attend_heads(task, ring, kv, kv * group + head, std::min(heads_at_once, group - head), p);
}

}  // namespace

void reserve_bounded(const BoundedTask& task, const Ring& ring) {
  scratch(scratch_floats(task, sink_rows(task) + std::min(window_rows(ring) + 1, ring.window())));
}

void attend_bounded(const BoundedTask& task, const Ring& ring) {
  float* p = scratch(scratch_floats(task, sink_rows(task) + window_rows(ring)));
  const FloatEnvironment standard;
  attend_all(task, ring, p);
}

}  // namespace kvcert::optimized
