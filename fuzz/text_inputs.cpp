// Everything the binary reads from people, as any bytes, given to every reader: text_readers.hpp says what each owes.
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

#include "fuzz/allocations.hpp"
#include "fuzz/fail.hpp"
#include "fuzz/text_readers.hpp"

namespace {

/// A JSON value takes 16 bytes and may be written as two characters; each reader parses, writes and parses again.
constexpr std::uint64_t memory_of_input = 512, memory_flat = 65536;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvcert;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const fuzz::Reader& reader : fuzz::all_readers()) {
    const std::uint64_t before = fuzz::bytes_asked_for();
    try {
      reader.read(text);
    } catch (const std::exception& fault) {
      if (std::strlen(fault.what()) == 0) fuzz::fail(fmt::format("{}: refused without a word", reader.name));
    }
    const std::uint64_t asked = fuzz::bytes_asked_for() - before;
    if (reader.only_reads && asked > memory_flat + memory_of_input * size) {
      fuzz::fail(fmt::format("{}: {} bytes of memory for a text of {}", reader.name, asked, size));
    }
  }
  return 0;
}
