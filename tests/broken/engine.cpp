#include "tests/broken/engine.hpp"

#include <algorithm>
#include <cfenv>
#include <cstring>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace broken {

Fault planted = Fault::none;
Kind kind = Kind::scalar;

namespace {

Layer& of(kvcert_layer* layer) { return *reinterpret_cast<Layer*>(layer); }

kvcert_status create(const kvcert_config* c, kvcert_layer** layer) {
  if (c->query_heads % c->kv_heads != 0 && !is(Fault::heads_uneven_accepted)) return KVCERT_REFUSED;
  auto* made = new Layer;
  made->kv_heads = c->kv_heads;
  made->dim = c->head_dim;
  made->query_heads = c->query_heads;
  made->window = c->window;
  made->scale = c->scale;
  made->softcap = c->softcap;
  if (c->sinks != nullptr) made->sinks.assign(c->sinks, c->sinks + c->query_heads);
  made->layer = c->layer;
  made->identity = c->identity;
  made->variant = c->variant;
  *layer = reinterpret_cast<kvcert_layer*>(made);
  return KVCERT_OK;
}

void destroy(kvcert_layer* layer) { delete &of(layer); }

void append_one(Layer& l, const float* k, const float* v, std::size_t key_stride, std::size_t value_stride) {
  const std::size_t at = l.slot(l.T) * l.row();
  Rows& rows = *l.rows;
  if (rows.k.size() < at + l.row()) {
    rows.k.resize(at + l.row());
    rows.v.resize(at + l.row());
  }
  for (std::size_t h = 0; h < l.kv_heads; ++h) {
    const std::size_t to = at + h * l.dim;
    store(k + h * key_stride, &rows.k[to], l.dim, true, l.T == 0 ? k + h * key_stride : &rows.k[h * l.dim]);
    store(v + h * value_stride, &rows.v[to], l.dim, false, l.T == 0 ? v + h * value_stride : &rows.v[h * l.dim]);
  }
  const bool inherits = is(Fault::importance_not_reset) && rows.importance.size() > l.T;
  if (!inherits) {
    rows.importance.resize(l.T);
    rows.importance.push_back(0);
  }
  ++l.T;
}

kvcert_status append(kvcert_layer* layer, const float* k, const float* v, std::size_t n) {
  Layer& l = of(layer);
  for (std::size_t i = 0; i < n; ++i) {
    if (is(Fault::layout_head_major) && n > 1) append_one(l, k + i * l.dim, v + i * l.dim, n * l.dim, n * l.dim);
    else append_one(l, k + i * l.row(), v + i * l.row(), l.dim, l.dim);
  }
  if (n > 0) l.last_batch = n;
  l.just_truncated = false;
  return KVCERT_OK;
}

void misbehave(std::size_t n) {
  if (n != 33) return;
  if (is(Fault::crashes)) {
    int* volatile nowhere = nullptr;
    *nowhere = 1;
  }
  volatile bool forever = is(Fault::hangs);
  while (forever) {
  }
  if (is(Fault::eats_memory)) {
    for (std::vector<std::vector<char>> heap;;) heap.emplace_back(std::size_t{1} << 24U, 'x');
  }
}

void attend_positions(const Layer& l, const float* q, std::size_t from, std::size_t n, float* out) {
  misbehave(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t h = 0; h < l.query_heads; ++h) {
      const std::size_t at = (i * l.query_heads + h) * l.dim;
      std::vector<float> head(l.dim);
      attend_head(l, q + at, h, from + i, i, n, head.data());
      const std::size_t written = is(Fault::output_unwritten) ? l.dim / 4 * 4 : l.dim;
      std::copy_n(head.begin(), written, out + at);
    }
  }
  if (is(Fault::writes_past_end)) out[n * l.query_heads * l.dim] = 0;
#if defined(__x86_64__)
  if (is(Fault::leaves_ftz_on)) _mm_setcsr(_mm_getcsr() | 0x8040U);
#endif
  if (is(Fault::leaves_rounding)) std::fesetround(FE_TOWARDZERO);
}

kvcert_status attend(kvcert_layer* layer, const float* q, std::size_t from, std::size_t n, float* out) {
  const Layer& l = of(layer);
  if (is(Fault::reads_unchecked)) {
    std::fill(out, out + std::min<std::size_t>(n, 64) * l.query_heads * l.dim, 0.0F);
    if (n > l.T || from > l.T - n) return KVCERT_OK;
  }
  if (n > l.T || from > l.T - n) return KVCERT_REFUSED;
  // A ring has overwritten what earlier positions saw.
  if (kind == Kind::ring && l.window != 0 && l.T > l.window && (n > 1 || from + 1 != l.T)) return KVCERT_UNSUPPORTED;
  attend_positions(l, q, from, n, out);
  return KVCERT_OK;
}

