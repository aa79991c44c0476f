"""The golden records: what each is, for which layer, and the verdict, stated by hand and not computed by a decoder."""
import dataclasses
import struct

from wire_reading import HEADER_BYTES, Layer, Record, body, encode, header

MIB, GIB = 2**20, 2**30
U32_MAX = 2**32 - 1

# Offsets in a version-2 record, named once. The arrays begin at 56.
IDENTITY, LAYER, KIND, F16, RESERVED, POSITION = 8, 16, 20, 21, 22, 24
BODY_FLAG, SEQ_LEN, KV_HEADS, HEAD_DIM, LINEAR_LEN, IMP_LEN, ARRAYS = 32, 36, 40, 44, 48, 52, 56


@dataclasses.dataclass(frozen=True)
class Golden:
    name: str
    data: bytes
    layer: Layer
    why: str
    fault: tuple | None = None  # code, offset, expected, found

    def to_json(self) -> dict:
        item = {"file": f"{'reject' if self.fault else 'accept'}/{self.name}.cmfs", "layer": self.layer.to_json(),
                "verdict": "reject" if self.fault else "accept"}
        if self.fault:
            code, offset, expected, found = self.fault
            item |= {"code": code, "offset": offset, "expected": str(expected), "found": str(found)}
        return item | {"why": self.why}


def f32(*patterns: int) -> bytes:
    return struct.pack(f"<{len(patterns)}I", *patterns)


def f16(*patterns: int) -> bytes:
    return struct.pack(f"<{len(patterns)}H", *patterns)


def numbers(count: int, seed: int, half: bool) -> bytes:
    """Distinct values that both formats hold exactly, so that a misplaced row shows: (seed × 64 + i) / 32."""
    return struct.pack(f"<{count}{'e' if half else 'f'}", *((seed * 64 + i) / 32 for i in range(count)))


def record(layer: Layer, seq_len: int, half: bool = False, dead=(), linear: int = 0, versioned: bool = True) -> Record:
    heads = []
    for head in range(layer.kv_heads):
        count = 0 if head in dead else seq_len * layer.head_dim
        heads.append((numbers(count, 2 * head + 1, half), numbers(count, 2 * head + 2, half)))
    return Record(versioned, int(half), seq_len, numbers(linear, 9, False), numbers(seq_len, 10, False), heads)


def patched(data: bytes, offset: int, *values_and_sizes: int) -> bytes:
    """data with little-endian fields (value, size, value, size, …) written over it from offset."""
    fresh = b"".join(value.to_bytes(size, "little")
                     for value, size in zip(values_and_sizes[::2], values_and_sizes[1::2]))
    return data[:offset] + fresh + data[offset + len(fresh):]


# The layer and the record that most refusals are cut from: two heads of two dimensions, two positions, a vector of one.
# Head 0: k_len at 68, keys 72, v_len 88, values 92. Head 1: k_len at 108, keys 112, v_len 128, values 132. End at 148.
L = Layer(kv_heads=2, head_dim=2, layer=3, identity=0x00000000C0FFEE00)
STRICT = dataclasses.replace(L, linear_wire_allowed=False)
ONE = Layer(kv_heads=1, head_dim=1)
BASE = encode(record(L, 2, linear=1), L)
BASE16 = encode(record(L, 2, half=True, linear=1), L)
LINEAR_AT, IMP_AT, K0, KEYS0, V0, VALUES0, K1, END = 56, 60, 68, 72, 88, 92, 108, 148


def special(half: bool) -> Record:
    """Every class of value in keys, values, importance and vector: NaN payloads (quiet, signalling, signed),
    ±∞, ±0, smallest and largest subnormals, largest finite."""
    wide = (0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFBFFFFF, 0x7FFFFFFF, 0x7FA55AA5, 0x7F800000, 0xFF800000,
            0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000)
    narrow = (0x7E00, 0xFE00, 0x7C01, 0xFDFF, 0x7FFF, 0x7D55, 0x7C00, 0xFC00,
              0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00)
    keys = f16(*narrow) if half else f32(*wide)
    values = f16(*reversed(narrow)) if half else f32(*reversed(wide))
    return Record(True, int(half), 4, f32(*wide), f32(*wide[2:6]), [(keys, values)])


