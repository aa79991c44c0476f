// Everything the binary reads from people, as any bytes: each reader gives an answer or throws a std::exception with a sentence,
// asks for no more memory than a multiple of the input, and takes what it writes.
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "certify/record_fields.hpp"
#include "certify/replay_file.hpp"
#include "certify/test_case.hpp"
#include "fuzz/allocations.hpp"
#include "fuzz/fail.hpp"

namespace {

using namespace kvcert;
using nlohmann::json;
using fuzz::fail;

/// Whether the laws may be run on a case without looking at its shapes again.
bool well_formed(const certify::TestCase& test) {
  const std::size_t rows = test.positions * test.row_floats(), dim = test.geometry.head_dim;
  return dim >= 1 && test.alive.size() == test.geometry.num_kv_heads && test.kv_head < test.alive.size() && test.k.size() == rows &&
         test.v.size() == rows && !test.q.empty() && test.q.size() % dim == 0 && (test.sinks.empty() || test.sinks.size() == test.heads());
}

void read_test_case(std::string_view text) {
  const certify::TestCase test = certify::test_case_from_json(json::parse(text));
  if (!well_formed(test)) fail("a case was taken whose tensors do not fit it");
  if (!(certify::test_case_from_json(certify::to_json(test)) == test)) fail("a case is not the one that was written");
}

void read_replay_file(std::string_view text) {
  const certify::ReplayFile read = certify::replay_file_from_json(json::parse(text));
  const json written{{"engine", read.engine}, {"group", read.group}, {"check", read.check}, {"index", read.index}, {"case", to_json(read.test)}};
  if (!(certify::replay_file_from_json(written).test == read.test)) fail("a replay file is not the one that was written");
}

/// What `wire show` prints must tile the bytes, from the first to where it says that it stopped.
void show_record(std::string_view text) {
  std::vector<std::uint8_t> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  const certify::RecordFields record = certify::read_fields(bytes);
  std::size_t at = 0;
  for (const certify::RecordField& field : record.fields) {
    if (field.offset != at || field.bytes > bytes.size() - at) fail(fmt::format("wire show: {} at {} of {} bytes, after {}", field.name, field.offset, bytes.size(), at));
    at += field.bytes;
  }
  if (record.stopped.empty() && at + record.trailing != bytes.size()) fail("wire show: it says nothing about some of the bytes");
}

/// Adding a reader is one line.
struct Reader {
  const char* name;
  void (*read)(std::string_view);
};
constexpr std::array readers{
    Reader{"test case", read_test_case},
    Reader{"replay file", read_replay_file},
    Reader{"wire show", show_record},
};

/// A JSON value takes 16 bytes and may be written as two characters; each reader parses, writes and parses again.
constexpr std::uint64_t memory_of_input = 512, memory_flat = 65536;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const Reader& reader : readers) {
    const std::uint64_t before = fuzz::bytes_asked_for();
    try {
      reader.read(text);
    } catch (const std::exception& fault) {
      if (std::strlen(fault.what()) == 0) fail(fmt::format("{}: refused without a word", reader.name));
    }
    const std::uint64_t asked = fuzz::bytes_asked_for() - before;
    if (asked > memory_flat + memory_of_input * size) fail(fmt::format("{}: {} bytes of memory for a text of {}", reader.name, asked, size));
  }
  return 0;
}