kvcert_status forward(kvcert_layer* layer, const float* k, const float* v, const float* q, std::size_t n, float* out) {
  Layer& l = of(layer);
  if (kind != Kind::ring || is(Fault::ring_chunk_overwrites)) {
    append(layer, k, v, n);
    attend_positions(l, q, l.T - n, n, out);
    return KVCERT_OK;
  }
  for (std::size_t i = 0; i < n; ++i) {
    append(layer, k + i * l.row(), v + i * l.row(), 1);
    attend_positions(l, q + i * l.query_heads * l.dim, l.T - 1, 1, out + i * l.query_heads * l.dim);
  }
  l.last_batch = n;
  return KVCERT_OK;
}

kvcert_status length(kvcert_layer* layer, std::uint64_t* positions) {
  *positions = of(layer).T + of(layer).committed;
  return KVCERT_OK;
}

kvcert_status truncate(kvcert_layer* layer, std::size_t n) {
  Layer& l = of(layer);
  if (is(Fault::truncate_saturates_not) && n > l.T) return KVCERT_OK;
  if (is(Fault::truncate_one_more)) ++n;
  if (is(Fault::truncate_one_less) && n > 0) --n;
  if (is(Fault::truncate_whole_batch)) n = l.last_batch;
  if (is(Fault::truncate_second_ignored) && l.just_truncated) n = 0;
  if (kind == Kind::ring && l.window != 0 && l.T > l.window && n > 0 && !is(Fault::truncate_wrapped)) return KVCERT_REFUSED;
  const std::size_t before = l.T;
  l.T -= std::min(n, l.T);
  if (is(Fault::truncate_counts_only) && l.T != before) {  // the newest rows stay, the ones before them go
    auto& rows = *l.rows;
    rows.k.erase(rows.k.begin(), rows.k.begin() + static_cast<std::ptrdiff_t>((before - l.T) * l.row()));
    rows.v.erase(rows.v.begin(), rows.v.begin() + static_cast<std::ptrdiff_t>((before - l.T) * l.row()));
  }
  l.just_truncated = true;
  l.draft.reset();
  return KVCERT_OK;
}

kvcert_status clear(kvcert_layer* layer) {
  Layer& l = of(layer);
  l.T = is(Fault::clear_leaves_row) ? std::min<std::size_t>(l.T, 1) : 0;
  l.committed = 0;
  l.state.clear();
  l.draft.reset();
  return KVCERT_OK;
}

kvcert_status snapshot(kvcert_layer* layer, void** saved) {
  auto* copy = new Layer(of(layer));
  if (!is(Fault::snapshot_aliases)) copy->rows = std::make_shared<Rows>(*copy->rows);
  *saved = copy;
  return KVCERT_OK;
}

kvcert_status restore(kvcert_layer* layer, const void* saved) {
  Layer& l = of(layer);
  const Layer before = l;
  l = *static_cast<const Layer*>(saved);
  if (!is(Fault::snapshot_aliases)) l.rows = std::make_shared<Rows>(*l.rows);
  if (is(Fault::restore_keys_only)) {
    const std::size_t common = std::min(l.rows->v.size(), before.rows->v.size());
    std::copy_n(before.rows->v.begin(), common, l.rows->v.begin());
  }
  if (is(Fault::restore_keeps_length)) {
    *l.rows = *before.rows;
    l.T = before.T;
  }
  if (is(Fault::recurrent_not_restored)) {
    l.state = before.state;
    l.committed = before.committed;
  }
  return KVCERT_OK;
}

void free_snapshot(void* saved) { delete static_cast<Layer*>(saved); }

// --- Records: a header, then rows, importance and recurrent state, all of it binary32 ----------------------------------

struct Header {
  char magic[4] = {'K', 'V', 'T', '1'};
  std::uint32_t layer = 0;
  std::uint64_t identity = 0, kv_heads = 0, dim = 0, T = 0, rows = 0, importance = 0, state = 0, committed = 0;
};

std::vector<std::uint8_t> record_of(const Layer& l) {
  std::vector<float> k = l.rows->k;
  std::vector<float> v = l.rows->v;
  if (kind != Kind::ring || l.window == 0) {
    k.resize(l.T * l.row());
    v.resize(l.T * l.row());
  }
  std::vector<float> importance = l.rows->importance;
  importance.resize(l.T);
  Header h;
  h.layer = l.layer;
  h.identity = l.identity;
  h.kv_heads = l.kv_heads;
  h.dim = l.dim;
  h.T = l.T;
  h.rows = k.size();
  h.importance = importance.size();
  h.state = l.state.size();
  h.committed = l.committed;
  std::vector<std::uint8_t> bytes(sizeof(Header));
  std::memcpy(bytes.data(), &h, sizeof(Header));
  const std::vector<float>* const parts[] = {&k, &v, &importance, &l.state};
  for (const auto* part : parts) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(part->data());
    bytes.insert(bytes.end(), from, from + part->size() * sizeof(float));
  }
  return bytes;
}

