#include "optimized/attend.hpp"

#include <algorithm>
#include <new>

#include "optimized/buffer.hpp"
#include "optimized/float_environment.hpp"

namespace kvcert::optimized {
namespace {

constexpr std::size_t heads_at_once = 64;

/// Floats from one head's probabilities to the next: whole cache lines, and one more line where the rows would
/// otherwise lie a multiple of 4096 bytes apart, which the cache and the store buffer take for the same place.
std::size_t stride_for(std::size_t visible) {
  const std::size_t rounded = (visible + 15) / 16 * 16;
  return rounded % 1024 == 0 ? rounded + 16 : rounded;
}

/// The thread's scratch, at least `floats` long.
float* scratch(std::size_t floats) {
  thread_local Buffer<float> buffer;
  if (buffer.size() < floats) buffer = Buffer<float>(floats);
  return buffer.data();
}

/// Query heads [head, head + count) of the task; p is the scratch, [count × stride].
void attend_heads(const AttendTask& task, std::size_t head, std::size_t count, float* p, std::size_t stride) {
  const kernels::Table& kernel = *task.kernels;
  const std::size_t visible = task.rows - task.first;
  const std::size_t skipped = task.first * task.head_dim;
  float* out = task.out + head * task.head_dim;

  // 1. scores, soft-capped
  kernel.scores(task.q.data() + head * task.head_dim, count, task.keys + skipped, visible, task.head_dim, task.scale, p,
                stride);
  if (task.capped)
    for (std::size_t h = 0; h < count; ++h) kernel.softcap_row(p + h * stride, visible, task.softcap);

  // 2. probabilities; lanes go by absolute row index, so a window does not shift them
  for (std::size_t h = 0; h < count; ++h)
    kernel.softmax_row(p + h * stride, visible, task.first % kernels::lanes,
                       task.sinks == nullptr ? nullptr : task.sinks + head + h);

  // 3. output
  std::fill_n(out, count * task.head_dim, 0.0F);
  kernel.weighted_sum(p, count, stride, task.values + skipped, visible, task.head_dim, out);
  kernel.canonicalize_row(out, count * task.head_dim);

  // 4. importance, heads ascending
  const std::size_t end = std::min(task.rows, task.acc.size());
  if (task.first < end)
    for (std::size_t h = 0; h < count; ++h)
      kernel.add_row(task.acc.data() + task.first, p + h * stride, end - task.first);
}

/// Not inlined, so that nothing of it can move out of the caller's FloatEnvironment.
[[gnu::noinline]] void attend_all(const AttendTask& task, float* p, std::size_t stride) {
  for (std::size_t head = 0; head < task.heads; head += heads_at_once)
    attend_heads(task, head, std::min(heads_at_once, task.heads - head), p, stride);
  if (task.probabilities.empty()) return;
  std::fill_n(task.probabilities.begin(), task.first, 0.0F);
  std::copy_n(p, task.rows - task.first, task.probabilities.begin() + static_cast<std::ptrdiff_t>(task.first));
}

}  // namespace

void attend(const AttendTask& task) {
  const std::size_t stride = stride_for(task.rows - task.first);
  const std::size_t heads = std::min(heads_at_once, task.heads);
  if (stride > max_allocation_bytes / sizeof(float) / heads) throw std::bad_alloc();
  float* p = scratch(heads * stride);
  const FloatEnvironment standard;
  attend_all(task, p, stride);
}

void add_row(const kernels::Table& kernels, std::span<float> acc, std::span<const float> row) {
  const FloatEnvironment standard;
  kernels.add_row(acc.data(), row.data(), row.size());
}

}  // namespace kvcert::optimized
