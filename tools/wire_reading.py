"""A third reading of docs/wire.md, written from that page alone: no line of it comes from the C++ codecs.

decode() gives the verdict for any bytes; encode() writes the record of a decoded state. Arrays stay raw bytes: the wire
promises bits, and Python's floats would not keep the payload of every NaN.
"""
import dataclasses
import struct

HEADER_BYTES = 32
MAX_POSITION = 2**63 - 1
KINDS = ("full", "linear", "bounded")


@dataclasses.dataclass(frozen=True)
class Layer:
    """What a decoder knows about itself before it looks at a buffer."""
    kv_heads: int
    head_dim: int
    layer: int = 0
    identity: int = 0
    linear_wire_allowed: bool = True
    kind: int = 0
    window: int = 0  # kind bounded: the installed ring's

    @staticmethod
    def from_json(item: dict) -> "Layer":
        kind = KINDS.index(item.get("kind", "full"))
        if (kind == 2) != ("window" in item):
            raise ValueError("a bounded layer has a window, and no other layer has one")
        return Layer(item["kv_heads"], item["head_dim"], item.get("layer", 0), int(item.get("identity", "0"), 16),
                     item.get("linear_wire_allowed", True), kind, item.get("window", 0))

    def to_json(self) -> dict:
        window = {"window": self.window} if self.kind == 2 else {}
        return {"kind": KINDS[self.kind], "kv_heads": self.kv_heads, "head_dim": self.head_dim, **window,
                "layer": self.layer, "identity": f"{self.identity:016x}",
                "linear_wire_allowed": self.linear_wire_allowed}


class Refused(Exception):
    def __init__(self, code: str, offset: int, expected: int, found: int):
        super().__init__(f"{code} at byte {offset}: expected {expected}, found {found}")
        self.code, self.offset, self.expected, self.found = code, offset, expected, found


@dataclasses.dataclass
class Record:
    """A kind-0 record: header fields (identity and layer are absent in an unversioned body) and the raw arrays."""
    versioned: bool
    f16: int
    seq_len: int
    linear: bytes
    importance: bytes
    heads: list[tuple[bytes, bytes]]


@dataclasses.dataclass
class LinearRecord:
    """A kind-1 record, or the unversioned body that a linear layer takes."""
    versioned: bool
    f16: int
    position: int
    linear: bytes


@dataclasses.dataclass
class RingRecord:
    """A kind-2 record: both tensors whole, [kv_head][slot][head_dim]."""
    f16: int
    position: int
    keys: bytes
    values: bytes


class Fields:
    """Takes fields in byte order; a field that does not lie wholly in the buffer is truncated where it begins."""

    def __init__(self, buffer: bytes):
        self.buffer, self.offset = buffer, 0

    def take(self, size: int) -> bytes:
        left = len(self.buffer) - self.offset
        if size > left:
            raise Refused("truncated", self.offset, size, left)
        self.offset += size
        return self.buffer[self.offset - size:self.offset]

    def number(self, size: int, *conditions) -> int:
        """An unsigned field. Each condition is (holds, code, expected), tried in order."""
        at = self.offset
        value = int.from_bytes(self.take(size), "little")
        for holds, code, expected in conditions:
            if not holds(value):
                raise Refused(code, at, expected, value)
        return value


def equal(value: int, code: str):
    return (lambda found: found == value), code, value


def at_most(value: int, code: str):
    return (lambda found: found <= value), code, value


def decode(buffer: bytes, layer: Layer) -> Record | LinearRecord | RingRecord:
    """The record, or Refused with the first fault in byte order."""
    fields = Fields(buffer)
    versioned = buffer[:4] == b"CMFS"
    if not versioned and (not layer.linear_wire_allowed or layer.kind == 2):
        raise Refused("unversioned_refused", 0, 0, 0)
    if versioned:
        fields.take(4)
        fields.number(4, equal(2, "bad_version"))
        fields.number(8, equal(layer.identity, "identity_mismatch"))
        fields.number(4, equal(layer.layer, "layer_mismatch"))
        fields.number(1, at_most(2, "unknown_kind"), equal(layer.kind, "kind_mismatch"))
        f16 = fields.number(1, at_most(1, "bad_flag"))
        fields.number(2, equal(0, "reserved_not_zero"))
        position = fields.number(8, at_most(MAX_POSITION, "position_out_of_range"))
        if layer.kind == 1:
            return decode_linear(fields, layer, f16, position)
        if layer.kind == 2:
            return decode_ring(fields, layer, f16, position)
        fields.number(4, equal(f16, "bad_flag"))
        seq_len = fields.number(4, equal(position, "position_mismatch"))
    else:
        f16 = fields.number(4, at_most(1, "bad_flag"))
        seq_len = fields.number(4)
    fields.number(4, equal(layer.kv_heads, "geometry_mismatch"))
    fields.number(4, equal(layer.head_dim, "geometry_mismatch"))
    linear_len = fields.number(4)
    # A linear layer has no rows: its body has no importance, and every head's lengths are 0.
    imp_len = fields.number(4, equal(0 if layer.kind == 1 else seq_len, "inconsistent_length"))
    linear = fields.take(4 * linear_len)
    importance = fields.take(4 * imp_len)

    width = 2 if f16 else 4
    whole = 0 if layer.kind == 1 else seq_len * layer.head_dim
    dead_or_whole = (lambda found: found in (0, whole)), "inconsistent_length", whole
    heads = []
    for _ in range(layer.kv_heads):
        k_len = fields.number(4, dead_or_whole)
        keys = fields.take(width * k_len)
        v_len = fields.number(4, equal(k_len, "inconsistent_length"))
        heads.append((keys, fields.take(width * v_len)))
    end(fields)
    if layer.kind == 1:
        return LinearRecord(False, f16, seq_len, linear)
    return Record(versioned, f16, seq_len, linear, importance, heads)


