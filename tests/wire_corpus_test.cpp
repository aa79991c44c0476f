// The golden records: what must be accepted comes back as the same bytes, what must be refused is refused for the
// stated reason and changes nothing, and so it is for every neighbour of every record.
#include <fmt/format.h>

#include <array>
#include <boost/crc.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "fuzz/wire_pair.hpp"

namespace {

using namespace kvcert;
using fuzz::BothDecoders;
using fuzz::Bytes;
using fuzz::Subject;
using fuzz::WireLayer;

using Caches = std::tuple<reference::LayerKvCache, optimized::LayerKvCache>;

struct Golden {
  std::string file;
  WireLayer layer;
  Bytes bytes;
  std::string refusal;  ///< "code offset expected found", empty for a record to be accepted
};

std::filesystem::path wire_folder() {
  const char* corpus = std::getenv("KVCERT_CORPUS");
  return std::filesystem::path(corpus != nullptr ? corpus : "corpus") / "wire";
}

Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("{} cannot be read (KVCERT_CORPUS names the corpus)", path.string()));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

nlohmann::json read_json(const std::filesystem::path& path) { return nlohmann::json::parse(read_bytes(path)); }

/// All records of both indexes that are given to a full layer.
const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all = [] {
    std::vector<Golden> records;
    for (const std::string prefix : {"", "peer/"}) {
      const auto index = read_json(wire_folder() / prefix / "index.json");
      for (const auto& item : index.at("records")) {
        const auto& layer = item.at("layer");
        if (layer.at("kind") != "full") continue;  // for layers that this version does not have
        Golden golden;
        golden.file = prefix + item.at("file").get<std::string>();
        golden.layer = {.geometry = {layer.at("kv_heads"), layer.at("head_dim")},
                        .layer = layer.at("layer"),
                        .identity = std::stoull(layer.at("identity").get<std::string>(), nullptr, 16),
                        .linear_wire_allowed = layer.at("linear_wire_allowed")};
        golden.bytes = read_bytes(wire_folder() / golden.file);
        if (item.at("verdict") == "reject") {
          golden.refusal = fmt::format("{} {} {} {}", item.at("code").get<std::string>(),
                                       item.at("offset").get<std::uint64_t>(), item.at("expected").get<std::string>(),
                                       item.at("found").get<std::string>());
        }
        records.push_back(std::move(golden));
      }
    }
    return records;
  }();
  return all;
}

/// A verdict as the corpus writes it: "accept", or "code offset expected found".
std::string line(const std::optional<Error>& refusal) {
  if (!refusal) return "accept";
  return fmt::format("{} {} {} {}", name(refusal->code), refusal->offset, refusal->expected, refusal->found);
}

