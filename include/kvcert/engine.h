/* The C interface of an engine that is to be certified: `kvcert certify --engine ./mine.so`.
 *
 * A shared library exports one function, kvcert_engine_v1, which answers with a struct of function pointers. Every
 * operation is optional: a null pointer, or KVCERT_UNSUPPORTED as answer, means that the engine does not have it, and what
 * depends on it is shown as not judged. C11 and C++. Tensors are row-major binary32, and sizes are counts of elements.
 *
 * One kvcert_layer is the cache of one attention layer for one sequence. Calls come one at a time.
 * What the operations mean: docs/certify-your-engine.md. */
#ifndef KVCERT_ENGINE_H
#define KVCERT_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVCERT_ENGINE_ABI 1u

typedef enum kvcert_status {
  KVCERT_OK = 0,
  KVCERT_UNSUPPORTED = 1, /* the engine does not have this operation, or not in this configuration */
  KVCERT_REFUSED = 2,     /* the arguments are at fault, or the state does not allow it; nothing has changed */
  KVCERT_FAILED = 3       /* something broke; always a finding */
} kvcert_status;

typedef enum kvcert_precision { KVCERT_F32 = 0, KVCERT_F16 = 1, KVCERT_BF16 = 2, KVCERT_INT8 = 3 } kvcert_precision;

/* What an engine claims, and then owes. */
enum {
  KVCERT_CLAIMS_CANONICAL = 1u,       /* every output has the canonical bits of docs/arithmetic.md */
  KVCERT_CLAIMS_DETERMINISTIC = 2u,   /* the same history gives the same bits again */
  KVCERT_CLAIMS_BATCH_INVARIANT = 4u, /* a position's bits do not depend on what was computed in the same call */
  KVCERT_CLAIMS_SAME_VARIANTS = 8u    /* all variants (below) give the same bits */
};

typedef struct kvcert_config {
  size_t size; /* sizeof(kvcert_config) of the caller: later versions append members */
  size_t kv_heads, head_dim;
  size_t query_heads; /* query head h reads KV head h / (query_heads / kv_heads); no multiple: refuse */
  size_t window;      /* a position sees itself and the window - 1 positions before it; 0 = everything before it */
  float scale;        /* score = scale * <q, k> */
  float softcap;      /* 0 = none, else score = softcap * tanh(score / softcap), after scaling */
  const float* sinks; /* null, or [query_heads] logits: one more column of the softmax, without a value, not capped */
  uint32_t layer;     /* records of another layer or another identity must be refused */
  uint64_t identity;
  uint32_t variant; /* index into kvcert_engine.variants, else 0 */
} kvcert_config;

typedef struct kvcert_layer kvcert_layer; /* the engine's own */

typedef struct kvcert_engine {
  uint32_t abi; /* KVCERT_ENGINE_ABI */
  size_t size;  /* sizeof(kvcert_engine) of the engine */
  const char* name;
  const char* version;
  uint32_t claims; /* KVCERT_CLAIMS_... */

  /* How numbers are kept and computed: this decides the bound that outputs are held against. */
  kvcert_precision key_storage, value_storage;
  kvcert_precision accumulation; /* of dots, softmax and weighted sums: F32, F16 or BF16 */
  kvcert_precision probability;  /* F16 or BF16: probabilities are rounded to it before they meet the values */
  kvcert_precision query;        /* F16 or BF16: queries are rounded to it first */
  kvcert_precision record;       /* what exported records hold rows in; F32 = as they are stored */
  uint32_t key_group, value_group; /* INT8: how many neighbouring channels share a scale; 0 = the whole row of a head */
  /* Errors of exp and tanh in units of the last place of the accumulation's format; 0 = 4. */
  float exp_ulps, tanh_ulps;
  const char* const* variants; /* null, or a null-terminated list such as {"scalar", "avx2", NULL} */

  /* Lifetime. A configuration the engine does not have: KVCERT_UNSUPPORTED. One that makes no sense: KVCERT_REFUSED. */
  kvcert_status (*create)(const kvcert_config* config, kvcert_layer** layer);
  void (*destroy)(kvcert_layer* layer);

  /* n positions: k, v [n][kv_heads][head_dim]. */
  kvcert_status (*append)(kvcert_layer*, const float* k, const float* v, size_t n);
  /* Stored positions from ... from + n - 1 attend, each what it may see: q, out [n][query_heads][head_dim]. The output
   * is filled with a pattern before the call; what still holds it afterwards was not written. */
  kvcert_status (*attend)(kvcert_layer*, const float* q, size_t from, size_t n, float* out);
  /* append, then attend the same n positions. For engines that keep no more than a window; null: the two calls. */
  kvcert_status (*forward)(kvcert_layer*, const float* k, const float* v, const float* q, size_t n, float* out);
  kvcert_status (*length)(kvcert_layer*, uint64_t* positions);

  /* Taking back. truncate: the last min(n, length) positions; an engine that cannot restores nothing and refuses. */
  kvcert_status (*truncate)(kvcert_layer*, size_t n);
  kvcert_status (*clear)(kvcert_layer*);
  kvcert_status (*snapshot)(kvcert_layer*, void** saved); /* independent of the layer's further life */
  kvcert_status (*restore)(kvcert_layer*, const void* saved);
  void (*free_snapshot)(void* saved);

  /* State records, in the engine's own format. export_state: with bytes null, only the size. import_state is all or nothing. */
  kvcert_status (*export_state)(kvcert_layer*, uint8_t* bytes, size_t capacity, size_t* size);
  kvcert_status (*import_state)(kvcert_layer*, const uint8_t* bytes, size_t size);

  /* Eviction. removed: how many positions went. by mass: within the budget keep and in this order, the earliest sink
   * positions, the latest recent ones of what is left, then the heaviest by importance (equal: earlier first). Kept rows stay in order. */
  kvcert_status (*accumulate)(kvcert_layer*, const float* mass, size_t n); /* importance[p] += mass[p], n = length */
  kvcert_status (*importance)(kvcert_layer*, float* mass, size_t n);       /* n = length */
  kvcert_status (*evict_recent)(kvcert_layer*, size_t keep, size_t* removed);
  kvcert_status (*evict_by_mass)(kvcert_layer*, size_t keep, size_t sink, size_t recent, size_t* removed);

  /* Recurrent state. commit: the vector after n more positions; draft: a tentative one, which accept makes the state (one
   * more position) and discard, truncate, clear and import forget. accept without a draft: refuse. */
  kvcert_status (*commit)(kvcert_layer*, const float* state, size_t floats, size_t n);
  kvcert_status (*draft)(kvcert_layer*, const float* state, size_t floats);
  kvcert_status (*accept)(kvcert_layer*);
  kvcert_status (*discard)(kvcert_layer*);
  kvcert_status (*state)(kvcert_layer*, float* state, size_t capacity, size_t* floats);
} kvcert_engine;

/* The one exported function. options: what --option gave, or "". Null: the options make no sense. */
#if defined(_WIN32)
__declspec(dllexport)
#elif defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const kvcert_engine* kvcert_engine_v1(const char* options);

#ifdef __cplusplus
}
#endif
#endif