def end(fields: Fields) -> None:
    if fields.offset != len(fields.buffer):
        raise Refused("trailing_bytes", fields.offset, fields.offset, len(fields.buffer))


def geometry(fields: Fields, layer: Layer) -> None:
    fields.number(4, equal(layer.kv_heads, "geometry_mismatch"))
    fields.number(4, equal(layer.head_dim, "geometry_mismatch"))


def decode_linear(fields: Fields, layer: Layer, f16: int, position: int) -> LinearRecord:
    geometry(fields, layer)
    linear = fields.take(4 * fields.number(4))
    end(fields)
    return LinearRecord(True, f16, position, linear)


def decode_ring(fields: Fields, layer: Layer, f16: int, position: int) -> RingRecord:
    geometry(fields, layer)
    fields.number(4, equal(layer.window, "geometry_mismatch"))
    fields.number(4, equal(min(position, layer.window), "ring_cursor_mismatch"))
    fields.number(4, equal(position % layer.window, "ring_cursor_mismatch"))
    width = 2 if f16 else 4
    tensors = []
    for _ in range(2):
        at = fields.offset
        tensor = fields.take(width * layer.kv_heads * layer.window * layer.head_dim)
        tensors.append(tensor)
        for element in range(len(tensor) // width):
            slot = element // layer.head_dim % layer.window
            bits = int.from_bytes(tensor[element * width:(element + 1) * width], "little")
            if slot >= position and bits:  # a slot that nothing was ever written to
                raise Refused("ring_slot_not_zero", at + element * width, 0, bits)
    end(fields)
    return RingRecord(f16, position, *tensors)


def header(layer: Layer, f16: int, position: int) -> bytes:
    return b"CMFS" + struct.pack("<IQIBBHQ", 2, layer.identity, layer.layer, layer.kind, f16, 0, position)


def body(record: Record, layer: Layer) -> bytes:
    width = 2 if record.f16 else 4
    parts = [struct.pack("<6I", record.f16, record.seq_len, layer.kv_heads, layer.head_dim, len(record.linear) // 4,
                         len(record.importance) // 4), record.linear, record.importance]
    for keys, values in record.heads:
        parts += [struct.pack("<I", len(keys) // width), keys, struct.pack("<I", len(values) // width), values]
    return b"".join(parts)


def encode(record: Record | LinearRecord | RingRecord, layer: Layer) -> bytes:
    """The version-2 record; of an unversioned body, the record around it, or in a linear layer its kind-1 record."""
    if isinstance(record, LinearRecord):
        return header(layer, record.f16, record.position) + struct.pack(
            "<3I", layer.kv_heads, layer.head_dim, len(record.linear) // 4) + record.linear
    if isinstance(record, RingRecord):
        cursor = (min(record.position, layer.window), record.position % layer.window)
        return header(layer, record.f16, record.position) + struct.pack(
            "<5I", layer.kv_heads, layer.head_dim, layer.window, *cursor) + record.keys + record.values
    return header(layer, record.f16, record.seq_len) + body(record, layer)


def verdict(buffer: bytes, layer: Layer) -> dict:
    """decode() in the shape of the index; u64 values as decimal strings, which every JSON reader keeps whole."""
    try:
        decode(buffer, layer)
    except Refused as fault:
        return {"verdict": "reject", "code": fault.code, "offset": fault.offset, "expected": str(fault.expected),
                "found": str(fault.found)}
    return {"verdict": "accept"}
