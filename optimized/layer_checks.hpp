// Refusals that several topics of the layer share.
#pragma once

#include <string>
#include <string_view>

#include "kvcert/storage.hpp"
#include "optimized/failure.hpp"

namespace kvcert::optimized {

constexpr std::string_view state_name(LayerState state) {
  constexpr std::string_view names[] = {"plain", "collecting", "sealed", "aborted", "bounded", "linear"};
  return names[static_cast<std::size_t>(state)];
}

inline std::unexpected<Error> wrong_state(std::string_view operation, LayerState state) {
  return failure(ErrorCode::wrong_state, 0, static_cast<std::uint64_t>(state),
                 std::string(operation) + " does not work in this layer as it is (" + std::string(state_name(state)) +
                     ")");
}

}  // namespace kvcert::optimized