def accepted():
    def golden(name, layer, rec, why):
        return Golden(name, encode(rec, layer) if rec.versioned else body(rec, layer), layer, why)

    four = Layer(kv_heads=1, head_dim=4)
    odd = Layer(kv_heads=3, head_dim=3, layer=1)
    edge = Layer(kv_heads=1, head_dim=2, layer=U32_MAX, identity=2**64 - 1)
    yield golden("empty-f32", ONE, record(ONE, 0), "no positions: every length is 0, liveness stays undecided")
    yield golden("empty-f16", ONE, record(ONE, 0, half=True), "an empty record still carries its flag")
    yield golden("empty-many-heads", odd, record(odd, 0), "two zero lengths for each of three heads")
    yield golden("empty-with-vector", L, record(L, 0, linear=3), "a recurrent vector without positions")
    yield golden("one-element-f32", ONE, record(ONE, 1), "the smallest record that holds a row")
    yield golden("one-element-f16", ONE, record(ONE, 1, half=True), "2-byte arrays leave the next length unaligned")
    yield golden("plain-f32", L, record(L, 2, linear=1), "the record most refusals are cut from")
    yield golden("plain-f16", L, record(L, 2, half=True, linear=1), "binary16 rows; vector and importance stay f32")
    yield golden("no-vector-f32", L, record(L, 3), "linear_len 0: the array is empty, not absent")
    yield golden("odd-dims-f16", odd, record(odd, 1, half=True), "three 6-byte arrays: every later field is unaligned")
    yield golden("dead-first-head", odd, record(odd, 2, dead={0}), "head 0 has no rows, and so is dead")
    yield golden("dead-middle-head-f16", odd, record(odd, 2, half=True, dead={1}), "head 1 has no rows, and so is dead")
    yield golden("dead-last-head", odd, record(odd, 2, dead={2}), "the record ends with two zero lengths")
    yield golden("all-heads-dead", odd, record(odd, 4, dead={0, 1, 2}), "positions and importance without rows")
    yield golden("special-values-f32", four, special(False), "under f32 every bit travels, signalling NaNs too")
    yield golden("special-values-f16", four, special(True), "binary16 payloads and subnormals come back")
    yield golden("largest-names", edge, record(edge, 1), "identity and layer of all ones")
    yield golden("versioned-to-strict-layer", STRICT, record(L, 2), "the switch is about unversioned bodies only")
    yield golden("unversioned-f32", L, record(L, 2, versioned=False), "a body alone, it names no operator")
    yield golden("unversioned-f16", L, record(L, 2, half=True, versioned=False), "the flag comes from the body")
    yield golden("unversioned-empty", L, record(L, 0, versioned=False), "no positions, no header")
    yield golden("unversioned-vector-dead-head", L, record(L, 2, linear=2, dead={0}, versioned=False),
                 "vector and a dead head")


def truncations():
    """Each field of a record cut at its first byte and one byte short."""
    fields = [("version", 4, 4), ("identity", 8, 8), ("layer", 16, 4), ("kind", 20, 1), ("f16", 21, 1),
              ("reserved", 22, 2), ("position", 24, 8), ("body-flag", 32, 4), ("seq-len", 36, 4), ("kv-heads", 40, 4),
              ("head-dim", 44, 4), ("linear-len", 48, 4), ("imp-len", 52, 4), ("vector", LINEAR_AT, 4),
              ("importance", IMP_AT, 8), ("k-len", K0, 4), ("keys", KEYS0, 16), ("v-len", V0, 4),
              ("values", VALUES0, 16), ("second-k-len", K1, 4), ("last-values", 132, 16)]
    for name, at, size in fields:
        yield Golden(f"truncated-before-{name}", BASE[:at], L, f"the buffer ends where {name} should begin",
                     ("truncated", at, size, 0))
        if size > 1:
            yield Golden(f"truncated-in-{name}", BASE[:at + size - 1], L, f"one byte of {name} is missing",
                         ("truncated", at, size, size - 1))
    for length in (28, 29, 30):
        yield Golden(f"header-of-{length}-bytes", BASE[:length], L,
                     "a header check of 28 bytes would pass and then read the position past the end",
                     ("truncated", POSITION, 8, length - POSITION))
    for length in range(4):
        yield Golden(f"buffer-of-{length}-bytes", BASE[:length], L,
                     "too short for a magic, so an unversioned body without its flag", ("truncated", 0, 4, length))
        yield Golden(f"buffer-of-{length}-bytes-strict", BASE[:length], STRICT,
                     "refused before any byte is read", ("unversioned_refused", 0, 0, 0))


