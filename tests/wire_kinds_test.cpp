// Records for layers of kinds linear and bounded: the golden records and what a deployed peer wrote, each with its verdict; and
// every neighbour of each, on which three decoders agree. (Kind full is in wire_corpus_test.cpp.)
#include <array>
#include <boost/crc.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "certify/laws/law.hpp"
#include "tests/property.hpp"

using namespace kvcert;

namespace {

using Bytes = std::vector<std::uint8_t>;

struct Record {
  std::string file;
  nlohmann::json layer;
  Bytes bytes;
  std::string verdict;      ///< "accept", or "code offset expected found"
  std::string digest_name;  ///< in neighbours.json
};

std::filesystem::path wire_folder() {
  const char* corpus = std::getenv("KVCERT_CORPUS");
  return std::filesystem::path(corpus != nullptr ? corpus : "corpus") / "wire";
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

/// The records of both indexes that are given to layers of these kinds.
const std::vector<Record>& all_records() {
  static const std::vector<Record> records = [] {
    std::vector<Record> found;
    for (const std::string prefix : {"", "peer/"}) {
      const auto index = read_json(wire_folder() / prefix / "index.json");
      for (const auto& item : index.at("records")) {
        const auto& layer = item.at("layer");
        if (layer.at("kind") == "full") continue;
        Record record{prefix + item.at("file").get<std::string>(), layer, {}, "accept", ""};
        record.digest_name = record.file + (prefix.empty() ? "" : " to a " + layer.at("kind").get<std::string>() + " layer");
        if (item.at("verdict") == "reject") {
          record.verdict = fmt::format("{} {} {} {}", item.at("code").get<std::string>(), item.at("offset").get<std::uint64_t>(),
                                       item.at("expected").get<std::string>(), item.at("found").get<std::string>());
        }
        std::ifstream file(wire_folder() / record.file, std::ios::binary);
        record.bytes.assign(std::istreambuf_iterator<char>(file), {});
        found.push_back(std::move(record));
      }
    }
    return found;
  }();
  return records;
}

template <class Cache>
Cache layer_for(const Record& record) {
  using certify::must;
  auto layer = must(Cache::create(Geometry{record.layer.at("kv_heads"), record.layer.at("head_dim")}), "create");
  layer.set_wire_layer(record.layer.at("layer"));
  layer.set_linear_wire_allowed(record.layer.at("linear_wire_allowed"));
  layer.set_wire_identity(std::stoull(record.layer.at("identity").template get<std::string>(), nullptr, 16));
  if (record.layer.at("kind") == "linear") must(layer.set_wire_kind(WireKind::linear), "set_wire_kind");
  if (record.layer.at("kind") == "bounded") must(layer.install_bounded(record.layer.at("window")), "install_bounded");
  return layer;
}

/// A layer that holds something: a vector and a scratch, or a ring that has wrapped.
template <class Cache>
Cache furnished(const Record& record) {
  using certify::must;
  auto layer = layer_for<Cache>(record);
  const auto [heads, dim] = layer.geometry();
  const std::vector<float> row(heads * dim, 0.75F);
  if (layer.wire_kind() == WireKind::linear) {
    must(layer.linear_commit(row, 3), "linear_commit");
    must(layer.linear_set_scratch(row), "linear_set_scratch");
    return layer;
  }
  if (dim < 2) return layer;  // no pair to turn, so no step
  const auto rope = must(Cache::Rope::create(layer.bounded_window(), std::vector<float>{0.5F}, 1.0F), "Rope::create");
  std::vector<float> out(row.size());
  for (std::size_t i = 0; i < layer.bounded_window() + 2; ++i) must(layer.bounded_step(row, row, row, {}, rope, 1.0F, heads, out), "bounded_step");
  return layer;
}

/// The record that a layer owes for bytes it accepted: the same, or a kind-1 record for an unversioned body.
Bytes owed(const Record& record, const Bytes& bytes) {
  if (bytes.size() >= 4 && std::equal(wire::magic.begin(), wire::magic.end(), bytes.begin())) return bytes;
  Bytes result(wire::magic.begin(), wire::magic.end());
  const auto put = [&](std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) result.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  };
  put(wire::version, 4), put(std::stoull(record.layer.at("identity").get<std::string>(), nullptr, 16), 8), put(record.layer.at("layer"), 4);
  put(1, 1), put(bytes[0], 1), put(0, 2);
  result.insert(result.end(), bytes.begin() + 4, bytes.begin() + 8);  // seq_len is the position
  put(0, 4);
  result.insert(result.end(), bytes.begin() + 8, bytes.begin() + 20);  // geometry and the vector's length
  std::size_t floats = 0;
  for (std::size_t i = 0; i < 4; ++i) floats |= std::size_t{bytes[16 + i]} << (8 * i);
  result.insert(result.end(), bytes.begin() + 24, bytes.begin() + 24 + static_cast<std::ptrdiff_t>(4 * floats));
  return result;
}

/// One decoder's subject: a refusal must leave the layer as it was, and accepted bytes must be written again.
template <class Cache>
class Subject {
 public:
  explicit Subject(const Record& record) : record_(record), pristine_(furnished<Cache>(record)), layer_(pristine_), before_(certify::observe(pristine_)) {}

