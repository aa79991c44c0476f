/* The scan's cursor, through which it reads every byte, and the header's fields. Only wire_scan.c includes this, and what is
 * proved of that file is proved of this one. */
#ifndef KVCERT_OPTIMIZED_WIRE_FIELDS_H
#define KVCERT_OPTIMIZED_WIRE_FIELDS_H

#include "optimized/wire_scan.h"

/* Where the reader stands, and the first fault. */
typedef struct Cursor {
  uint64_t at; /* at most the buffer's size */
  uint64_t code;
  uint64_t expected;
  uint64_t found;
  uint64_t offset;
} Cursor;

/*@ predicate standing{L}(uint8_t *b, integer size, Cursor *c) =
      \valid(c) && c->at <= size && \valid_read(b + (0 .. size - 1));
    predicate an_integer(integer n) = n == 1 || n == 2 || n == 4 || n == 8;
*/

/*@ requires \valid(c);
    assigns c->code, c->expected, c->found, c->offset;
    ensures \result == 0 && c->offset == offset && c->code == code;
    ensures c->expected == expected && c->found == found;
*/
static int refuse(Cursor *c, uint64_t code, uint64_t expected, uint64_t found, uint64_t offset) {
  c->code = code;
  c->expected = expected;
  c->found = found;
  c->offset = offset;
  return 0;
}

/* Do the next n bytes lie in the buffer? Then at moves past them. */
/*@ requires \valid(c) && c->at <= size;
    assigns c->at, c->code, c->expected, c->found, c->offset;
    ensures \result == 0 || \result == 1;
    ensures \result == 1 <==> n <= size - \old(c->at);
    ensures \result == 1 ==> c->at == \old(c->at) + n && c->at <= size;
    ensures \result == 0 ==> c->at == \old(c->at) && c->offset <= size;
*/
static int take(uint64_t size, Cursor *c, uint64_t n) {
  const uint64_t remaining = size - c->at;
  if (n > remaining) return refuse(c, KVCERT_WIRE_TRUNCATED, n, remaining, c->at);
  c->at += n;
  return 1;
}

/* A little-endian integer of n bytes that lie in the buffer. */
/*@ requires an_integer(n) && \valid_read(bytes + (offset .. offset + n - 1)) && offset + n <= 0xFFFFFFFFFFFFFFFF;
    assigns \nothing;
    ensures n == 1 ==> \result == bytes[offset];
    ensures n == 2 ==> \result == bytes[offset] + 0x100 * bytes[offset + 1];
    ensures n == 4 ==> \result == le4(bytes, offset);
    ensures n == 8 ==> \result == le4(bytes, offset) + 0x100000000 * le4(bytes, offset + 4);
    ensures n <= 4 ==> \result <= 0xFFFFFFFF;
*/
static uint64_t load(const uint8_t *bytes, uint64_t offset, uint64_t n) {
  uint64_t value = bytes[offset];
  if (n == 1) return value;
  value += (uint64_t)0x100 * bytes[offset + 1];
  if (n == 2) return value;
  value += (uint64_t)0x10000 * bytes[offset + 2];
  value += (uint64_t)0x1000000 * bytes[offset + 3];
  if (n == 4) return value;
  value += (uint64_t)0x100000000 * bytes[offset + 4];
  value += (uint64_t)0x10000000000 * bytes[offset + 5];
  value += (uint64_t)0x1000000000000 * bytes[offset + 6];
  value += (uint64_t)0x100000000000000 * bytes[offset + 7];
  return value;
}

/*@ requires n <= 0x2000000000000000 && an_element(element);
    assigns \nothing;
    ensures \result == array_size(n, element);
*/
static uint64_t array_bytes(uint64_t n, uint64_t element) { return element == 2 ? 2 * n : 4 * n; }

/* n rows of `by` elements, of `most` rows or fewer. */
/*@ requires n <= most && product(most, by) <= 0xFFFFFFFFFFFFFFFF;
    assigns \nothing;
    ensures \result == product(n, by) && \result <= product(most, by);
    ensures n < most ==> \result + by <= product(most, by);
*/
static uint64_t times(uint64_t n, uint64_t most, uint64_t by) {
  (void)most; /* the proof needs it */
  /*@ assert rest: 0 <= (most - n) * by; */
  /*@ assert no_more: n * by <= most * by; */
  /*@ assert one_more: n < most ==> 0 <= (most - n - 1) * by; */
  return n * by;
}