/// Every single-bit flip and complement of every byte, then every truncation, then one byte more. The order is that of
/// tools/make_corpus.py, whose digest of all verdicts is compared below.
template <class Visit>
void for_each_neighbour(const Bytes& bytes, Visit&& visit) {
  constexpr std::array<std::uint8_t, 9> masks{1, 2, 4, 8, 16, 32, 64, 128, 255};
  Bytes neighbour = bytes;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (std::uint8_t mask : masks) {
      neighbour[at] = bytes[at] ^ mask;
      visit(neighbour, [&] { return fmt::format("byte {} ^ {:#04x}", at, mask); });
    }
    neighbour[at] = bytes[at];
  }
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    visit(std::span(bytes).first(length), [&] { return fmt::format("cut to {} bytes", length); });
  }
  neighbour.push_back(0);
  visit(neighbour, [] { return std::string("one byte longer"); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(wire_corpus)

BOOST_AUTO_TEST_CASE_TEMPLATE(accepted_records_are_written_again_to_the_same_bytes, Cache, Caches) {
  std::size_t count = 0;
  for (const auto& golden : goldens()) {
    if (!golden.refusal.empty()) continue;
    ++count;
    std::optional<std::string> problem;
    const auto refusal = Subject<Cache>(golden.layer).import(golden.bytes, problem);
    BOOST_CHECK_MESSAGE(!refusal, fmt::format("{}: must be accepted, got {}", golden.file, line(refusal)));
    BOOST_CHECK_MESSAGE(!problem, fmt::format("{}: {}", golden.file, problem.value_or("")));
  }
  BOOST_TEST_MESSAGE(count << " records accepted");
  BOOST_TEST(count >= 29U);  // what the corpus had when this was written: it may grow, not vanish
}

BOOST_AUTO_TEST_CASE_TEMPLATE(refused_records_name_the_first_fault_and_change_nothing, Cache, Caches) {
  std::map<std::string, std::size_t> codes;
  for (const auto& golden : goldens()) {
    if (golden.refusal.empty()) continue;
    ++codes[golden.refusal.substr(0, golden.refusal.find(' '))];
    std::optional<std::string> problem;
    const auto refusal = Subject<Cache>(golden.layer).import(golden.bytes, problem);
    BOOST_CHECK_MESSAGE(line(refusal) == golden.refusal,
                        fmt::format("{}: must be {}, got {}", golden.file, golden.refusal, line(refusal)));
    BOOST_CHECK_MESSAGE(!problem, fmt::format("{}: {}", golden.file, problem.value_or("")));
  }
  BOOST_TEST_MESSAGE(codes.size() << " codes refused");
  BOOST_TEST(codes.size() == 14U);  // every decoding code a full layer can give
}

// Three decoders: the two here, and the one of tools/make_corpus.py, which left a digest of its verdicts in the corpus.
BOOST_AUTO_TEST_CASE(all_decoders_judge_every_flip_and_truncation_alike) {
  const auto digests = read_json(wire_folder() / "neighbours.json");
  std::size_t count = 0, accepted = 0, told = 0;
  for (const auto& golden : goldens()) {
    BothDecoders decoders(golden.layer);
    boost::crc_32_type digest;
    std::size_t count_here = 0;
    for_each_neighbour(golden.bytes, [&](std::span<const std::uint8_t> bytes, auto&& describe) {
      const auto answer = decoders.judge(bytes);
      const std::string verdict = line(answer.refusal) + "\n";
      digest.process_bytes(verdict.data(), verdict.size());
      ++count_here;
      accepted += !answer.refusal;
      if (answer.problem && ++told <= 10) {
        BOOST_ERROR(fmt::format("{}, {}: {}", golden.file, describe(), *answer.problem));
      }
    });
    count += count_here;
    BOOST_TEST(count_here == 10 * golden.bytes.size() + 1);
    BOOST_TEST(fmt::format("{:08x}", digest.checksum()) == digests.at(golden.file).get<std::string>(),
               golden.file << ": tools/make_corpus.py comes to other verdicts; --judge shows each");
  }
  BOOST_TEST(told == 0U);
  BOOST_TEST_MESSAGE(count << " neighbours of " << goldens().size() << " records judged, " << accepted << " accepted");
  BOOST_TEST(goldens().size() >= 160U);
  BOOST_TEST(count > 100'000U);
  BOOST_TEST(accepted > 1'000U);  // flips in rows and importance: any bits are a record
  BOOST_TEST(accepted < count);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_binary16_pattern_survives_the_way_there_and_back, Cache, Caches) {
  constexpr std::size_t rows = 256, dim = 256;
  const WireLayer layer{.geometry = {1, dim}};
  Bytes record = fuzz::header(layer, 1, rows);
  for (std::uint64_t field : {1UL, rows, 1UL, dim, 0UL, rows}) fuzz::put(record, field, 4);
  for (std::size_t row = 0; row < rows; ++row) fuzz::put(record, 0, 4);
  for (std::uint64_t first : {0x0000U, 0xFFFFU}) {  // keys ascending, values descending
    fuzz::put(record, rows * dim, 4);
    for (std::uint64_t i = 0; i < rows * dim; ++i) fuzz::put(record, first ^ i, 2);
  }
  std::optional<std::string> problem;
  const auto refusal = Subject<Cache>(layer).import(record, problem);
  BOOST_CHECK_MESSAGE(!refusal, line(refusal));
  BOOST_CHECK_MESSAGE(!problem, problem.value_or(""));
}

BOOST_AUTO_TEST_SUITE_END()
