#include "optimized/attend_bounded.hpp"

#include <algorithm>
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

/// The slot of the key at distance Δ from the newest.
std::size_t slot_at(const Ring& ring, std::size_t distance) {
  return static_cast<std::size_t>((ring.position() - 1 - distance) % ring.window());
}

std::size_t scratch_floats(const BoundedTask& task, std::size_t columns) {
  const std::size_t heads = std::min(heads_at_once, task.heads / task.geometry.num_kv_heads);
  const std::size_t floats = padded_stride(columns) + task.geometry.head_dim;  // of arrays in memory: no wrap
  if (floats > max_allocation_bytes / sizeof(float) / heads) throw std::bad_alloc();
  return heads * floats;
}

/// Pairs (i, i + half) turned by the table's row, dimensions past 2 · half as they are.
void rotate(const float* q, const float* cos, const float* sin, std::size_t half, std::size_t head_dim, float* out) {
  for (std::size_t i = 0; i < half; ++i) {
    const float x0 = q[i], x1 = q[i + half];
    out[i] = x0 * cos[i] - x1 * sin[i];
    out[i + half] = x0 * sin[i] + x1 * cos[i];
  }
  std::copy(q + 2 * half, q + head_dim, out + 2 * half);
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
  const float* q = task.q + first * head_dim;
  float* out = task.out + first * head_dim;
  float* rotated = p + heads * stride;

  // 1. scores
  if (sinks != 0)
    kernel.scores(q, heads, task.sinks.keys.data() + kv * sinks * head_dim, sinks, head_dim, task.scale, p, stride);
  for (std::size_t distance = 0; distance < rows; ++distance) {
    const float* cos = task.rope->cos().data() + distance * half;
    const float* sin = task.rope->sin().data() + distance * half;
    for (std::size_t h = 0; h < heads; ++h) rotate(q + h * head_dim, cos, sin, half, head_dim, rotated + h * head_dim);
    kernel.scores(rotated, heads, ring.key(kv, slot_at(ring, distance)), 1, head_dim, task.scale, p + sinks + distance,
                  stride);
  }

  // 2. probabilities
  kernel.softmax_rows(p, heads, stride, sinks + rows, 0, nullptr, nullptr, 0);

  // 3. output
  std::fill_n(out, heads * head_dim, 0.0F);
  if (sinks != 0)
    kernel.weighted_sum(p, heads, stride, task.sinks.values.data() + kv * sinks * head_dim, sinks, head_dim, out);
  for (std::size_t distance = 0; distance < rows; ++distance)
    kernel.weighted_sum(p + sinks + distance, heads, stride, ring.value(kv, slot_at(ring, distance)), 1, head_dim, out);
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