kvcert_status export_state(kvcert_layer* layer, std::uint8_t* bytes, std::size_t capacity, std::size_t* size) {
  const auto record = record_of(of(layer));
  *size = record.size();
  if (bytes == nullptr) return KVCERT_OK;
  if (capacity < record.size()) return KVCERT_REFUSED;
  std::copy(record.begin(), record.end(), bytes);
  return KVCERT_OK;
}

kvcert_status import_state(kvcert_layer* layer, const std::uint8_t* bytes, std::size_t size) {
  Layer& l = of(layer);
  if (is(Fault::import_refused_half)) l.T = 0;
  Header h;
  if (size < sizeof(Header)) return is(Fault::import_accepts_cut) ? KVCERT_OK : KVCERT_REFUSED;
  std::memcpy(&h, bytes, sizeof(Header));
  const std::size_t whole = sizeof(Header) + (2 * h.rows + h.importance + h.state) * sizeof(float);
  if (size != whole) return is(Fault::import_accepts_cut) ? KVCERT_OK : KVCERT_REFUSED;
  if (h.kv_heads != l.kv_heads || h.dim != l.dim) return KVCERT_REFUSED;
  if (h.layer != l.layer && !is(Fault::import_ignores_layer)) return KVCERT_REFUSED;
  if (h.identity != l.identity && !is(Fault::import_ignores_identity)) return KVCERT_REFUSED;
  const std::uint8_t* at = bytes + sizeof(Header);
  const auto take = [&](std::size_t n) {
    std::vector<float> part(n);
    if (n > 0) std::memcpy(part.data(), at, n * sizeof(float));
    at += n * sizeof(float);
    return part;
  };
  l.rows->k = take(h.rows);
  l.rows->v = take(h.rows);
  l.rows->importance = take(h.importance);
  l.state = take(h.state);
  l.T = h.T;
  l.committed = h.committed;
  l.draft.reset();
  if (is(Fault::import_loses_last) && l.T > 0) --l.T;
  if (is(Fault::import_f16_unsaid)) {
    for (float& x : l.rows->v) x = f16_round(x);
    for (float& x : l.rows->k) x = f16_round(x);
  }
  return KVCERT_OK;
}

// --- Eviction ------------------------------------------------------------------------------------------------------------

kvcert_status accumulate(kvcert_layer* layer, const float* mass, std::size_t n) {
  Layer& l = of(layer);
  if (n != l.T) return KVCERT_REFUSED;
  for (std::size_t p = 0; p < n; ++p) l.rows->importance[p] += mass[p];
  return KVCERT_OK;
}

kvcert_status importance(kvcert_layer* layer, float* mass, std::size_t n) {
  const Layer& l = of(layer);
  if (n != l.T) return KVCERT_REFUSED;
  std::copy_n(l.rows->importance.begin(), n, mass);
  return KVCERT_OK;
}

void keep(Layer& l, const std::vector<std::size_t>& kept) {
  Rows next;
  for (std::size_t p : kept) {
    const auto at = static_cast<std::ptrdiff_t>(p * l.row());
    next.k.insert(next.k.end(), l.rows->k.begin() + at, l.rows->k.begin() + at + static_cast<std::ptrdiff_t>(l.row()));
    next.v.insert(next.v.end(), l.rows->v.begin() + at, l.rows->v.begin() + at + static_cast<std::ptrdiff_t>(l.row()));
    next.importance.push_back(l.rows->importance[p]);
  }
  if (is(Fault::importance_stale)) next.importance.assign(l.rows->importance.begin(), l.rows->importance.begin() + static_cast<std::ptrdiff_t>(kept.size()));
  *l.rows = std::move(next);
  l.T = kept.size();
}

kvcert_status evict_by_mass(kvcert_layer* layer, std::size_t budget, std::size_t sink, std::size_t recent, std::size_t* removed) {
  Layer& l = of(layer);
  *removed = 0;
  if (kind == Kind::ring && l.window != 0) return KVCERT_UNSUPPORTED;
  if (l.T <= budget) return KVCERT_OK;
  if (is(Fault::evict_drops_sinks)) sink = 0;
  if (is(Fault::evict_drops_newest)) recent = 0;
  const std::size_t first = std::min(sink, budget);
  const std::size_t last = std::min({recent, budget - first, l.T - first});
  std::vector<std::size_t> kept, middle;
  for (std::size_t p = 0; p < l.T; ++p) (p < first || p >= l.T - last ? kept : middle).push_back(p);
  std::stable_sort(middle.begin(), middle.end(), [&](std::size_t a, std::size_t b) { return l.rows->importance[a] > l.rows->importance[b]; });
  for (std::size_t i = 0; kept.size() < budget; ++i) kept.push_back(middle[i]);
  if (!is(Fault::evict_unordered)) std::sort(kept.begin(), kept.end());
  *removed = l.T - kept.size();
  keep(l, kept);
  return KVCERT_OK;
}

