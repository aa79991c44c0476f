// Records of kinds linear and bounded: what a deployed peer wrote comes back as the same bytes, and both decoders agree on
// every neighbour of it. (Kind full is in wire_corpus_test.cpp.)
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "certify/laws/law.hpp"
#include "tests/property.hpp"

using namespace kvcert;

namespace {

using Bytes = std::vector<std::uint8_t>;

struct Record {
  std::string file;
  nlohmann::json layer;
  Bytes bytes;
};

/// The peer's records for layers of these kinds.
std::vector<Record> peer_records() {
  const char* corpus = std::getenv("KVCERT_CORPUS");
  const auto folder = std::filesystem::path(corpus != nullptr ? corpus : "corpus") / "wire" / "peer";
  std::ifstream index(folder / "index.json");
  std::vector<Record> records;
  const auto parsed = nlohmann::json::parse(index);
  for (const auto& item : parsed.at("records")) {
    if (item.at("layer").at("kind") == "full" || item.at("verdict") != "accept") continue;
    std::ifstream file(folder / item.at("file").get<std::string>(), std::ios::binary);
    records.push_back({item.at("file"), item.at("layer"), {std::istreambuf_iterator<char>(file), {}}});
  }
  return records;
}

template <class Cache>
Cache layer_for(const Record& record) {
  using certify::must;
  auto layer = must(Cache::create(Geometry{record.layer.at("kv_heads"), record.layer.at("head_dim")}), "create");
  layer.set_wire_layer(record.layer.at("layer"));
  layer.set_wire_identity(std::stoull(record.layer.at("identity").template get<std::string>(), nullptr, 16));
  if (record.layer.at("kind") == "linear") must(layer.set_wire_kind(WireKind::linear), "set_wire_kind");
  if (record.layer.at("kind") == "bounded") must(layer.install_bounded(record.layer.at("window")), "install_bounded");
  return layer;
}

/// One decoder's verdict; a refusal must leave the layer as it was, and accepted bytes must be written again.
template <class Cache>
std::string verdict(const Record& record, const Bytes& bytes) {
  auto layer = layer_for<Cache>(record);
  certify::must(layer.import_wire(record.bytes), "import_wire of the record itself");  // a layer that holds something
  const auto before = certify::observe(layer);
  const auto result = layer.import_wire(bytes);
  if (!result) {
    if (auto change = certify::difference(certify::observe(layer), before)) return "refused, but changed " + *change;
    const Error& e = result.error();
    return fmt::format("{} {} {} {}", name(e.code), e.offset, e.expected, e.found);
  }
  const bool versioned = bytes.size() > wire::offset_f16 && std::equal(wire::magic.begin(), wire::magic.end(), bytes.begin());
  if (!versioned) return "accepted";  // the unversioned body, which is never written
  const auto again = layer.export_wire(bytes[wire::offset_f16] == 0 ? WireFormat::f32 : WireFormat::f16);
  return again && *again == bytes ? "accepted" : "accepted, but not written again";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(wire_kinds)

BOOST_AUTO_TEST_CASE(both_decoders_on_every_neighbour) {
  const auto records = peer_records();
  BOOST_TEST(records.size() == 3U);
  std::size_t neighbours = 0;
  std::size_t accepted = 0;
  for (const Record& record : records) {
    std::vector<Bytes> all{record.bytes};
    for (std::size_t size = 0; size < record.bytes.size() + 4; ++size) {
      all.push_back(record.bytes);
      all.back().resize(size);
    }
    for (std::size_t at = 0; at < record.bytes.size(); ++at) {
      for (unsigned flip : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 128U, 255U}) {
        all.push_back(record.bytes);
        all.back()[at] ^= static_cast<std::uint8_t>(flip);
      }
    }
    BOOST_TEST(verdict<reference::LayerKvCache>(record, record.bytes) == "accepted", record.file);
    for (const Bytes& bytes : all) {
      const auto a = verdict<reference::LayerKvCache>(record, bytes);
      const auto b = verdict<optimized::LayerKvCache>(record, bytes);
      BOOST_TEST_REQUIRE(a == b, record.file << ", " << bytes.size() << " bytes: reference says " << a << ", optimized " << b);
      BOOST_TEST_REQUIRE(a.find(", but") == std::string::npos, record.file << ": " << a);
      accepted += a == "accepted" ? 1 : 0;
      ++neighbours;
    }
  }
  std::cout << neighbours << " neighbours of " << records.size() << " linear and bounded records, " << accepted << " accepted\n";
  BOOST_TEST(neighbours > 4000U);
  BOOST_TEST(accepted > 1000U);
}

BOOST_AUTO_TEST_SUITE_END()