  std::string verdict(const Bytes& bytes) {
    const auto result = layer_.import_wire(bytes);
    if (!result) {
      if (auto change = certify::difference(certify::observe(layer_), before_)) return "refused, but changed " + *change;
      const Error& e = result.error();
      return fmt::format("{} {} {} {}", name(e.code), e.offset, e.expected, e.found);
    }
    const Bytes due = owed(record_, bytes);
    const auto again = layer_.export_wire(due[wire::offset_f16] == 0 ? WireFormat::f32 : WireFormat::f16);
    const bool same = again && *again == due;
    const auto broken = certify::incoherence(layer_);
    layer_ = pristine_;
    return !same ? "accepted, but not written again" : broken ? "accepted, but " + *broken : "accept";
  }

 private:
  const Record& record_;
  Cache pristine_, layer_;
  certify::Observed before_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(wire_kinds)

using Caches = std::tuple<reference::LayerKvCache, optimized::LayerKvCache>;

BOOST_AUTO_TEST_CASE_TEMPLATE(golden_records_get_their_verdict, Cache, Caches) {
  std::set<std::string> codes;
  std::size_t accepted = 0, peers = 0;
  for (const Record& record : all_records()) {
    const std::string found = Subject<Cache>(record).verdict(record.bytes);
    BOOST_TEST(found == record.verdict, record.file << ": must be " << record.verdict << ", got " << found);
    codes.insert(found.substr(0, found.find(' ')));
    accepted += found == "accept" ? 1 : 0;
    peers += record.file.starts_with("peer/") ? 1 : 0;
  }
  BOOST_TEST(peers >= 3U);
  BOOST_TEST(accepted >= 16U);
  for (const char* code : {"truncated", "unknown_kind", "kind_mismatch", "bad_flag", "position_out_of_range", "geometry_mismatch", "inconsistent_length",
                           "ring_cursor_mismatch", "ring_slot_not_zero", "trailing_bytes", "unversioned_refused"}) {
    BOOST_TEST(codes.count(code) == 1U, "no record for " << code);
  }
}

// The two decoders here, and the one of tools/make_corpus.py, which left a digest of its verdicts. The order of neighbours is
// that of corpus/README.md.
BOOST_AUTO_TEST_CASE(three_decoders_on_every_neighbour) {
  const auto digests = read_json(wire_folder() / "neighbours.json");
  std::size_t neighbours = 0, accepted = 0;
  for (const Record& record : all_records()) {
    Subject<reference::LayerKvCache> reference(record);
    Subject<optimized::LayerKvCache> optimized(record);
    boost::crc_32_type digest;
    const auto judge = [&](const Bytes& bytes) {
      const auto a = reference.verdict(bytes);
      const auto b = optimized.verdict(bytes);
      BOOST_TEST_REQUIRE(a == b, record.file << ", " << bytes.size() << " bytes: reference says " << a << ", optimized " << b);
      BOOST_TEST_REQUIRE(a.find(", but") == std::string::npos, record.file << ": " << a);
      digest.process_bytes((a + "\n").data(), a.size() + 1);
      accepted += a == "accept" ? 1 : 0;
      ++neighbours;
    };
    Bytes bytes = record.bytes;
    for (std::size_t at = 0; at < record.bytes.size(); ++at) {
      for (std::uint8_t mask : std::array<std::uint8_t, 9>{1, 2, 4, 8, 16, 32, 64, 128, 255}) {
        bytes[at] = record.bytes[at] ^ mask;
        judge(bytes);
      }
      bytes[at] = record.bytes[at];
    }
    for (std::size_t length = 0; length < record.bytes.size(); ++length) judge({record.bytes.begin(), record.bytes.begin() + static_cast<std::ptrdiff_t>(length)});
    bytes.push_back(0);
    judge(bytes);
    BOOST_TEST(fmt::format("{:08x}", digest.checksum()) == digests.at(record.digest_name).get<std::string>(),
               record.file << ": tools/make_corpus.py comes to other verdicts; --judge shows each");
  }
  std::cout << "    " << neighbours << " neighbours of " << all_records().size() << " records for linear and bounded layers, " << accepted << " accepted\n";
  BOOST_TEST(all_records().size() >= 88U);
  BOOST_TEST(neighbours > 60'000U);
  BOOST_TEST(accepted > 5'000U);
  BOOST_TEST(accepted < neighbours);
}

BOOST_AUTO_TEST_SUITE_END()
