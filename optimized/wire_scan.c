#include "optimized/wire_scan.h"

#include "optimized/wire_fields.h"

/*@ requires standing(bytes, size, c);
    assigns c->at, c->code, c->expected, c->found, c->offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> layer.num_kv_heads <= 0xFFFFFFFF && layer.head_dim <= 0xFFFFFFFF;
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_geometry(const uint8_t *bytes, uint64_t size, Cursor *c, KvcertWireLayer layer) {
  if (!exact_field(bytes, size, c, 4, layer.num_kv_heads, KVCERT_WIRE_GEOMETRY_MISMATCH)) return 0;
  return exact_field(bytes, size, c, 4, layer.head_dim, KVCERT_WIRE_GEOMETRY_MISMATCH);
}

/* A head's keys: `whole` elements or none. */
/*@ requires standing(bytes, size, c) && an_element(element) && \valid(length) && \separated(c, length);
    assigns c->at, c->code, c->expected, c->found, c->offset, *length;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> *length == le4(bytes, \old(c->at)) && *length <= 0xFFFFFFFF;
    ensures \result == 1 ==> *length == 0 || *length == whole;
    ensures \result == 1 ==> c->at == \old(c->at) + 4 + array_size(*length, element);
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_keys(const uint8_t *bytes, uint64_t size, Cursor *c, uint64_t whole, uint64_t element,
                     uint64_t *length) {
  const uint64_t offset = c->at;
  if (!field(bytes, size, c, 4, length)) return 0;
  const uint64_t n = *length;
  if (n != 0 && n != whole) return refuse(c, KVCERT_WIRE_INCONSISTENT_LENGTH, whole, n, offset);
  return take(size, c, array_bytes(n, element));
}

/* A head's values, which are as many as its keys. */
/*@ requires standing(bytes, size, c) && an_element(element) && length <= 0xFFFFFFFF;
    assigns c->at, c->code, c->expected, c->found, c->offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> le4(bytes, \old(c->at)) == length;
    ensures \result == 1 ==> c->at == \old(c->at) + 4 + array_size(length, element);
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_values(const uint8_t *bytes, uint64_t size, Cursor *c, uint64_t length, uint64_t element) {
  if (!exact_field(bytes, size, c, 4, length, KVCERT_WIRE_INCONSISTENT_LENGTH)) return 0;
  return take(size, c, array_bytes(length, element));
}

/*@ requires standing(bytes, size, c) && an_element(element);
    assigns c->at, c->code, c->expected, c->found, c->offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> head_at(bytes, size, element, whole, \old(c->at));
    ensures \result == 1 ==> c->at == head_end(bytes, element, \old(c->at));
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_head(const uint8_t *bytes, uint64_t size, Cursor *c, uint64_t whole, uint64_t element) {
  uint64_t length = 0;
  if (!scan_keys(bytes, size, c, whole, element, &length)) return 0;
  return scan_values(bytes, size, c, length, element);
}

/* All heads. Each takes 8 bytes or more, so a buffer that is too short ends this loop early. */
/*@ requires standing(bytes, size, c) && an_element(element);
    assigns c->at, c->code, c->expected, c->found, c->offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 && c->at == size ==> heads_at(bytes, size, element, whole, \old(c->at), heads);
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_heads(const uint8_t *bytes, uint64_t size, Cursor *c, uint64_t heads, uint64_t whole,
                      uint64_t element) {
  /*@ loop invariant 0 <= head <= heads;
      loop invariant c->at <= size;
      loop invariant heads_at(bytes, size, element, whole, c->at, heads - head) ==>
        heads_at(bytes, size, element, whole, \at(c->at, Pre), heads);
      loop assigns head, c->at, c->code, c->expected, c->found, c->offset;
      loop variant heads - head;
  */
  for (uint64_t head = 0; head < heads; ++head)
    if (!scan_head(bytes, size, c, whole, element)) return 0;
  return 1;
}

