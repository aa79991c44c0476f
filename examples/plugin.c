/* A plug-in in C: the smallest engine that can be certified.
 *
 *     cc -std=c11 -O2 -shared -fPIC -Iinclude examples/plugin.c -o plugin.so -lm
 *     kvcert certify --engine ./plugin.so
 *
 * Operations that it does not have stay null: checks that need them are shown as not judged. */
#include <kvcert/engine.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct kvcert_layer {
  kvcert_config config;
  float *sinks, *k, *v; /* k, v [positions][kv_heads][head_dim] */
  size_t positions;
};

static size_t row(const kvcert_layer* l) { return l->config.kv_heads * l->config.head_dim; }

static kvcert_status create(const kvcert_config* config, kvcert_layer** out) {
  if (config->kv_heads == 0 || config->query_heads % config->kv_heads != 0) return KVCERT_REFUSED;
  kvcert_layer* l = calloc(1, sizeof *l);
  l->config = *config;
  if (config->sinks) {
    l->sinks = malloc(config->query_heads * sizeof(float));
    memcpy(l->sinks, config->sinks, config->query_heads * sizeof(float));
  }
  *out = l;
  return KVCERT_OK;
}

static void destroy(kvcert_layer* l) {
  free(l->sinks);
  free(l->k);
  free(l->v);
  free(l);
}

static kvcert_status append(kvcert_layer* l, const float* k, const float* v, size_t n) {
  size_t before = l->positions * row(l), more = n * row(l);
  if (more == 0) return KVCERT_OK;
  l->k = realloc(l->k, (before + more) * sizeof(float));
  l->v = realloc(l->v, (before + more) * sizeof(float));
  memcpy(l->k + before, k, more * sizeof(float));
  memcpy(l->v + before, v, more * sizeof(float));
  l->positions += n;
  return KVCERT_OK;
}

static void attend_head(const kvcert_layer* l, const float* q, size_t head, size_t position, float* out) {
  const size_t dim = l->config.head_dim, window = l->config.window;
  const size_t kv = head / (l->config.query_heads / l->config.kv_heads);
  const size_t first = window == 0 || position + 1 < window ? 0 : position + 1 - window;
  const float cap = l->config.softcap;
  /* Online softmax: the running maximum m, the denominator, and out scaled to m. The sink comes first. */
  float m = l->sinks ? l->sinks[head] : -INFINITY, den = l->sinks ? 1 : 0;
  memset(out, 0, dim * sizeof(float));
  for (size_t p = first; p <= position; ++p) {
    const float *k = l->k + p * row(l) + kv * dim, *v = l->v + p * row(l) + kv * dim;
    float s = 0;
    for (size_t d = 0; d < dim; ++d) s += q[d] * k[d];
    s *= l->config.scale;
    if (cap != 0) s = cap * tanhf(s / cap);
    const float top = s > m ? s : m, shrink = expf(m - top), weight = expf(s - top);
    den = den * shrink + weight;
    for (size_t d = 0; d < dim; ++d) out[d] = out[d] * shrink + weight * v[d];
    m = top;
  }
  for (size_t d = 0; d < dim; ++d) out[d] /= den;
}

static kvcert_status attend(kvcert_layer* l, const float* q, size_t from, size_t n, float* out) {
  const size_t heads = l->config.query_heads, dim = l->config.head_dim;
  if (n > l->positions || from > l->positions - n) return KVCERT_REFUSED;
  for (size_t i = 0; i < n * heads; ++i) attend_head(l, q + i * dim, i % heads, from + i / heads, out + i * dim);
  return KVCERT_OK;
}

static kvcert_status truncate_last(kvcert_layer* l, size_t n) {
  l->positions -= n < l->positions ? n : l->positions;
  return KVCERT_OK;
}

static kvcert_status clear(kvcert_layer* l) { return truncate_last(l, l->positions); }

const kvcert_engine* kvcert_engine_v1(const char* options) {
  static const kvcert_engine engine = {
      .abi = KVCERT_ENGINE_ABI, .size = sizeof(kvcert_engine), .name = "plugin.c", .version = "1", .claims = KVCERT_CLAIMS_DETERMINISTIC,
      .create = create, .destroy = destroy, .append = append, .attend = attend, .truncate = truncate_last, .clear = clear};
  (void)options;
  return &engine;
}
