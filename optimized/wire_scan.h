/* The decoder's judgement of a buffer: is it a record of this layer, and where do its parts lie.
 *
 * Plain C, so that Frama-C can prove of the very lines that ship: no byte outside the buffer is read, no arithmetic wraps,
 * and the offsets that come out lie in the buffer (proofs/scan). No allocation, no container, no floating point.
 * docs/wire.md is the specification. */
#ifndef KVCERT_OPTIMIZED_WIRE_SCAN_H
#define KVCERT_OPTIMIZED_WIRE_SCAN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KVCERT_WIRE_FULL = 0, KVCERT_WIRE_LINEAR = 1, KVCERT_WIRE_BOUNDED = 2 };

/* In the order of kvcert::ErrorCode, from `truncated` on. */
enum {
  KVCERT_WIRE_TRUNCATED,
  KVCERT_WIRE_BAD_VERSION,
  KVCERT_WIRE_IDENTITY_MISMATCH,
  KVCERT_WIRE_LAYER_MISMATCH,
  KVCERT_WIRE_UNKNOWN_KIND,
  KVCERT_WIRE_KIND_MISMATCH,
  KVCERT_WIRE_BAD_FLAG,
  KVCERT_WIRE_RESERVED_NOT_ZERO,
  KVCERT_WIRE_POSITION_OUT_OF_RANGE,
  KVCERT_WIRE_POSITION_MISMATCH,
  KVCERT_WIRE_GEOMETRY_MISMATCH,
  KVCERT_WIRE_INCONSISTENT_LENGTH,
  KVCERT_WIRE_RING_CURSOR_MISMATCH,
  KVCERT_WIRE_RING_SLOT_NOT_ZERO,
  KVCERT_WIRE_TRAILING_BYTES,
  KVCERT_WIRE_UNVERSIONED_REFUSED
};

/* What the layer accepts. */
typedef struct KvcertWireLayer {
  uint64_t identity;
  uint32_t layer;
  uint8_t kind;                /* one of the three */
  uint8_t unversioned_allowed; /* 0 or 1 */
  uint64_t num_kv_heads;       /* at least 1 */
  uint64_t head_dim;           /* at least 1 */
  uint64_t window;             /* kind bounded: the ring's, at least 1, in memory; else 0 */
} KvcertWireLayer;

/* An accepted record: lengths in elements, offsets in bytes from the start of the buffer. Parts that its kind does not
 * have are 0. */
typedef struct KvcertWireRecord {
  uint64_t element_bytes; /* of keys, values and ring: 2 for binary16, 4 for binary32 */
  uint64_t seq_len;
  uint64_t linear_len;
  uint64_t linear_offset;     /* f32 × linear_len */
  uint64_t importance_offset; /* f32 × seq_len */
  uint64_t head_length;       /* of a live head: seq_len × head_dim */
  uint64_t heads_offset;      /* per head: u32 k_len, keys, u32 v_len, values */
  uint64_t ring_offset;       /* all of ring_k, then all of ring_v */
} KvcertWireRecord;

/* The first fault, as an Error carries it. */
typedef struct KvcertWireFault {
  uint64_t code;
  uint64_t expected;
  uint64_t found;
  uint64_t offset;
} KvcertWireFault;

/* One head of an accepted record. length is 0 or seq_len × head_dim. */
typedef struct KvcertWireHead {
  uint64_t length;
  uint64_t keys_offset;
  uint64_t values_offset;
} KvcertWireHead;