/* The recurrent vector and the importance of `rows` rows, with both lengths. */
/*@ requires standing(bytes, size, c) && \valid(record);
    requires rows <= 0xFFFFFFFF && \separated(c, record);
    assigns c->at, c->code, c->expected, c->found, c->offset;
    assigns record->linear_len, record->linear_offset, record->importance_offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> record->importance_offset == record->linear_offset + 4 * record->linear_len;
    ensures \result == 1 ==> c->at == record->importance_offset + 4 * rows;
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_vectors(const uint8_t *bytes, uint64_t size, Cursor *c, uint64_t rows, KvcertWireRecord *record) {
  uint64_t linear_len = 0;
  if (!field(bytes, size, c, 4, &linear_len)) return 0;
  record->linear_len = linear_len;
  if (!exact_field(bytes, size, c, 4, rows, KVCERT_WIRE_INCONSISTENT_LENGTH)) return 0;
  record->linear_offset = c->at;
  if (!take(size, c, linear_len * 4)) return 0;
  record->importance_offset = c->at;
  return take(size, c, rows * 4);
}

/* The body of kind full behind flag and seq_len. `rows` of the seq_len positions have importance, keys and values: all
 * in a full layer, none in a linear one, which takes the unversioned body. */
/*@ requires standing(bytes, size, c) && \valid(record);
    requires rows <= 0xFFFFFFFF && an_element(record->element_bytes);
    requires \separated(c, record);
    assigns c->at, c->code, c->expected, c->found, c->offset;
    assigns record->linear_len, record->linear_offset, record->importance_offset, record->head_length, record->heads_offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures vector: \result == 1 ==> record->linear_offset + 4 * record->linear_len <= size;
    ensures rows: \result == 1 ==> rows_inside(bytes, size, record, layer, rows, c->at);
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_full_body(const uint8_t *bytes, uint64_t size, Cursor *c, KvcertWireLayer layer, uint64_t rows,
                          KvcertWireRecord *record) {
  const uint64_t element = record->element_bytes;
  if (!scan_geometry(bytes, size, c, layer)) return 0;
  if (!scan_vectors(bytes, size, c, rows, record)) return 0;
  const uint64_t whole = times(rows, 0xFFFFFFFF, layer.head_dim);
  record->heads_offset = c->at;
  record->head_length = whole;
  return scan_heads(bytes, size, c, layer.num_kv_heads, whole, element);
}

/*@ requires standing(bytes, size, c) && \valid(record);
    requires \separated(c, record);
    assigns c->at, c->code, c->expected, c->found, c->offset, record->linear_len, record->linear_offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> c->at == record->linear_offset + 4 * record->linear_len;
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_linear_body(const uint8_t *bytes, uint64_t size, Cursor *c, KvcertWireLayer layer,
                            KvcertWireRecord *record) {
  uint64_t linear_len = 0;
  if (!scan_geometry(bytes, size, c, layer)) return 0;
  if (!field(bytes, size, c, 4, &linear_len)) return 0;
  record->linear_len = linear_len;
  record->linear_offset = c->at;
  return take(size, c, linear_len * 4);
}

/* From `begin` on, of a row of the ring: its elements from the one with number `first` to before `end` are zero bits. */
/*@ requires standing(bytes, size, c) && an_element(element);
    requires first <= end <= 0x2000000000000000 && begin + array_size(end, element) <= size;
    assigns c->code, c->expected, c->found, c->offset;
    ensures \result == 0 || \result == 1;
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_zeros(const uint8_t *bytes, uint64_t size, Cursor *c, uint64_t begin, uint64_t first, uint64_t end,
                      uint64_t element) {
  (void)size; /* the proof needs it */
  /*@ loop invariant first <= i <= end;
      loop assigns i;
      loop variant end - i;
  */
  for (uint64_t i = first; i < end; ++i) {
    /*@ assert element_inside: begin + array_size(i, element) + element <= size; */
    const uint64_t offset = begin + array_bytes(i, element);
    const uint64_t found = load(bytes, offset, element);
    if (found != 0) return refuse(c, KVCERT_WIRE_RING_SLOT_NOT_ZERO, 0, found, offset);
  }
  return 1;
}

