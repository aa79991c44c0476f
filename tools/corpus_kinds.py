"""The golden records of kinds linear and bounded, stated by hand as those of kind full in corpus_records.py."""
import dataclasses
import struct

from corpus_records import GIB, U32_MAX, Golden, numbers, patched
from wire_reading import MAX_POSITION, Layer, LinearRecord, RingRecord, encode

# A linear layer's record: kv_heads at 32, head_dim 36, linear_len 40, the vector of three from 44 to 56.
LINEAR = Layer(kv_heads=2, head_dim=3, layer=5, identity=0xFEED, kind=1)
LINEAR_STRICT = dataclasses.replace(LINEAR, linear_wire_allowed=False)
LINEAR_BASE = encode(LinearRecord(True, 0, 9, numbers(3, 1, False)), LINEAR)

# A ring of three slots for two heads of two dimensions: kv_heads at 32, head_dim 36, window 40, len 44, head 48, keys from 52.
# Under f32 a tensor takes 48 bytes, so values begin at 100 and the record ends at 148; under f16 at 76 and 100.
RING = Layer(kv_heads=2, head_dim=2, layer=6, identity=0xFEED, kind=2, window=3)
RING_STRICT = dataclasses.replace(RING, linear_wire_allowed=False)
KV_HEADS, HEAD_DIM, WINDOW, LEN, HEAD, KEYS, VALUES, END = 32, 36, 40, 44, 48, 52, 100, 148


def ring(position: int, half: bool = False, layer: Layer = RING) -> bytes:
    """A ring at this position: slots never written are zero, every other number is its own."""
    width, dim, window = 2 if half else 4, layer.head_dim, layer.window
    tensors = []
    for seed in (1, 2):
        rows = numbers(layer.kv_heads * window * dim, seed, half)
        slots = [rows[at:at + width * dim] for at in range(0, len(rows), width * dim)]
        tensors.append(b"".join(row if slot % window < position else bytes(len(row)) for slot, row in enumerate(slots)))
    return encode(RingRecord(int(half), position, *tensors), layer)


FILLING, FULL = ring(2), ring(10)
assert len(LINEAR_BASE) == 56 and len(FILLING) == len(FULL) == END


