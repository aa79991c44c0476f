"""Layers and records at random for run_oracle.py: valid ones of every kind, and damaged ones."""
import dataclasses
import random
import struct

SPECIAL = [0, 1, 0x80000000, 0x7F800000, 0xFF800000, 0x7F800001, 0x7FC00000, 0xFFC12345, 0x7F801FFF, 0x7F802000, 0x477FE000,
           0x477FEFFF, 0x477FF000, 0x47800000, 0x33000000, 0x33000001, 0x32FFFFFF, 0x33800000, 0x38800000, 0x387FFFFF,
           0x387FE000, 0x387FF000, 0x007FFFFF, 0x00800000, 0x3F800000, 0x3F801000, 0x3F803000]
NUMBERS = [0, 1, 2, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x40000000, 0x534D4643]
KINDS = {"full": 0, "linear": 1, "bounded": 2}


@dataclasses.dataclass
class Layer:
    kind: int
    heads: int
    dim: int
    window: int
    layer: int
    identity: int
    allowed: int

    def words(self) -> str:
        return f"{self.kind} {self.heads} {self.dim} {self.window} {self.layer} {self.identity:016x} {self.allowed}"


def layer_words(item: dict) -> str:
    """A layer of the corpus' index."""
    return Layer(KINDS[item["kind"]], item["kv_heads"], item["head_dim"], item.get("window", 0), item["layer"],
                 int(item["identity"], 16), int(item["linear_wire_allowed"])).words()


def random_layer(rng: random.Random) -> Layer:
    kind = rng.choice([0, 0, 1, 2])
    return Layer(kind, rng.randint(1, 4), rng.randint(1, 5), rng.randint(1, 6) if kind == 2 else 0,
                 rng.choice([0, 1, 7, rng.getrandbits(32)]), rng.choice([0, 0xC0FFEE00, rng.getrandbits(64)]),
                 rng.random() < 0.9)


def pattern(rng: random.Random, half: bool) -> int:
    if half:
        return rng.choice([rng.getrandbits(16), 0x7C00, 0xFC01, 0x7E00, rng.getrandbits(10), 0x7BFF])
    choice = rng.random()
    if choice < 0.3:
        return rng.choice(SPECIAL)
    if choice < 0.5:  # where binary16 has its binades, near ties
        return rng.getrandbits(1) << 31 | rng.randint(100, 144) << 23 | rng.getrandbits(11) << 12 | rng.choice([0, 0, 1, 0xFFF])
    return rng.getrandbits(32)


def array(rng: random.Random, count: int, half: bool) -> bytes:
    return struct.pack(f"<{count}{'H' if half else 'I'}", *(pattern(rng, half) for _ in range(count)))


def full_body(rng: random.Random, layer: Layer, half: bool, seq_len: int, rows: int) -> bytes:
    vector = rng.choice([0, 0, 1, 3])
    parts = [struct.pack("<6I", half, seq_len, layer.heads, layer.dim, vector, rows), array(rng, vector, False),
             array(rng, rows, False)]
    for _ in range(layer.heads):
        count = 0 if rng.random() < 0.2 else rows * layer.dim
        for _ in range(2):
            parts += [struct.pack("<I", count), array(rng, count, half)]
    return b"".join(parts)


def ring(rng: random.Random, layer: Layer, half: bool, position: int) -> bytes:
    width, written = 2 if half else 4, min(position, layer.window)
    return b"".join(array(rng, written * layer.dim, half) + bytes((layer.window - written) * layer.dim * width)
                    for _ in range(layer.heads))


def valid(rng: random.Random, layer: Layer) -> bytes:
    half, seq_len = rng.random() < 0.5, rng.choice([0, 1, 2, 3, 5])
    if layer.kind != 2 and rng.random() < 0.2:
        seq_len = seq_len if layer.kind == 0 else rng.choice([seq_len, rng.getrandbits(32)])
        return full_body(rng, layer, half, seq_len, seq_len if layer.kind == 0 else 0)
    position = seq_len
    if layer.kind != 0:
        position = rng.choice([seq_len, layer.window, 2 * layer.window + 1, rng.getrandbits(40), 2**63 - 1])
    header = b"CMFS" + struct.pack("<IQIBBHQ", 2, layer.identity, layer.layer, layer.kind, half, 0, position)
    if layer.kind == 0:
        return header + full_body(rng, layer, half, seq_len, seq_len)
    if layer.kind == 1:
        vector = rng.randint(0, 5)
        return header + struct.pack("<3I", layer.heads, layer.dim, vector) + array(rng, vector, False)
    cursor = struct.pack("<5I", layer.heads, layer.dim, layer.window, min(position, layer.window), position % layer.window)
    return header + cursor + ring(rng, layer, half, position) + ring(rng, layer, half, position)


def damaged(rng: random.Random, data: bytes, other: bytes) -> bytes:
    data = bytearray(data)
    match rng.randrange(8):
        case 0:
            return bytes(data[:rng.randint(0, len(data))])
        case 1:
            return bytes(data) + rng.randbytes(rng.randint(1, 9))
        case 2:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 3 | 4:  # a field of the header or of the body's fixed part
            at = rng.choice([0, 4, 8, 12, 16, 20, 21, 22, 24, 28, 31, 32, 36, 40, 44, 48, 52, 56, 60])
            size = 1 if at in (20, 21, 31) else 2 if at == 22 else 4
            value = rng.choice([*NUMBERS, rng.getrandbits(32), data[min(at, len(data) - 1)] + rng.choice([-1, 1])])
            data[at:at + size] = (value & (256**size - 1)).to_bytes(size, "little")
        case 5:  # any aligned word
            at = 4 * rng.randrange((len(data) + 3) // 4)
            data[at:at + 4] = (rng.choice([*NUMBERS, rng.getrandbits(32)])).to_bytes(4, "little")
        case 6:
            cut = rng.randint(0, len(data))
            return bytes(data[:cut]) + other[rng.randint(0, len(other)):]
        case 7:
            at = rng.randrange(len(data))
            if rng.random() < 0.5:
                del data[at:at + rng.randint(1, 4)]
            else:
                data[at:at] = rng.randbytes(rng.randint(1, 4))
    return bytes(data)


def other_layer(rng: random.Random, layer: Layer) -> Layer:
    """The record stays, the layer is another one in one respect."""
    match rng.randrange(6):
        case 0:
            return dataclasses.replace(layer, heads=rng.randint(1, 4))
        case 1:
            return dataclasses.replace(layer, dim=rng.randint(1, 5))
        case 2:
            return dataclasses.replace(layer, identity=layer.identity ^ 1 << rng.randrange(64))
        case 3:
            return dataclasses.replace(layer, layer=layer.layer ^ 1 << rng.randrange(32))
        case 4:
            return dataclasses.replace(layer, allowed=1 - layer.allowed)
        case _:
            kind = rng.randrange(3)
            return dataclasses.replace(layer, kind=kind, window=rng.randint(1, 6) if kind == 2 else 0)


def generate(rng: random.Random, count: int):
    """Pairs of a layer's words and a buffer: two fifths untouched, the rest damaged once or twice."""
    previous = b"\0" * 40
    for _ in range(count):
        layer = random_layer(rng)
        data = valid(rng, layer)
        fresh = data
        damage = rng.random()
        if damage > 0.4:
            for _ in range(rng.choice([1, 1, 2])):
                data = damaged(rng, data, previous) or b"\0"
        if damage > 0.9:
            layer = other_layer(rng, layer)
        if rng.random() < 0.02:
            data = rng.randbytes(rng.randint(0, 80))
        previous = fresh
        yield layer.words(), data