/* One of the ring's two arrays, [head][row]: of each row the first `written` elements may hold anything, the others
 * zero bits. */
/*@ requires standing(bytes, size, c) && an_element(element) && written <= row;
    requires product(heads, row) <= 0x2000000000000000;
    assigns c->at, c->code, c->expected, c->found, c->offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> c->at == \old(c->at) + array_size(product(heads, row), element);
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_ring(const uint8_t *bytes, uint64_t size, Cursor *c, uint64_t heads, uint64_t row, uint64_t written,
                     uint64_t element) {
  const uint64_t begin = c->at;
  const uint64_t ring = times(heads, heads, row);
  if (!take(size, c, array_bytes(ring, element))) return 0;
  /*@ loop invariant 0 <= head <= heads;
      loop assigns head, c->code, c->expected, c->found, c->offset;
      loop variant heads - head;
  */
  for (uint64_t head = 0; head < heads; ++head) {
    const uint64_t first = times(head, heads, row);
    if (!scan_zeros(bytes, size, c, begin, first + written, first + row, element)) return 0;
  }
  return 1;
}

/* The fields of kind bounded before its ring; the first `length` rows of the ring are written. */
/*@ requires standing(bytes, size, c) && layer.window >= 1;
    assigns c->at, c->code, c->expected, c->found, c->offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_ring_fields(const uint8_t *bytes, uint64_t size, Cursor *c, KvcertWireLayer layer, uint64_t seq_len,
                            uint64_t length) {
  if (!scan_geometry(bytes, size, c, layer)) return 0;
  if (!exact_field(bytes, size, c, 4, layer.window, KVCERT_WIRE_GEOMETRY_MISMATCH)) return 0;
  if (!exact_field(bytes, size, c, 4, length, KVCERT_WIRE_RING_CURSOR_MISMATCH)) return 0;
  return exact_field(bytes, size, c, 4, seq_len % layer.window, KVCERT_WIRE_RING_CURSOR_MISMATCH);
}

/*@ requires standing(bytes, size, c) && \valid(record) && an_element(record->element_bytes);
    requires \separated(c, record);
    requires known_layer(layer) && layer.kind == 2;
    assigns c->at, c->code, c->expected, c->found, c->offset, record->ring_offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> ring_inside(record, layer, c->at);
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_bounded_body(const uint8_t *bytes, uint64_t size, Cursor *c, KvcertWireLayer layer,
                             KvcertWireRecord *record) {
  const uint64_t seq_len = record->seq_len;
  const uint64_t element = record->element_bytes;
  const uint64_t length = seq_len < layer.window ? seq_len : layer.window;
  if (!scan_ring_fields(bytes, size, c, layer, seq_len, length)) return 0;
  record->ring_offset = c->at;
  const uint64_t row = times(layer.window, layer.window, layer.head_dim);
  const uint64_t written = times(length, layer.window, layer.head_dim);
  if (!scan_ring(bytes, size, c, layer.num_kv_heads, row, written, element)) return 0;
  return scan_ring(bytes, size, c, layer.num_kv_heads, row, written, element);
}

/* What follows the header. */
/*@ requires standing(bytes, size, c) && \valid(record) && known_layer(layer) && an_element(record->element_bytes);
    requires \separated(c, record);
    assigns c->at, c->code, c->expected, c->found, c->offset;
    assigns record->linear_len, record->linear_offset;
    assigns record->importance_offset, record->head_length, record->heads_offset, record->ring_offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures vector: \result == 1 ==> vector_inside(record, layer, size);
    ensures rows: \result == 1 && layer.kind == 0 ==> rows_inside(bytes, size, record, layer, record->seq_len, c->at);
    ensures ring: \result == 1 ==> ring_inside(record, layer, c->at);
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_body(const uint8_t *bytes, uint64_t size, Cursor *c, KvcertWireLayer layer, uint64_t flag,
                     KvcertWireRecord *record) {
  const uint64_t position = record->seq_len;
  if (layer.kind == KVCERT_WIRE_LINEAR) return scan_linear_body(bytes, size, c, layer, record);
  if (layer.kind == KVCERT_WIRE_BOUNDED) return scan_bounded_body(bytes, size, c, layer, record);
  if (!exact_field(bytes, size, c, 4, flag, KVCERT_WIRE_BAD_FLAG)) return 0;
  if (!exact_field(bytes, size, c, 4, position, KVCERT_WIRE_POSITION_MISMATCH)) return 0;
  return scan_full_body(bytes, size, c, layer, position, record);
}

/*@ requires standing(bytes, size, c) && \valid(record) && known_layer(layer);
    requires \separated(c, record);
    assigns c->at, c->code, c->expected, c->found, c->offset;
    assigns record->element_bytes, record->seq_len, record->linear_len, record->linear_offset;
    assigns record->importance_offset, record->head_length, record->heads_offset, record->ring_offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures element: \result == 1 ==> an_element(record->element_bytes);
    ensures vector: \result == 1 ==> vector_inside(record, layer, size);
    ensures rows: \result == 1 && layer.kind == 0 ==> rows_inside(bytes, size, record, layer, record->seq_len, c->at);
    ensures ring: \result == 1 ==> ring_inside(record, layer, c->at);
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_versioned(const uint8_t *bytes, uint64_t size, Cursor *c, KvcertWireLayer layer,
                          KvcertWireRecord *record) {
  uint64_t flag = 0;
  uint64_t position = 0;
  if (!scan_header(bytes, size, c, layer, &flag, &position)) return 0;
  record->element_bytes = flag == 1 ? 2 : 4;
  record->seq_len = position;
  return scan_body(bytes, size, c, layer, flag, record);
}

/*@ requires standing(bytes, size, c) && \valid(record) && known_layer(layer);
    requires \separated(c, record);
    assigns c->at, c->code, c->expected, c->found, c->offset;
    assigns record->element_bytes, record->seq_len, record->linear_len, record->linear_offset;
    assigns record->importance_offset, record->head_length, record->heads_offset, record->ring_offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures element: \result == 1 ==> an_element(record->element_bytes);
    ensures vector: \result == 1 ==> vector_inside(record, layer, size);
    ensures rows: \result == 1 && layer.kind == 0 ==> rows_inside(bytes, size, record, layer, record->seq_len, c->at);
    ensures ring: \result == 1 ==> ring_inside(record, layer, c->at);
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_unversioned(const uint8_t *bytes, uint64_t size, Cursor *c, KvcertWireLayer layer,
                            KvcertWireRecord *record) {
  if (!layer.unversioned_allowed || layer.kind == KVCERT_WIRE_BOUNDED)
    return refuse(c, KVCERT_WIRE_UNVERSIONED_REFUSED, 0, 0, 0);
  uint64_t flag = 0;
  uint64_t seq_len = 0;
  if (!bounded_field(bytes, size, c, 4, 1, KVCERT_WIRE_BAD_FLAG, &flag)) return 0;
  record->element_bytes = flag == 1 ? 2 : 4;
  if (!field(bytes, size, c, 4, &seq_len)) return 0;
  record->seq_len = seq_len;
  return scan_full_body(bytes, size, c, layer, layer.kind == KVCERT_WIRE_LINEAR ? 0 : seq_len, record);
}

/*@ requires standing(bytes, size, c) && c->at == 0 && \valid(record) && known_layer(layer);
    requires \separated(c, record);
    assigns c->at, c->code, c->expected, c->found, c->offset;
    assigns record->element_bytes, record->seq_len, record->linear_len, record->linear_offset;
    assigns record->importance_offset, record->head_length, record->heads_offset, record->ring_offset;
    ensures \result == 0 || \result == 1;
    ensures whole: \result == 1 ==> c->at == size;
    ensures element: \result == 1 ==> an_element(record->element_bytes);
    ensures vector: \result == 1 ==> vector_inside(record, layer, size);
    ensures rows: \result == 1 && layer.kind == 0 ==> rows_inside(bytes, size, record, layer, record->seq_len, size);
    ensures ring: \result == 1 ==> ring_inside(record, layer, size);
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_buffer(const uint8_t *bytes, uint64_t size, Cursor *c, KvcertWireLayer layer,
                       KvcertWireRecord *record) {
  if (has_magic(bytes, size)) {
    if (!scan_versioned(bytes, size, c, layer, record)) return 0;
  } else {
    if (!scan_unversioned(bytes, size, c, layer, record)) return 0;
  }
  if (c->at != size) return refuse(c, KVCERT_WIRE_TRAILING_BYTES, c->at, size, c->at);
  return 1;
}

int kvcert_wire_scan(const uint8_t *bytes, uint64_t size, KvcertWireLayer layer, KvcertWireRecord *record,
                     KvcertWireFault *fault) {
  record->element_bytes = 0;
  record->seq_len = 0;
  record->linear_len = 0;
  record->linear_offset = 0;
  record->importance_offset = 0;
  record->head_length = 0;
  record->heads_offset = 0;
  record->ring_offset = 0;
  Cursor cursor;
  cursor.at = 0;
  if (scan_buffer(bytes, size, &cursor, layer, record)) return 1;
  const uint64_t code = cursor.code;
  const uint64_t expected = cursor.expected;
  const uint64_t found = cursor.found;
  const uint64_t offset = cursor.offset;
  fault->code = code;
  fault->expected = expected;
  fault->found = found;
  fault->offset = offset;
  return 0;
}

/* Head i, behind i heads whose places are known. */
/*@ requires \valid_read(bytes + (0 .. size - 1)) && \valid(heads + i) && an_element(element);
    requires head_at(bytes, size, element, whole, offset);
    requires keys_inside(heads, i, element, size) && values_inside(heads, i, element, size);
    requires whole_or_dead(heads, i, whole);
    assigns heads[i].length, heads[i].keys_offset, heads[i].values_offset;
    ensures end: \result == head_end(bytes, element, offset) && \result <= size;
    ensures keys: keys_inside(heads, i + 1, element, size);
    ensures values: values_inside(heads, i + 1, element, size);
    ensures lengths: whole_or_dead(heads, i + 1, whole);
*/
static uint64_t read_head(const uint8_t *bytes, uint64_t size, uint64_t element, uint64_t whole, uint64_t offset,
                          KvcertWireHead *heads, uint64_t i) {
  (void)size, (void)whole; /* the proof needs them */
  const uint64_t length = load(bytes, offset, 4);
  const uint64_t array = array_bytes(length, element);
  heads[i].length = length;
  heads[i].keys_offset = offset + 4;
  heads[i].values_offset = offset + 4 + array + 4;
  return offset + 4 + array + 4 + array;
}

void kvcert_wire_heads(const uint8_t *bytes, uint64_t size, const KvcertWireRecord *record, KvcertWireHead *heads,
                       uint64_t n) {
  const uint64_t element = record->element_bytes;
  const uint64_t whole = record->head_length;
  uint64_t offset = record->heads_offset;
  /*@ loop invariant 0 <= i <= n && offset <= size;
      loop invariant heads_at(bytes, size, element, whole, offset, n - i);
      loop invariant keys: keys_inside(heads, i, element, size);
      loop invariant values: values_inside(heads, i, element, size);
      loop invariant lengths: whole_or_dead(heads, i, whole);
      loop assigns i, offset, heads[0 .. n - 1];
      loop variant n - i;
  */
  for (uint64_t i = 0; i < n; ++i) {
    /*@ assert here: head_at(bytes, size, element, whole, offset); */
    /*@ assert behind: heads_at(bytes, size, element, whole, head_end(bytes, element, offset), n - i - 1); */
    offset = read_head(bytes, size, element, whole, offset, heads, i);
  }
}