def header_faults():
    def bad(name, at, value, size, code, expected, why):
        return Golden(name, patched(BASE, at, value, size), L, why, (code, at, expected, value))

    for version in (0, 1, 3, 2 << 24):
        yield bad(f"version-{version}", 4, version, 4, "bad_version", 2, "only version 2 is known")
    yield bad("identity-low-byte", IDENTITY, L.identity ^ 1, 8, "identity_mismatch", L.identity, "another operator")
    yield bad("identity-high-byte", IDENTITY, L.identity | 1 << 63, 8, "identity_mismatch", L.identity,
              "identities are 64 bits: the low 32 agree here")
    yield bad("identity-none", IDENTITY, 0, 8, "identity_mismatch", L.identity, "0 is no wildcard")
    yield Golden("identity-unexpected", patched(encode(record(ONE, 1), ONE), IDENTITY, 7, 8), ONE,
                 "a layer without identity takes only records without one", ("identity_mismatch", IDENTITY, 0, 7))
    yield bad("layer-next", LAYER, 4, 4, "layer_mismatch", 3, "the record of the next layer")
    yield bad("layer-high-byte", LAYER, 3 | 1 << 31, 4, "layer_mismatch", 3, "layers are 32 bits")
    yield bad("kind-linear", KIND, 1, 1, "kind_mismatch", 0, "a known kind, not the layer's")
    yield bad("kind-bounded", KIND, 2, 1, "kind_mismatch", 0, "a known kind, not the layer's")
    yield bad("kind-3", KIND, 3, 1, "unknown_kind", 2, "newer peers' trimmed tail is not part of this version")
    yield bad("kind-255", KIND, 255, 1, "unknown_kind", 2, "no such kind")
    yield bad("header-flag-2", F16, 2, 1, "bad_flag", 1, "flags above 1 are refused, not taken for true")
    yield bad("header-flag-255", F16, 255, 1, "bad_flag", 1, "flags above 1 are refused, not taken for true")
    yield bad("reserved-1", RESERVED, 1, 2, "reserved_not_zero", 0, "must be 0, or a later meaning is lost")
    yield bad("reserved-high", RESERVED, 0x8000, 2, "reserved_not_zero", 0, "the second reserved byte counts too")
    yield bad("position-2-63", POSITION, 2**63, 8, "position_out_of_range", 2**63 - 1, "over 2^63 − 1")
    yield bad("position-all-ones", POSITION, 2**64 - 1, 8, "position_out_of_range", 2**63 - 1, "−1 is no position")
    for name, position, why in (("largest", 2**63 - 1, "in range, but no u32 seq_len can equal it"),
                                ("low-32-agree", 2**32 + 2, "positions are compared in 64 bits"),
                                ("zero", 0, "rows without positions")):
        yield Golden(f"position-{name}", patched(BASE, POSITION, position, 8), L, why,
                     ("position_mismatch", SEQ_LEN, position, 2))
    yield Golden("magic-damaged", b"CMFT" + BASE[4:], L, "no magic: read as a body, whose flag is then absurd",
                 ("bad_flag", 0, 1, int.from_bytes(b"CMFT", "little")))
    yield Golden("magic-damaged-strict", b"CMFT" + BASE[4:], STRICT, "no magic: an unversioned body, which is refused",
                 ("unversioned_refused", 0, 0, 0))
    yield Golden("magic-reversed", b"SFMC" + BASE[4:], L, "the magic is bytes, not a big-endian number",
                 ("bad_flag", 0, 1, int.from_bytes(b"SFMC", "little")))


