// libFuzzer's hooks for import_wire: mostly mutations that know the fields, now and then its own.
#include <algorithm>
#include <cstring>

#include "fuzz/mutate_record.hpp"

// Absent under engines that have no mutations of their own to offer.
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

std::size_t give(const kvcert::fuzz::Bytes& input, std::uint8_t* data, std::size_t max_size) {
  const std::size_t size = std::min(input.size(), max_size);
  if (size > 0) std::memcpy(data, input.data(), size);
  return size;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  kvcert::fuzz::Dice dice(seed);
  if (LLVMFuzzerMutate != nullptr && dice.chance(1, 4)) return LLVMFuzzerMutate(data, size, max_size);
  kvcert::fuzz::Bytes input(data, data + size);
  do {
    kvcert::fuzz::mutate_input(input, dice);
  } while (dice.chance(1, 4));
  return give(input, data, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size, const std::uint8_t* second,
                                                 std::size_t second_size, std::uint8_t* out, std::size_t max_size, unsigned seed) {
  kvcert::fuzz::Dice dice(seed);
  return give(kvcert::fuzz::spliced({first, first_size}, {second, second_size}, dice), out, max_size);
}