/* The next n-byte integer, any value. */
/*@ requires standing(bytes, size, c) && an_integer(n) && \valid(value) && \separated(c, value);
    assigns c->at, c->code, c->expected, c->found, c->offset, *value;
    ensures \result == 0 || \result == 1;
    ensures \result == 1 ==> c->at == \old(c->at) + n && c->at <= size;
    ensures \result == 1 && n <= 4 ==> *value <= 0xFFFFFFFF;
    ensures \result == 1 && n == 4 ==> *value == le4(bytes, \old(c->at));
    ensures \result == 0 ==> c->at == \old(c->at) && c->offset <= size;
*/
static int field(const uint8_t *bytes, uint64_t size, Cursor *c, uint64_t n, uint64_t *value) {
  const uint64_t offset = c->at;
  if (!take(size, c, n)) return 0;
  *value = load(bytes, offset, n);
  return 1;
}

/* The next n-byte integer, which must be `accepted`. */
/*@ requires standing(bytes, size, c) && an_integer(n);
    assigns c->at, c->code, c->expected, c->found, c->offset;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> c->at == \old(c->at) + n && (n <= 4 ==> accepted <= 0xFFFFFFFF);
    ensures \result == 1 && n == 4 ==> accepted == le4(bytes, \old(c->at));
    ensures \result == 0 ==> c->offset <= size;
*/
static int exact_field(const uint8_t *bytes, uint64_t size, Cursor *c, uint64_t n, uint64_t accepted, uint64_t code) {
  const uint64_t offset = c->at;
  uint64_t value = 0;
  if (!field(bytes, size, c, n, &value)) return 0;
  if (value != accepted) return refuse(c, code, accepted, value, offset);
  return 1;
}

/* The next n-byte integer, at most `largest`. */
/*@ requires standing(bytes, size, c) && an_integer(n) && \valid(value) && \separated(c, value);
    assigns c->at, c->code, c->expected, c->found, c->offset, *value;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> c->at == \old(c->at) + n && *value <= largest;
    ensures \result == 0 ==> c->offset <= size;
*/
static int bounded_field(const uint8_t *bytes, uint64_t size, Cursor *c, uint64_t n, uint64_t largest, uint64_t code,
                         uint64_t *value) {
  const uint64_t offset = c->at;
  if (!field(bytes, size, c, n, value)) return 0;
  if (*value > largest) return refuse(c, code, largest, *value, offset);
  return 1;
}

/*@ requires \valid_read(bytes + (0 .. size - 1));
    assigns \nothing;
    ensures \result == 1 ==> size >= 4;
*/
static int has_magic(const uint8_t *bytes, uint64_t size) {
  if (size < 4) return 0;
  return bytes[0] == 0x43 && bytes[1] == 0x4D && bytes[2] == 0x46 && bytes[3] == 0x53;
}

/* The header behind the magic: flag and position. */
/*@ requires standing(bytes, size, c) && \valid(flag) && \valid(position);
    requires \separated(c, flag) && \separated(c, position) && \separated(flag, position);
    assigns c->at, c->code, c->expected, c->found, c->offset, *flag, *position;
    ensures \result == 0 || \result == 1;
    ensures c->at <= size;
    ensures \result == 1 ==> *flag <= 1 && *position <= 0x7FFFFFFFFFFFFFFF && c->at == \old(c->at) + 32;
    ensures \result == 0 ==> c->offset <= size;
*/
static int scan_header(const uint8_t *bytes, uint64_t size, Cursor *c, KvcertWireLayer layer, uint64_t *flag,
                       uint64_t *position) {
  if (!take(size, c, 4)) return 0; /* the magic, seen already */
  if (!exact_field(bytes, size, c, 4, 2, KVCERT_WIRE_BAD_VERSION)) return 0;
  if (!exact_field(bytes, size, c, 8, layer.identity, KVCERT_WIRE_IDENTITY_MISMATCH)) return 0;
  if (!exact_field(bytes, size, c, 4, layer.layer, KVCERT_WIRE_LAYER_MISMATCH)) return 0;
  const uint64_t kind_offset = c->at;
  uint64_t kind = 0;
  if (!bounded_field(bytes, size, c, 1, KVCERT_WIRE_BOUNDED, KVCERT_WIRE_UNKNOWN_KIND, &kind)) return 0;
  if (kind != layer.kind) return refuse(c, KVCERT_WIRE_KIND_MISMATCH, layer.kind, kind, kind_offset);
  if (!bounded_field(bytes, size, c, 1, 1, KVCERT_WIRE_BAD_FLAG, flag)) return 0;
  if (!exact_field(bytes, size, c, 2, 0, KVCERT_WIRE_RESERVED_NOT_ZERO)) return 0;
  return bounded_field(bytes, size, c, 8, 0x7FFFFFFFFFFFFFFF, KVCERT_WIRE_POSITION_OUT_OF_RANGE, position);
}

#endif