def body_faults():
    def bad(name, at, value, code, expected, why, base=BASE):
        return Golden(name, patched(base, at, value, 4), L, why, (code, at, expected, value))

    yield bad("flags-disagree-body-f16", BODY_FLAG, 1, "bad_flag", 0, "header says f32, body says f16")
    yield bad("flags-disagree-body-f32", BODY_FLAG, 0, "bad_flag", 1, "header says f16, body says f32", BASE16)
    yield bad("body-flag-high-byte", BODY_FLAG, 0x100, "bad_flag", 0, "the body's flag is 32 bits: its low byte agrees")
    yield bad("body-flag-2", BODY_FLAG, 2, "bad_flag", 1, "not the header's flag", BASE16)
    yield bad("seq-len-short", SEQ_LEN, 1, "position_mismatch", 2, "one position fewer than the header says")
    yield bad("seq-len-long", SEQ_LEN, 3, "position_mismatch", 2, "one position more than the header says")
    yield bad("kv-heads-fewer", KV_HEADS, 1, "geometry_mismatch", 2, "one head fewer than the layer")
    yield bad("kv-heads-zero", KV_HEADS, 0, "geometry_mismatch", 2, "no heads at all")
    yield bad("kv-heads-huge", KV_HEADS, U32_MAX, "geometry_mismatch", 2, "no loop may start on this count")
    yield bad("head-dim-more", HEAD_DIM, 4, "geometry_mismatch", 2, "another head_dim")
    yield bad("head-dim-zero", HEAD_DIM, 0, "geometry_mismatch", 2, "no dimensions at all")
    swapped = dataclasses.replace(L, kv_heads=1, head_dim=4)
    yield Golden("geometry-same-product", encode(record(L, 1), L), swapped, "2 × 2 is not 1 × 4",
                 ("geometry_mismatch", KV_HEADS, 1, 2))
    yield bad("imp-len-zero", IMP_LEN, 0, "inconsistent_length", 2, "every position has an importance")
    yield bad("imp-len-short", IMP_LEN, 1, "inconsistent_length", 2, "one importance fewer than positions")
    yield bad("imp-len-huge", IMP_LEN, U32_MAX, "inconsistent_length", 2, "refused by value before it is multiplied")
    for name, value, why in (("not-multiple", 3, "no multiple of head_dim"), ("one-row", 2, "one row, two positions"),
                             ("one-more-row", 6, "three rows, two positions"), ("huge", U32_MAX, "2^32 − 1 elements"),
                             ("bytes-not-elements", 16, "lengths count elements, not bytes")):
        yield bad(f"k-len-{name}", K0, value, "inconsistent_length", 4, why)
        yield bad(f"v-len-{name}", V0, value, "inconsistent_length", 4, why)
    yield bad("v-len-dead", V0, 0, "inconsistent_length", 4, "keys without values")
    yield bad("second-k-len", K1, 2, "inconsistent_length", 4, "each head is checked, not only the first")
    dead = encode(record(L, 2, dead={0}), L)  # no vector: head 0's k_len at 64, v_len at 68
    yield bad("values-of-a-dead-head", 68, 4, "inconsistent_length", 0, "values without keys", dead)
    empty = encode(record(L, 0), L)
    yield bad("rows-at-seq-len-0", ARRAYS, 2, "inconsistent_length", 0, "a row, but no position", empty)
    yield Golden("f16-rows-under-f32-flags", patched(BASE16, F16, 0, 1, 0, 2, 2, 8, 0, 4), L,
                 "read as f32 the keys swallow v_len and the first value; the next length is one of the values",
                 ("inconsistent_length", V0, 4, int.from_bytes(BASE16[V0:V0 + 4], "little")))
    yield Golden("f32-rows-under-f16-flags", patched(BASE, F16, 1, 1, 0, 2, 2, 8, 1, 4), L,
                 "read as f16 the keys end half way; the next length is a key",
                 ("inconsistent_length", KEYS0 + 8, 4, int.from_bytes(BASE[KEYS0 + 8:KEYS0 + 12], "little")))