def old_body(layer: Layer, flag: int, seq_len: int, vector: bytes, imp_len: int = 0, lengths=None) -> bytes:
    """The unversioned body as a linear layer takes it: no importance and no rows."""
    lengths = lengths or [0, 0] * layer.kv_heads
    return struct.pack("<6I", flag, seq_len, layer.kv_heads, layer.head_dim, len(vector) // 4, imp_len) + vector + \
        struct.pack(f"<{len(lengths)}I", *lengths)


def linear_accepted():
    def golden(name, data, why):
        return Golden(f"linear-{name}", data, LINEAR, why)

    yield golden("plain-f32", LINEAR_BASE, "a recurrent vector and a count of positions")
    yield golden("plain-f16", encode(LinearRecord(True, 1, 9, numbers(3, 1, False)), LINEAR), "the flag is carried; the vector stays f32")
    yield golden("empty", encode(LinearRecord(True, 0, 0, b""), LINEAR), "no position, no vector")
    yield golden("no-vector", encode(LinearRecord(True, 0, 4, b""), LINEAR), "positions without a vector")
    yield golden("largest-position", encode(LinearRecord(True, 0, MAX_POSITION, numbers(1, 2, False)), LINEAR), "2^63 − 1 positions: no row has to exist for them")
    yield golden("unversioned", old_body(LINEAR, 0, 7, numbers(2, 3, False)), "a body without rows; it is written again as a kind-1 record")
    yield golden("unversioned-f16", old_body(LINEAR, 1, U32_MAX, b""), "any seq_len, either flag")


def linear_rejected():
    def bad(name, data, fault, why, layer=LINEAR):
        return Golden(f"linear-{name}", data, layer, why, fault)

    yield bad("kind-full", patched(LINEAR_BASE, 20, 0, 1), ("kind_mismatch", 20, 1, 0), "a full record's kind")
    yield bad("kind-bounded", patched(LINEAR_BASE, 20, 2, 1), ("kind_mismatch", 20, 1, 2), "a ring's kind")
    yield bad("kind-3", patched(LINEAR_BASE, 20, 3, 1), ("unknown_kind", 20, 2, 3), "no kind is known above 2, whatever the layer's")
    yield bad("header-flag-2", patched(LINEAR_BASE, 21, 2, 1), ("bad_flag", 21, 1, 2), "the flag is checked although it has no effect")
    yield bad("position-2-63", patched(LINEAR_BASE, 24, 2**63, 8), ("position_out_of_range", 24, MAX_POSITION, 2**63), "over 2^63 − 1")
    yield bad("kv-heads", patched(LINEAR_BASE, KV_HEADS, 3, 4), ("geometry_mismatch", KV_HEADS, 2, 3), "another count of heads")
    yield bad("head-dim", patched(LINEAR_BASE, HEAD_DIM, 2, 4), ("geometry_mismatch", HEAD_DIM, 3, 2), "another head_dim")
    yield bad("geometry-swapped", patched(LINEAR_BASE, KV_HEADS, 3, 4, 2, 4), ("geometry_mismatch", KV_HEADS, 2, 3), "3 × 2 is not 2 × 3")
    for name, at, size in (("kv-heads", KV_HEADS, 4), ("head-dim", HEAD_DIM, 4), ("linear-len", 40, 4), ("vector", 44, 12)):
        yield bad(f"truncated-before-{name}", LINEAR_BASE[:at], ("truncated", at, size, 0), f"the buffer ends where {name} should begin")
        yield bad(f"truncated-in-{name}", LINEAR_BASE[:at + size - 1], ("truncated", at, size, size - 1), f"one byte of {name} is missing")
    for name, count in (("4-gib", GIB), ("16-gib", U32_MAX)):
        yield bad(f"vector-of-{name}", patched(LINEAR_BASE, 40, count, 4), ("truncated", 44, 4 * count, 12), "a vector that the record does not hold")
    yield bad("vector-shorter-than-said", patched(LINEAR_BASE, 40, 4, 4), ("truncated", 44, 16, 12), "four said, three there")
    yield bad("vector-longer-than-said", patched(LINEAR_BASE, 40, 2, 4), ("trailing_bytes", 52, 52, 56), "two said, three there")
    yield bad("trailing-byte", LINEAR_BASE + b"\0", ("trailing_bytes", 56, 56, 57), "nothing follows")
    whole = old_body(LINEAR, 0, 7, numbers(2, 3, False))  # arrays from 24; head 0's k_len at 32, v_len at 36
    yield bad("unversioned-strict", whole, ("unversioned_refused", 0, 0, 0), "the layer wants to know whose it is", LINEAR_STRICT)
    yield bad("unversioned-flag", patched(whole, 0, 2, 4), ("bad_flag", 0, 1, 2), "0 or 1")
    yield bad("unversioned-imp-len", old_body(LINEAR, 0, 7, numbers(2, 3, False), imp_len=7), ("inconsistent_length", 20, 0, 7), "a linear layer has no importance")
    yield bad("unversioned-k-len", patched(whole, 32, 21, 4), ("inconsistent_length", 32, 0, 21), "a linear layer has no rows, not even as many as positions")
    yield bad("unversioned-v-len", patched(whole, 36, 21, 4), ("inconsistent_length", 36, 0, 21), "values without keys")
    yield bad("unversioned-trailing", whole + b"\0", ("trailing_bytes", 48, 48, 49), "nothing follows a body either")


def bounded_accepted():
    def golden(name, data, why, layer=RING):
        return Golden(f"bounded-{name}", data, layer, why)

    yield golden("empty-f32", ring(0), "a ring that nothing was written to is all zeros")
    yield golden("filling-f32", FILLING, "two of three slots written; the third is zero")
    yield golden("filling-f16", ring(1, half=True), "one slot written, as binary16")
    yield golden("exactly-full", ring(3), "position = window: the head is back at slot 0")
    yield golden("wrapped-f32", FULL, "position 10: slot 1 is written next")
    yield golden("wrapped-f16", ring(11, half=True), "the same, as binary16")
    one = dataclasses.replace(RING, kv_heads=1, head_dim=1, window=1)
    yield golden("window-1", ring(MAX_POSITION, layer=one), "one slot, 2^63 − 1 positions", one)
    yield golden("to-strict-layer", FULL, "the switch is about unversioned bodies only", RING_STRICT)
    yield golden("nan-payloads", patched(FULL, KEYS, 0x7F800001, 4, 0xFFBFFFFF, 4), "under f32 every bit travels")


def bounded_rejected():
    def bad(name, data, fault, why, layer=RING):
        return Golden(f"bounded-{name}", data, layer, why, fault)

    yield bad("kind-full", patched(FULL, 20, 0, 1), ("kind_mismatch", 20, 2, 0), "a full record's kind")
    yield bad("kind-linear", patched(FULL, 20, 1, 1), ("kind_mismatch", 20, 2, 1), "a linear record's kind")
    yield bad("kind-3", patched(FULL, 20, 3, 1), ("unknown_kind", 20, 2, 3), "no kind is known above 2, whatever the layer's")
    yield bad("kv-heads", patched(FULL, KV_HEADS, 1, 4), ("geometry_mismatch", KV_HEADS, 2, 1), "another count of heads")
    yield bad("head-dim", patched(FULL, HEAD_DIM, 3, 4), ("geometry_mismatch", HEAD_DIM, 2, 3), "another head_dim")
    yield bad("window", patched(FULL, WINDOW, 4, 4), ("geometry_mismatch", WINDOW, 3, 4), "another ring")
    yield bad("window-zero", patched(FULL, WINDOW, 0, 4), ("geometry_mismatch", WINDOW, 3, 0), "no ring; nothing may be divided by it")
    yield bad("len-below", patched(FULL, LEN, 2, 4), ("ring_cursor_mismatch", LEN, 3, 2), "a wrapped ring is full")
    yield bad("len-above", patched(FILLING, LEN, 3, 4), ("ring_cursor_mismatch", LEN, 2, 3), "more slots than positions")
    yield bad("len-is-position", patched(FULL, LEN, 10, 4), ("ring_cursor_mismatch", LEN, 3, 10), "len counts slots, not positions")
    yield bad("head-next", patched(FULL, HEAD, 2, 4), ("ring_cursor_mismatch", HEAD, 1, 2), "the slot after the one written next")
    yield bad("head-newest", patched(FULL, HEAD, 0, 4), ("ring_cursor_mismatch", HEAD, 1, 0), "the slot written last")
    yield bad("head-is-window", patched(ring(3), HEAD, 3, 4), ("ring_cursor_mismatch", HEAD, 0, 3), "position mod window, not position")
    yield bad("cursor-in-64-bits", patched(FULL, 24, 2**32 + 10, 8), ("ring_cursor_mismatch", HEAD, (2**32 + 10) % 3, 1), "position mod window in 64 bits")
    yield bad("position-one-more", patched(FULL, 24, 11, 8), ("ring_cursor_mismatch", HEAD, 2, 1), "the header moved on, the cursor did not")
    # In the ring at position 2, slot 2 of head 0 holds elements 4 and 5, that of head 1 elements 10 and 11.
    yield bad("slot-not-zero", patched(FILLING, KEYS + 16, 1, 4), ("ring_slot_not_zero", KEYS + 16, 0, 1), "a slot that was never written")
    yield bad("slot-minus-zero", patched(FILLING, KEYS + 44, 0x80000000, 4), ("ring_slot_not_zero", KEYS + 44, 0, 0x80000000), "−0 is not all zero bits; the last element of the last head")
    yield bad("values-slot-not-zero", patched(FILLING, VALUES + 20, 0x7FC00000, 4), ("ring_slot_not_zero", VALUES + 20, 0, 0x7FC00000), "values are looked at too")
    yield bad("keys-before-values", patched(patched(FILLING, VALUES + 16, 5, 4), KEYS + 40, 6, 4), ("ring_slot_not_zero", KEYS + 40, 0, 6), "the first offending element in the record's order")
    yield bad("slot-not-zero-f16", patched(ring(1, half=True), 52 + 22, 3, 2), ("ring_slot_not_zero", 52 + 22, 0, 3), "a binary16 element, and its 16 bits")
    yield bad("empty-not-zero", patched(ring(0), KEYS, 7, 4), ("ring_slot_not_zero", KEYS, 0, 7), "at position 0 every slot is zero")
    for name, at, size in (("kv-heads", KV_HEADS, 4), ("head-dim", HEAD_DIM, 4), ("window", WINDOW, 4), ("len", LEN, 4), ("head", HEAD, 4),
                           ("keys", KEYS, 48), ("values", VALUES, 48)):
        yield bad(f"truncated-before-{name}", FULL[:at], ("truncated", at, size, 0), f"the buffer ends where {name} should begin")
        yield bad(f"truncated-in-{name}", FULL[:at + size - 1], ("truncated", at, size, size - 1), f"one byte of {name} is missing")
    yield bad("f16-as-f32", patched(ring(10, half=True), 21, 0, 1), ("truncated", VALUES, 48, 0), "both tensors of binary16 are the keys of an f32 ring")
    yield bad("f32-as-f16", patched(FULL, 21, 1, 1), ("trailing_bytes", 100, 100, END), "the ring ends half way")
    yield bad("slot-before-missing-values", patched(FILLING, KEYS + 16, 9, 4)[:VALUES], ("ring_slot_not_zero", KEYS + 16, 0, 9), "keys are judged before values are missed")
    yield bad("trailing-byte", FULL + b"\0", ("trailing_bytes", END, END, END + 1), "nothing follows")
    yield bad("trailing-record", FULL + FULL, ("trailing_bytes", END, END, 2 * END), "two records are not one")
    yield bad("unversioned", old_body(RING, 0, 0, b""), ("unversioned_refused", 0, 0, 0), "a ring never takes a body without a header")
    yield bad("unversioned-strict", b"", ("unversioned_refused", 0, 0, 0), "refused before any byte is read", RING_STRICT)


def kind_goldens() -> list[Golden]:
    return [*linear_accepted(), *linear_rejected(), *bounded_accepted(), *bounded_rejected()]
