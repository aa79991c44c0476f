// Appending rows: storing them as they are or as int8, and the freeze of the column field.
#include <algorithm>
#include <string>
#include <utility>

#include "optimized/failure.hpp"
#include "optimized/float_environment.hpp"
#include "optimized/kernels/kernels.hpp"
#include "optimized/quantize.hpp"
#include "optimized/sequence.hpp"

namespace kvcert::optimized {

Result<void> Sequence::append(const float* k, const float* v, std::size_t n, Alive alive,
                              const kernels::Int8Kernels& kernels) {
  if (!keys_.int8 && !values_.int8) {
    append_rows(k, v, n, alive, kernels);
    return {};
  }
  const FloatEnvironment standard;
  const std::uint64_t freeze_at = std::max<std::uint64_t>(length_, q8_freeze_at);
  if (!frozen_ && length_ + n > freeze_at)
    return append_across_freeze(k, v, n, alive, static_cast<std::size_t>(freeze_at - length_), kernels);
  if (auto valid = check_quantizable(k, v, n, alive, kernels); !valid) return valid;
  append_rows(k, v, n, alive, kernels);
  return {};
}

// On a copy: rows that the freeze rewrites must be as they were if a later row, or the freeze itself, is refused. It
// happens once in a sequence.
Result<void> Sequence::append_across_freeze(const float* k, const float* v, std::size_t n, Alive alive,
                                            std::size_t before, const kernels::Int8Kernels& kernels) {
  if (auto valid = check_quantizable(k, v, before, alive, kernels); !valid) return valid;
  Sequence next(*this, length_ + n);
  if (before != 0) next.append_rows(k, v, before, alive, kernels);
  if (!next.freeze(kernels))
    return failure(ErrorCode::non_finite, 0, 0, "a column of the int8 column field would not be finite");
  if (n != before) {
    const std::size_t skipped = before * geometry_.num_kv_heads * geometry_.head_dim;
    if (auto valid = next.check_quantizable(k + skipped, v + skipped, n - before, alive, kernels); !valid) return valid;
    next.append_rows(k + skipped, v + skipped, n - before, alive, kernels);
  }
  swap(next);
  return {};
}

Result<void> Sequence::check_quantizable(const float* k, const float* v, std::size_t n, Alive alive,
                                         const kernels::Int8Kernels& kernels) const {
  const std::size_t head_dim = geometry_.head_dim;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t head = 0; head < geometry_.num_kv_heads; ++head) {
      if (length_ != 0 ? alive_.data()[head] == 0 : !alive.empty() && alive[head] == 0) continue;
      const std::size_t from = (i * geometry_.num_kv_heads + head) * head_dim;
      const bool keys_fit = !keys_.int8 || kernels.quantizable(k + from, columns(keys_, head), head_dim);
      const bool values_fit = !values_.int8 || kernels.quantizable(v + from, columns(values_, head), head_dim);
      if (!keys_fit || !values_fit)
        return failure(ErrorCode::non_finite, 0, 0,
                       std::string(keys_fit ? "v" : "k") + " of KV head " + std::to_string(head) + " at position " +
                           std::to_string(length_ + i) + " is not finite, or not in units of its columns");
    }
  }
  return {};
}

void Sequence::append_rows(const float* k, const float* v, std::size_t n, Alive alive,
                           const kernels::Int8Kernels& kernels) {
  if (length_ == 0) decide_liveness(alive);  // undecided until the end of this call: length_ says so
  const std::size_t heads = geometry_.num_kv_heads;
  const std::size_t head_dim = geometry_.head_dim;
  const std::size_t length = static_cast<std::size_t>(length_);
  // Old memory lives until all rows are in: k, v and alive may point into it.
  const Memory replaced = make_room(length + n, false);
  for (const auto& [tensor, rows] : {std::pair{&keys_, k}, std::pair{&values_, v}}) {
    for (std::size_t head = 0; head < heads; ++head) {
      if (alive_.data()[head] == 0) continue;
      const std::size_t slot = slot_.data()[head];
      const float* column = columns(*tensor, head);
      for (std::size_t i = 0; i < n; ++i) {
        const float* row = rows + (i * heads + head) * head_dim;
        if (tensor->int8)
          kernels.quantize_row(row, column, head_dim, tensor->group, tensor->q8.row(slot, capacity_, length + i),
                               tensor->scales.row(slot, capacity_, length + i));
        else
          std::copy_n(row, head_dim, tensor->f32.row(slot, capacity_, length + i));
      }
    }
  }
  std::fill_n(importance_.data() + length, n, 0.0F);
  length_ = length + n;
}

bool Sequence::freeze(const kernels::Int8Kernels& kernels) {
  with_columns_ = Buffer<std::uint8_t>(alive());
  if (keys_.int8 && !freeze(keys_, kernels)) return false;
  if (values_.int8 && !freeze(values_, kernels)) return false;
  frozen_ = true;
  return true;
}

bool Sequence::freeze(TensorRows& tensor, const kernels::Int8Kernels& kernels) {
  const std::size_t head_dim = geometry_.head_dim;
  const std::size_t length = static_cast<std::size_t>(length_);
  tensor.columns = Buffer<float>(geometry_.num_kv_heads * head_dim);
  std::ranges::fill(tensor.columns.view(), 1.0F);  // of a dead head they are never looked at
  Buffer<float> row(head_dim);
  for (std::size_t head = 0; head < geometry_.num_kv_heads; ++head) {
    if (alive_.data()[head] == 0) continue;
    const std::size_t slot = slot_.data()[head];
    float* column = tensor.columns.data() + head * head_dim;
    if (!column_field(tensor.q8.row(slot, capacity_, 0), tensor.scales.row(slot, capacity_, 0), length, head_dim,
                      tensor.group, column, row.data()))
      return false;
    // Its column is finite, so x̂ is at most √FLT_MAX, and a column is at least 1e-6: every quotient is finite.
    for (std::size_t i = 0; i < length; ++i) {
      std::int8_t* q = tensor.q8.row(slot, capacity_, i);
      float* scales = tensor.scales.row(slot, capacity_, i);
      dequantize_row(q, scales, head_dim, tensor.group, row.data());
      kernels.quantize_row(row.data(), column, head_dim, tensor.group, q, scales);
    }
  }
  return true;
}

}  // namespace kvcert::optimized
