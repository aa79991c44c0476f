// Attention over the layer's rows.
#include <algorithm>
#include <cstdint>
#include <string>

#include "optimized/attend.hpp"
#include "optimized/failure.hpp"
#include "optimized/float_bits.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "optimized/overlap.hpp"

namespace kvcert::optimized {

Result<void> LayerKvCache::check_query(const Query& query, std::size_t positions, std::span<float> out,
                                       std::span<float> acc) const {
  if (auto known = check_head(query.kv_head); !known) return known;

  // With positions × HD over 2^63 − 1 no length of q_group is right, and the number of heads is unknown.
  const bool countable = positions <= max_count / geometry_.head_dim;
  const std::size_t per_head = countable ? positions * geometry_.head_dim : 0;
  const std::size_t q_size = query.q_group.size();
  if (countable && (per_head == 0 ? q_size != 0 : q_size % per_head != 0))
    return failure(ErrorCode::shape_mismatch, per_head, q_size,
                   "q_group has " + std::to_string(q_size) + " elements, a multiple of " + std::to_string(per_head) +
                       " expected");
  if (out.size() != q_size) return wrong_length("out", q_size, out.size());
  if (countable && positions != 0 && !query.sinks.empty() && query.sinks.size() != q_size / per_head)
    return wrong_length("sinks", q_size / per_head, query.sinks.size());

  if (!countable)
    return failure(ErrorCode::invalid_argument, max_count / geometry_.head_dim, positions,
                   "positions x head_dim exceeds 2^63 - 1");
  if (!is_finite(query.scale)) return failure(ErrorCode::invalid_argument, 0, 0, "scale is not finite");
  if (!is_zero(query.softcap) && (is_negative(query.softcap) || !is_finite(query.softcap)))
    return failure(ErrorCode::invalid_argument, 0, 0, "softcap is neither 0 nor finite and positive");
  for (const std::span<const float> output : {out, acc}) {
    const char* which = output.data() == out.data() ? "out" : "acc";
    if (overlap(output, query.q_group) || overlap(output, query.sinks))
      return failure(ErrorCode::invalid_argument, 0, 0, std::string(which) + " overlaps an input");
    if (overlaps_layer(output))
      return failure(ErrorCode::invalid_argument, 0, 0, std::string(which) + " overlaps the layer");
  }
  if (overlap(out, acc)) return failure(ErrorCode::invalid_argument, 0, 0, "out and acc overlap");
  return {};
}

Result<void> LayerKvCache::attend_group(const Query& query, std::span<float> out, std::span<float> acc) const {
  return attend_group_upto(query, SIZE_MAX, out, acc);
}

Result<void> LayerKvCache::attend_group_upto(const Query& query, std::size_t upto, std::span<float> out,
                                             std::span<float> acc) const {
  return catching_memory([&]() -> Result<void> {
    if (auto has_rows = check_rows("attend_group"); !has_rows) return has_rows;
    if (auto valid = check_query(query, 1, out, acc); !valid) return valid;
    const std::size_t heads = query.q_group.size() / geometry_.head_dim;
    if (heads == 0) return {};
    const std::size_t rows = std::min(data_.rows.head_len(query.kv_head), upto);
    if (rows == 0) {
      std::ranges::fill(out, 0.0F);
      return {};
    }
    optimized::attend({.kernels = kernels_,
                       .q = query.q_group,
                       .positions = 1,
                       .heads = heads,
                       .head_dim = geometry_.head_dim,
                       .keys = data_.rows.stored_keys(query.kv_head),
                       .values = data_.rows.stored_values(query.kv_head),
                       .first = std::min(query.first, rows - 1),
                       .end = rows,
                       .window = 0,
                       .scale = query.scale,
                       .capped = !is_zero(query.softcap),
                       .softcap = query.softcap,
                       .sinks = query.sinks.empty() ? nullptr : query.sinks.data(),
                       .out = out.data(),
                       .acc = acc,
                       .probabilities = {}});
    return {};
  });
}

Result<void> LayerKvCache::attend_chunk(const Query& query, std::size_t positions, std::size_t s0, std::size_t window,
                                        std::span<float> out, std::span<float> acc) const {
  return catching_memory([&]() -> Result<void> {
    if (auto has_rows = check_rows("attend_chunk"); !has_rows) return has_rows;
    if (auto valid = check_query(query, positions, out, acc); !valid) return valid;
    if (s0 > seq_len() || positions > seq_len() - s0)
      return failure(ErrorCode::invalid_argument, seq_len(), s0,
                     std::to_string(positions) + " positions from " + std::to_string(s0) +
                         " on are not all below seq_len " + std::to_string(seq_len()));
    if (query.q_group.empty()) return {};
    if (data_.rows.head_len(query.kv_head) == 0) {
      std::ranges::fill(out, 0.0F);
      return {};
    }
    optimized::attend({.kernels = kernels_,
                       .q = query.q_group,
                       .positions = positions,
                       .heads = query.q_group.size() / (positions * geometry_.head_dim),
                       .head_dim = geometry_.head_dim,
                       .keys = data_.rows.stored_keys(query.kv_head),
                       .values = data_.rows.stored_values(query.kv_head),
                       .first = 0,
                       .end = s0 + 1,
                       .window = window,
                       .scale = query.scale,
                       .capped = !is_zero(query.softcap),
                       .softcap = query.softcap,
                       .sinks = query.sinks.empty() ? nullptr : query.sinks.data(),
                       .out = out.data(),
                       .acc = acc,
                       .probabilities = {}});
    return {};
  });
}

Result<Attended> LayerKvCache::attend(std::span<const float> q, std::size_t kv_head) const {
  return catching_memory([&]() -> Result<Attended> {
    if (auto has_rows = check_rows("attend"); !has_rows) return std::unexpected(has_rows.error());
    if (auto known = check_head(kv_head); !known) return std::unexpected(known.error());
    if (q.size() != geometry_.head_dim) return wrong_length("q", geometry_.head_dim, q.size());
    const std::size_t rows = data_.rows.head_len(kv_head);
    Attended result{std::vector<float>(geometry_.head_dim), std::vector<float>(rows)};
    if (rows == 0) return result;
    optimized::attend({.kernels = kernels_,
                       .q = q,
                       .positions = 1,
                       .heads = 1,
                       .head_dim = geometry_.head_dim,
                       .keys = data_.rows.stored_keys(kv_head),
                       .values = data_.rows.stored_values(kv_head),
                       .first = 0,
                       .end = rows,
                       .window = 0,
                       .scale = default_scale(geometry_.head_dim),
                       .capped = false,
                       .softcap = 0,
                       .sinks = nullptr,
                       .out = result.output.data(),
                       .acc = {},
                       .probabilities = result.probabilities});
    return result;
  });
}

}  // namespace kvcert::optimized
