#!/usr/bin/env python3
"""The golden rejects name every fault that docs/wire.md has, at every field: kind of layer, field, code.

The wanted list is that page's tables. A record's field is found by walking the record as far as its reject says it is sound.
"""
import json
import pathlib
import sys

WIRE = pathlib.Path(__file__).resolve().parent.parent / "corpus" / "wire"

HEADER = {"version": ["bad_version"], "identity": ["identity_mismatch"], "layer": ["layer_mismatch"],
          "kind": ["unknown_kind", "kind_mismatch"], "f16": ["bad_flag"], "reserved": ["reserved_not_zero"],
          "position": ["position_out_of_range"]}
FULL = {"body flag": ["bad_flag"], "seq_len": ["position_mismatch"], "kv_heads": ["geometry_mismatch"], "head_dim": ["geometry_mismatch"],
        "linear_len": [], "imp_len": ["inconsistent_length"], "vector": [], "importance": [], "k_len": ["inconsistent_length"], "keys": [],
        "v_len": ["inconsistent_length"], "values": []}
LINEAR = {"kv_heads": ["geometry_mismatch"], "head_dim": ["geometry_mismatch"], "linear_len": [], "vector": []}
BOUNDED = {"kv_heads": ["geometry_mismatch"], "head_dim": ["geometry_mismatch"], "window": ["geometry_mismatch"],
           "len": ["ring_cursor_mismatch"], "head": ["ring_cursor_mismatch"], "ring_k": ["ring_slot_not_zero"], "ring_v": ["ring_slot_not_zero"]}
BODIES = {"full": FULL, "linear": LINEAR, "bounded": BOUNDED}


def wanted(kinds: set[str]) -> set[tuple[str, str, str]]:
    pairs = set()
    for kind in kinds:
        fields = {**(HEADER if kind == "full" else {}), **BODIES[kind]}  # one header decoder serves all kinds
        pairs |= {(kind, field, code) for field, codes in fields.items() for code in [*codes, "truncated"]}
        pairs |= {(kind, "end", "trailing_bytes"), (kind, "start", "unversioned_refused")}
    pairs |= {("full unversioned", field, code) for field, code in (
        ("body flag", "bad_flag"), ("kv_heads", "geometry_mismatch"), ("head_dim", "geometry_mismatch"),
        ("imp_len", "inconsistent_length"), ("values", "truncated"), ("end", "trailing_bytes"))}
    if "linear" in kinds:
        pairs |= {("linear unversioned", field, "inconsistent_length") for field in ("imp_len", "k_len", "v_len")}
    return pairs


def fields_of(data: bytes, kind: str, layer: dict):
    """(offset, name) of every field, with lengths as the record says them."""
    at = 0

    def number(offset: int, size: int) -> int:
        return int.from_bytes(data[offset:offset + size], "little")

    versioned = data[:4] == b"CMFS"
    f16 = 0
    if versioned:
        for offset, name in ((4, "version"), (8, "identity"), (16, "layer"), (20, "kind"), (21, "f16"), (22, "reserved"), (24, "position")):
            yield offset, name
        f16, at = number(21, 1), 32
    if versioned and kind == "linear":
        for name in ("kv_heads", "head_dim", "linear_len", "vector"):
            yield at, name
            at += 4
        yield at - 4 + 4 * number(at - 8, 4), "end"
        return
    if versioned and kind == "bounded":
        for name in ("kv_heads", "head_dim", "window", "len", "head"):
            yield at, name
            at += 4
        ring = layer["kv_heads"] * layer["head_dim"] * layer["window"] * (2 if f16 else 4)
        for name in ("ring_k", "ring_v"):
            yield at, name
            at += ring
        yield at, "end"
        return
    start = at
    for name in ("body flag", "seq_len", "kv_heads", "head_dim", "linear_len", "imp_len"):
        yield at, name
        at += 4
    width = 2 if number(start, 4) == 1 else 4
    yield at, "vector"
    at += 4 * number(start + 16, 4)
    yield at, "importance"
    at += 4 * number(start + 20, 4)
    for _ in range(min(number(start + 8, 4), len(data))):
        for length, tensor in (("k_len", "keys"), ("v_len", "values")):
            yield at, length
            count = number(at, 4)
            yield at + 4, tensor
            at += 4 + width * count
    yield at, "end"


def field_at(data: bytes, layer: dict, code: str, offset: int) -> str:
    if code == "unversioned_refused":
        return "start"
    if code == "trailing_bytes":
        return "end"
    best = (-1, "")
    for at, name in fields_of(data, layer["kind"], layer):
        # An empty field and the next share an offset: arrays hold no code of their own but truncated and the ring's.
        if at <= offset and (at > best[0] or at == best[0]):
            best = (at, name)
    return best[1]


def main() -> int:
    found, kinds = set(), set()
    for item in json.loads((WIRE / "index.json").read_text(encoding="utf-8"))["records"]:
        if item["verdict"] != "reject":
            continue
        data, layer = (WIRE / item["file"]).read_bytes(), item["layer"]
        kinds.add(layer["kind"])
        field = field_at(data, layer, item["code"], item["offset"])
        found.add((layer["kind"], field, item["code"]))
        if data[:4] != b"CMFS":
            found.add((f"{layer['kind']} unversioned", field, item["code"]))
    missing = sorted(wanted(kinds) - found)
    for kind, field, code in missing:
        print(f"no golden reject: kind {kind}, {field}: {code}")
    print(f"kinds {', '.join(sorted(kinds))}: {len(wanted(kinds)) - len(missing)} of {len(wanted(kinds))} faults have a golden reject")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