def huge_lengths():
    """Small buffers that ask for gigabytes. Nothing may be reserved for them, no product may wrap."""
    empty = encode(record(ONE, 0), ONE)  # 64 bytes
    for name, count in (("4-gib", GIB), ("16-gib", U32_MAX), ("wraps-to-4", GIB + 1), ("256-mib", 64 * MIB)):
        yield Golden(f"vector-of-{name}", patched(empty, LINEAR_LEN, count, 4), ONE,
                     "a 64-byte record with a vector it does not hold; 4 × 2^30 is 0 in 32 bits",
                     ("truncated", ARRAYS, 4 * count, 8))
    many = patched(empty, POSITION, U32_MAX, 8, 0, 4, U32_MAX, 4, 1, 4, 1, 4, 0, 4, U32_MAX, 4)
    yield Golden("importance-of-16-gib", many, ONE, "2^32 − 1 positions, and their importance is not there",
                 ("truncated", ARRAYS, 4 * U32_MAX, 8))
    # seq_len × head_dim = 2^32 + 2, so the length 2 would be right in 32 bits.
    wide = Layer(kv_heads=1, head_dim=2**31 + 1)
    body_two = header(wide, 0, 2) + struct.pack("<6I", 0, 2, 1, wide.head_dim, 0, 2) + bytes(8)
    yield Golden("k-len-wraps", body_two + struct.pack("<I", 2) + bytes(8), wide, "a 64-bit product",
                 ("inconsistent_length", 64, 2 * wide.head_dim, 2))
    one = header(wide, 1, 1) + struct.pack("<6I", 1, 1, 1, wide.head_dim, 0, 1) + bytes(4)
    yield Golden("keys-of-4-gib", one + struct.pack("<I", wide.head_dim), wide,
                 "the right length, but its bytes are not there", ("truncated", 64, 2 * wide.head_dim, 0))


def ends_and_orders():
    def trailing(name, data, extra, layer, why):
        return Golden(name, data + extra, layer, why, ("trailing_bytes", len(data), len(data), len(data) + len(extra)))

    yield trailing("trailing-byte", BASE, b"\0", L, "nothing follows, not even a zero")
    yield trailing("trailing-record", BASE, BASE, L, "two records are not one")
    yield trailing("trailing-after-f16", BASE16, b"\0\0", L, "two zero bytes are not padding")
    yield trailing("trailing-after-empty", encode(record(ONE, 0), ONE), b"\xff", ONE, "an empty record has an end too")

    old = body(record(L, 2), L)
    yield trailing("unversioned-trailing", old, b"\0\0\0\0", L, "nothing follows a body either")
    yield Golden("unversioned-refused", old, STRICT, "a sound body, but the layer wants to know whose it is",
                 ("unversioned_refused", 0, 0, 0))
    yield Golden("unversioned-flag-2", patched(old, 0, 2, 4), L, "0 or 1", ("bad_flag", 0, 1, 2))
    yield Golden("unversioned-kv-heads", patched(old, 8, 3, 4), L, "offsets count from the body's start",
                 ("geometry_mismatch", 8, 2, 3))
    yield Golden("unversioned-head-dim", patched(old, 12, 1, 4), L, "another head_dim", ("geometry_mismatch", 12, 2, 1))
    yield Golden("unversioned-imp-len", patched(old, 20, 3, 4), L, "any seq_len goes, but lengths must follow it",
                 ("inconsistent_length", 20, 2, 3))
    yield Golden("unversioned-truncated", old[:-1], L, "the last value is a byte short",
                 ("truncated", len(old) - 16, 16, 15))

    # Several faults: the first in byte order is the verdict, whatever a decoder would like to look at first.
    yield Golden("first-of-all-header-faults", BASE[:4] + b"\xff" * 28 + BASE[32:], L, "every header field is wrong",
                 ("bad_version", 4, 2, U32_MAX))
    yield Golden("flag-before-trailing", patched(BASE, F16, 2, 1) + b"\0", L, "the end is looked at last",
                 ("bad_flag", F16, 1, 2))
    yield Golden("identity-before-truncation", patched(BASE, IDENTITY, 1, 8)[:16], L, "wrong comes before missing",
                 ("identity_mismatch", IDENTITY, L.identity, 1))
    yield Golden("kind-unknown-before-mismatch", patched(BASE, KIND, 4, 1, 9, 1), L, "unknown, not another's",
                 ("unknown_kind", KIND, 2, 4))
    yield Golden("truncated-vector-before-k-len", patched(BASE, LINEAR_LEN, 24, 4), L,
                 "the array is one field: truncated where it begins", ("truncated", LINEAR_AT, 96, END - LINEAR_AT))
    yield Golden("k-len-value-before-its-array", patched(BASE, K0, 8, 4)[:KEYS0], L,
                 "the length is wrong before its array is missing", ("inconsistent_length", K0, 4, 8))


def goldens() -> list[Golden]:
    assert len(BASE) == END and HEADER_BYTES == BODY_FLAG
    return [*accepted(), *truncations(), *header_faults(), *body_faults(), *huge_lengths(), *ends_and_orders()]
