// What happens when no memory is left: a refused call changes nothing, tried at the allocations of every call of random
// histories.
#include <fmt/format.h>

#include <map>
#include <thread>

#include "certify/player.hpp"
#include "optimized/layer_kv_cache.hpp"
#include "reference/layer_kv_cache.hpp"
#include "tests/allocations.hpp"
#include "tests/property.hpp"

#if KVCERT_COUNTS_ALLOCATIONS
namespace {

using namespace kvcert;
using certify::Move;
using certify::Op;
using certify::Reply;
using tests::starvation;

/// How much the next call on a Starved layer is granted; calls after it are not starved.
struct Plan {
  bool on = false;
  std::uint64_t granted = 0;
};
thread_local Plan plan;

/// Starves one call: only what happens inside the library, not its caller.
class Call {
 public:
  Call() { starvation = {.armed = std::exchange(plan.on, false), .granted = plan.granted, .felt = starvation.felt}; }
  ~Call() { starvation.armed = false; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

#define KVCERT_STARVED(call)                              \
  template <class... A>                                   \
  auto call(A&&... a) {                                   \
    const Call starved;                                   \
    return Layer::call(std::forward<A>(a)...);            \
  }
#define KVCERT_STARVED_CONST(call)                        \
  template <class... A>                                   \
  auto call(A&&... a) const {                             \
    const Call starved;                                   \
    return Layer::call(std::forward<A>(a)...);            \
  }

/// A layer whose calls get as much memory as planned.
template <class Layer>
struct Starved : Layer {
  explicit Starved(Layer layer) : Layer(std::move(layer)) {}
  template <class... A>
  static Result<Starved> create(Geometry geometry, A... storage) {
    auto made = Layer::create(geometry, storage...);
    if (!made) return std::unexpected(made.error());
    return Starved(std::move(*made));
  }
  KVCERT_STARVED(append)
  KVCERT_STARVED(append_chunk)
  KVCERT_STARVED_CONST(attend)
  KVCERT_STARVED_CONST(attend_group)
  KVCERT_STARVED_CONST(attend_group_upto)
  KVCERT_STARVED_CONST(attend_chunk)
  KVCERT_STARVED(accumulate_imp)
  KVCERT_STARVED(truncate_last)
  KVCERT_STARVED(evict_recent)
  KVCERT_STARVED(evict_by_mass)
  KVCERT_STARVED(clear)
  KVCERT_STARVED_CONST(snapshot)
  KVCERT_STARVED(restore)
  KVCERT_STARVED(set_mode)
  KVCERT_STARVED(set_wire_kind)
  KVCERT_STARVED(linear_commit)
  KVCERT_STARVED(linear_set_scratch)
  KVCERT_STARVED(linear_accept_scratch)
  KVCERT_STARVED(discard_linear_scratch)
  KVCERT_STARVED(install_bounded)
  KVCERT_STARVED(bounded_step)
  KVCERT_STARVED_CONST(bounded_snapshot)
  KVCERT_STARVED(bounded_restore)
  KVCERT_STARVED(o1_begin)
  KVCERT_STARVED(o1_push_q)
  KVCERT_STARVED(o1_seal)
  KVCERT_STARVED(o1_step)
  KVCERT_STARVED_CONST(export_wire)
  KVCERT_STARVED(import_wire)
  KVCERT_STARVED(set_sinks)
};

/// Outputs and accumulators of a refused call are as they were.
bool outputs_untouched(const Move& move, const Reply& reply) {
  if (move.op != Op::attend_group && move.op != Op::attend_chunk && move.op != Op::bounded_step) return true;
  std::vector<std::uint32_t> before(move.out_floats, certify::bits(77.0F));
  if (move.op != Op::bounded_step)
    for (const float x : move.acc) before.push_back(certify::bits(x));
  return reply.numbers == before;
}

/// Plays a history on a layer that gets, for every call, no memory, then one allocation's, then two …, until it has all it
/// asks for; and on another that gets all. What was refused, by call; or the sentence of what is wrong.
template <class Layer>
std::optional<std::string> starve(const certify::History& history, std::map<std::string, std::uint64_t>& refused) {
  const Geometry geometry = history.setting.geometry;
  certify::Player<Starved<Layer>> starved(*Starved<Layer>::create(geometry), history.setting);
  certify::Player<Layer> fed(*Layer::create(geometry), history.setting);
  for (std::size_t i = 0; i < history.steps.size(); ++i) {
    const Move move = certify::materialize(history.steps[i], history.setting, fed.situation());
    const std::string name = certify::name(move.op);
    const auto where = [&](const std::string& what) {
      return fmt::format("step {} of {}, {} in state {}: {}", i + 1, history.steps.size(), name, certify::state_name(fed.cache()), what);
    };
    const certify::Observed before = certify::observe(starved.cache());
    Reply wanted, reply;
    std::thread([&] { wanted = fed.play(move); }).join();  // elsewhere, so that this thread's scratch memory does not grow by it
    for (std::uint64_t granted = 0;; granted += 1 + granted / 64) {  // beyond 64 of them, not every one
      auto attempt = starved;
      starvation.felt = false;
      plan = {.on = true, .granted = granted};
      reply = attempt.play(move);
      plan.on = false;
      const auto at = [&](const std::string& what) { return where(fmt::format("with {} allocations granted, {}", granted, what)); };
      if (starvation.felt && reply.refused == ErrorCode::out_of_memory) {
        if (auto changed = difference(before, certify::observe(attempt.cache()))) return at("it is refused and changes " + *changed);
        if (!outputs_untouched(move, reply)) return at("it is refused and writes outputs");
        ++refused[name];
      } else if (starvation.felt && !(reply.refused && reply.refused == wanted.refused)) {
        return at(fmt::format("it is {}", reply.refused ? std::string(kvcert::name(*reply.refused)) : "accepted"));
      } else {  // as with all memory: what was refused may have been no more than an error's text
        if (auto found = difference(wanted, reply)) return at(*found);
        if (auto found = difference(certify::observe(fed.cache()), certify::observe(attempt.cache()))) return at("they differ in " + *found);
        if (starvation.felt) continue;
      }
      starved = std::move(attempt);  // also after a refusal, which is to leave no trace
      if (!starvation.felt) break;
    }
  }
  return std::nullopt;
}

template <class Layer>
void starve_histories(const char* who, std::size_t histories) {
  std::map<std::string, std::uint64_t> refused;
  for (std::uint64_t seed = 0; seed < histories; ++seed) {
    const certify::History history = certify::generate_history(seed, 40);
    std::optional<std::string> found;
    std::thread([&] { found = starve<Layer>(history, refused); }).join();  // its own, which has no scratch memory yet
    BOOST_TEST_REQUIRE(!found.has_value(), "history " << seed << ", " << *found);
  }
  std::string text;
  for (const auto& [name, n] : refused) text += fmt::format(" {} {},", name, n);
  fmt::print("    {}: refused for want of memory:{} in {} histories\n", who, text, histories);
  // Those that no way of writing them could do without memory.
  for (const char* name : {"append", "append_chunk", "attend", "attend_group", "attend_chunk", "snapshot", "restore", "round_trip",
                           "import_record", "install_bounded", "bounded_step", "bounded_snapshot", "o1_push_q", "o1_seal"})
    BOOST_TEST(refused[name] > 0U, name << " was never refused");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(without_memory_the_optimized_cache_changes_nothing) { starve_histories<optimized::LayerKvCache>("optimized", tests::at_level(1000)); }

BOOST_AUTO_TEST_CASE(without_memory_the_reference_changes_nothing) { starve_histories<reference::LayerKvCache>("reference", tests::at_level(80)); }

BOOST_AUTO_TEST_SUITE_END()
#else
BOOST_AUTO_TEST_CASE(memory) { fmt::print("NOT RUN: allocations are neither counted nor refused, they are a sanitizer's\n"); }
#endif