kvcert_status evict_recent(kvcert_layer* layer, std::size_t budget, std::size_t* removed) {
  if (is(Fault::evict_off_by_one) && budget > 0) --budget;
  return evict_by_mass(layer, budget, 0, budget, removed);
}

// --- Recurrent state -------------------------------------------------------------------------------------------------------

kvcert_status commit(kvcert_layer* layer, const float* state, std::size_t floats, std::size_t n) {
  of(layer).state.assign(state, state + floats);
  of(layer).committed += n;
  return KVCERT_OK;
}

kvcert_status draft(kvcert_layer* layer, const float* state, std::size_t floats) {
  of(layer).draft.emplace(state, state + floats);
  return KVCERT_OK;
}

kvcert_status accept(kvcert_layer* layer) {
  Layer& l = of(layer);
  if (!l.draft) return KVCERT_REFUSED;
  l.state = *l.draft;
  l.draft.reset();
  ++l.committed;
  return KVCERT_OK;
}

kvcert_status discard(kvcert_layer* layer) {
  if (!is(Fault::draft_not_discarded)) of(layer).draft.reset();
  return KVCERT_OK;
}

kvcert_status state(kvcert_layer* layer, float* numbers, std::size_t capacity, std::size_t* floats) {
  const Layer& l = of(layer);
  *floats = l.state.size();
  if (capacity < l.state.size()) return KVCERT_REFUSED;
  std::copy(l.state.begin(), l.state.end(), numbers);
  return KVCERT_OK;
}

/// False: there is no such fault or kind.
bool choose(const std::string& option) {
  if (option.empty()) return true;
  const std::string value = option.substr(option.find('=') + 1);
#define FAULT(fault_name, fault_kind, check, what, hint) \
  if (option == "fault=" #fault_name) {                  \
    planted = Fault::fault_name;                         \
    kind = Kind::fault_kind;                             \
    return true;                                         \
  }
#include "tests/broken/faults.inc"
#undef FAULT
  constexpr const char* kinds[] = {"scalar", "online", "ring", "f16", "bf16", "int8", "canonical"};
  for (std::size_t i = 0; i < std::size(kinds); ++i) {
    if (option == std::string("kind=") + kinds[i]) {
      kind = static_cast<Kind>(i);
      return true;
    }
  }
  return false;
}

}  // namespace
}  // namespace broken

extern "C" const kvcert_engine* kvcert_engine_v1(const char* options) {
  using namespace broken;
  static kvcert_engine e{};
  static const char* const variants[] = {"plain", "unrolled", nullptr};
  if (!choose(options)) return nullptr;
  e.abi = KVCERT_ENGINE_ABI;
  e.size = sizeof(kvcert_engine);
  e.name = "a plain engine for tests";
  e.version = "1";
  e.claims = KVCERT_CLAIMS_DETERMINISTIC;
  if (kind == Kind::scalar) e.claims |= KVCERT_CLAIMS_BATCH_INVARIANT;
  if (kind == Kind::canonical) e.claims |= KVCERT_CLAIMS_CANONICAL | KVCERT_CLAIMS_BATCH_INVARIANT;
  if (is(Fault::one_variant_only)) {
    e.claims |= KVCERT_CLAIMS_SAME_VARIANTS;
    e.variants = variants;
  }
  const kvcert_precision storage = kind == Kind::f16 ? KVCERT_F16 : kind == Kind::bf16 ? KVCERT_BF16 : kind == Kind::int8 ? KVCERT_INT8 : KVCERT_F32;
  e.key_storage = e.value_storage = storage;
  e.key_group = 32;
  e.create = create;
  e.destroy = destroy;
  e.append = append;
  e.attend = attend;
  e.forward = forward;
  e.length = length;
  e.truncate = truncate;
  e.clear = clear;
  e.snapshot = snapshot;
  e.restore = restore;
  e.free_snapshot = free_snapshot;
  e.export_state = export_state;
  e.import_state = import_state;
  e.accumulate = accumulate;
  e.importance = importance;
  e.evict_recent = evict_recent;
  e.evict_by_mass = evict_by_mass;
  e.commit = commit;
  e.draft = draft;
  e.accept = accept;
  e.discard = discard;
  e.state = state;
  return &e;
}