/*@ logic integer le4{L}(uint8_t *b, integer at) =
      b[at] + 0x100 * b[at + 1] + 0x10000 * b[at + 2] + 0x1000000 * b[at + 3];

    // Under a name, so that provers can take it for an unknown.
    logic integer product(integer a, integer b) = a * b;

    // Bytes of n elements of 2 or 4 bytes.
    logic integer array_size(integer n, integer element) = element == 2 ? 2 * n : 4 * n;

    // Where the head that begins at `at` ends.
    logic integer head_end{L}(uint8_t *b, integer element, integer at) = at + 8 + 2 * array_size(le4(b, at), element);

    // A head of `whole` elements or none begins at `at` and lies in the buffer.
    predicate head_at{L}(uint8_t *b, integer size, integer element, integer whole, integer at) =
      0 <= at && at + 4 <= size && (le4(b, at) == 0 || le4(b, at) == whole) && head_end(b, element, at) <= size &&
      le4(b, at + 4 + array_size(le4(b, at), element)) == le4(b, at);

    // n heads, one behind the other, from `at` to the very end of the buffer.
    predicate heads_at{L}(uint8_t *b, integer size, integer element, integer whole, integer at, integer n) =
      n <= 0 ? at == size
             : head_at(b, size, element, whole, at) &&
               heads_at(b, size, element, whole, head_end(b, element, at), n - 1);

    // An array of n elements that begins at `offset` ends in the buffer.
    predicate array_inside(integer offset, integer n, integer element, integer size) =
      offset + array_size(n, element) <= size;

    predicate an_element(integer n) = n == 2 || n == 4;

    // Elements in a row of the ring, [head][row].
    logic integer ring_row(KvcertWireLayer l) = product(l.window, l.head_dim);

    predicate known_layer(KvcertWireLayer l) =
      l.kind <= 2 &&
      (l.kind == 2 ==> 1 <= l.window && ring_row(l) <= 0x2000000000000000 &&
                        product(l.num_kv_heads, ring_row(l)) <= 0x2000000000000000);

    // An accepted record, read up to `at`. The recurrent vector lies in the buffer.
    predicate vector_inside{L}(KvcertWireRecord *r, KvcertWireLayer l, integer size) =
      l.kind != 2 ==> r->linear_offset + 4 * r->linear_len <= size;

    // Kind full: vector, importance, heads, the last one ending where the buffer ends.
    predicate rows_inside{L}(uint8_t *b, integer size, KvcertWireRecord *r, KvcertWireLayer l, integer rows, integer at) =
      r->importance_offset == r->linear_offset + 4 * r->linear_len &&
      r->heads_offset == r->importance_offset + 4 * rows && r->heads_offset <= size &&
      r->head_length == product(rows, l.head_dim) &&
      (at == size ==> heads_at(b, size, r->element_bytes, r->head_length, r->heads_offset, l.num_kv_heads));

    // Of the first n heads that are handed over the arrays end in the buffer, and each has all elements or none.
    predicate keys_inside{L}(KvcertWireHead *h, integer n, integer element, integer size) =
      \forall integer i; 0 <= i < n ==> array_inside(h[i].keys_offset, h[i].length, element, size);
    predicate values_inside{L}(KvcertWireHead *h, integer n, integer element, integer size) =
      \forall integer i; 0 <= i < n ==> array_inside(h[i].values_offset, h[i].length, element, size);
    predicate whole_or_dead{L}(KvcertWireHead *h, integer n, integer whole) =
      \forall integer i; 0 <= i < n ==> h[i].length == 0 || h[i].length == whole;

    // Kind bounded: both arrays of the ring.
    predicate ring_inside{L}(KvcertWireRecord *r, KvcertWireLayer l, integer at) =
      l.kind == 2 ==>
        at == r->ring_offset + 2 * array_size(product(l.num_kv_heads, ring_row(l)), r->element_bytes);
*/

/* Reads bytes[0, size) and nothing else. 1: the buffer is a record of this layer, *record describes it. 0: *fault is the
 * first fault in byte order. bytes may be null where size is 0. */
/*@ requires \valid_read(bytes + (0 .. size - 1)) && \valid(record) && \valid(fault);
    requires \separated(record, fault);
    requires known_layer(layer);
    assigns *record, *fault;
    ensures result: \result == 0 || \result == 1;
    ensures fault_inside: \result == 0 ==> fault->offset <= size;
    ensures element: \result == 1 ==> an_element(record->element_bytes);
    ensures vector: \result == 1 ==> vector_inside(record, layer, size);
    ensures rows: \result == 1 && layer.kind == 0 ==> rows_inside(bytes, size, record, layer, record->seq_len, size);
    ensures ring: \result == 1 ==> ring_inside(record, layer, size);
*/
int kvcert_wire_scan(const uint8_t *bytes, uint64_t size, KvcertWireLayer layer, KvcertWireRecord *record,
                     KvcertWireFault *fault);

/* Where the n heads of an accepted record of kind full lie. */
/*@ requires \valid_read(bytes + (0 .. size - 1)) && \valid_read(record) && \valid(heads + (0 .. n - 1));
    requires \separated(record, heads + (0 .. n - 1));
    requires an_element(record->element_bytes);
    requires heads_at(bytes, size, record->element_bytes, record->head_length, record->heads_offset, n);
    requires record->heads_offset <= size;
    assigns heads[0 .. n - 1];
    ensures keys: keys_inside(heads, n, \old(record->element_bytes), size);
    ensures values: values_inside(heads, n, \old(record->element_bytes), size);
    ensures lengths: whole_or_dead(heads, n, \old(record->head_length));
*/
void kvcert_wire_heads(const uint8_t *bytes, uint64_t size, const KvcertWireRecord *record, KvcertWireHead *heads,
                       uint64_t n);

#ifdef __cplusplus
}
#endif

#endif
