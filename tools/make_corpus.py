#!/usr/bin/env python3
"""Writes the golden wire records of corpus/wire/, checks them, and judges any record.

  make_corpus.py                            write corpus/wire/{accept,reject}, index.json and neighbours.json
  make_corpus.py --check                    nothing is written: the stored files must be what would be written, and the
                                            decoder here must give every indexed record, the peers' too, its verdict
  make_corpus.py --judge FILE --layer JSON  this decoder's verdict for FILE, for a layer as in the index

The bytes depend on nothing but this program. The verdicts are written by hand in corpus_records.py, and the decoder of
wire_reading.py must come to the same ones.
"""
import argparse
import json
import pathlib
import re
import sys
import zlib

sys.dont_write_bytecode = True  # no __pycache__ in the checkout

from corpus_kinds import kind_goldens
from corpus_records import goldens as full_goldens
from wire_reading import Layer, LinearRecord, decode, encode, verdict

WIRE = pathlib.Path(__file__).resolve().parent.parent / "corpus" / "wire"
VERDICT = ("verdict", "code", "offset", "expected", "found")


def goldens() -> list:
    return [*full_goldens(), *kind_goldens()]


def render_index(items: list[dict]) -> str:
    """One record a line, so that a change shows as one line."""
    lines = ",\n".join("  " + json.dumps(item, ensure_ascii=False) for item in items)
    return f'{{"schema": "index.schema.json", "records": [\n{lines}\n]}}\n'


def neighbours(data: bytes):
    """Every single-bit flip and complement of every byte, then every truncation, then one byte more."""
    for at, byte in enumerate(data):
        for mask in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            yield data[:at] + bytes([byte ^ mask]) + data[at + 1:]
    for length in range(len(data)):
        yield data[:length]
    yield data + b"\0"


def digest(data: bytes, layer: Layer) -> str:
    """CRC-32 of the verdicts of all neighbours, one a line: other decoders compare theirs without a file for each."""
    lines = (" ".join(str(item) for item in verdict(neighbour, layer).values()) for neighbour in neighbours(data))
    text = "".join(line.removeprefix("reject ") + "\n" for line in lines)
    return f"{zlib.crc32(text.encode()):08x}"


def wanted_files() -> dict[str, bytes]:
    items = [golden.to_json() for golden in goldens()]
    files = {item["file"]: golden.data for item, golden in zip(items, goldens())}
    assert len(files) == len(items), "two records share a name"
    digests = {item["file"]: digest(golden.data, golden.layer) for item, golden in zip(items, goldens())}
    for item in json.loads((WIRE / "peer" / "index.json").read_text(encoding="utf-8"))["records"]:
        # A peer's record is listed once for a full layer, which owns its name, and once for a layer of its own kind.
        kind = item["layer"]["kind"]
        name = f"peer/{item['file']}" + ("" if kind == "full" else f" to a {kind} layer")
        digests[name] = digest((WIRE / "peer" / item["file"]).read_bytes(), Layer.from_json(item["layer"]))
    files["index.json"] = render_index(items).encode()
    files["neighbours.json"] = (json.dumps(digests, indent=0) + "\n").encode()
    return files


def write() -> None:
    files = wanted_files()
    for folder in ("accept", "reject"):
        (WIRE / folder).mkdir(parents=True, exist_ok=True)
        for old in (WIRE / folder).glob("*.cmfs"):
            old.unlink()
    for name, data in files.items():
        (WIRE / name).write_bytes(data)
    print(f"{len(files) - 2} records written to {WIRE}")


def schema_faults(schema: dict, value, where: str):
    """The part of JSON Schema that index.schema.json uses."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if "type" in schema and (not isinstance(value, kinds[schema["type"]])
                             or schema["type"] == "integer" and isinstance(value, bool)):
        yield f"{where}: not of type {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not one of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{where}: {value!r} does not match {schema['pattern']}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{where}: {value} is below {schema['minimum']}"
    if isinstance(value, dict):
        for key in schema.get("required", []):
            if key not in value:
                yield f"{where}: {key} is missing"
        for key, item in value.items():
            if key in schema.get("properties", {}):
                yield from schema_faults(schema["properties"][key], item, f"{where}.{key}")
            elif schema.get("additionalProperties") is False:
                yield f"{where}: {key} is not in the schema"
    for number, item in enumerate(value if isinstance(value, list) else []):
        yield from schema_faults(schema.get("items", {}), item, f"{where}[{number}]")
    for choice in schema.get("allOf", []):
        branch = "else" if list(schema_faults(choice["if"], value, where)) else "then"
        yield from schema_faults(choice.get(branch, {}), value, where)


def judged_faults(root: pathlib.Path, schema: dict, judged: list):
    """Every record of one index, held against its verdict."""
    index = json.loads((root / "index.json").read_text(encoding="utf-8"))
    yield from schema_faults(schema, index, str(root / "index.json"))
    listed = {item["file"] for item in index["records"]}
    for path in sorted(root.rglob("*.cmfs")):
        has_own_index = path.parent != root and (path.parent / "index.json").is_file()
        if not has_own_index and path.relative_to(root).as_posix() not in listed:
            yield f"{path} is in no index"
    for item in index["records"]:
        path = root / item["file"]
        if not path.is_file():
            yield f"{path} is in the index and not in the folder"
            continue
        data = path.read_bytes()
        layer = Layer.from_json(item["layer"])
        stated = {key: item[key] for key in VERDICT if key in item}
        found = verdict(data, layer)
        judged.append(item["file"])
        if found != stated:
            yield f"{item['file']}: the index says {stated}, this decoder says {found}"
        elif found["verdict"] == "accept":
            record = decode(data, layer)
            again = encode(record, layer)
            if isinstance(record, LinearRecord) and not record.versioned:  # another record: that of its own kind
                written = decode(again, layer)
                same = (written.f16, written.position, written.linear) == (record.f16, record.position, record.linear)
            else:
                same = again[0 if getattr(record, "versioned", True) else 32:] == data
            if not same:
                yield f"{item['file']}: accepted, but encodes to other bytes"


def check() -> int:
    faults, judged = [], []
    for name, data in wanted_files().items():
        path = WIRE / name
        if not path.is_file():
            faults.append(f"{path} is missing")
        elif path.read_bytes() != data:
            faults.append(f"{path} is stale: not what make_corpus.py writes")
    schema = json.loads((WIRE / "index.schema.json").read_text(encoding="utf-8"))
    for root in (WIRE, WIRE / "peer"):
        faults += judged_faults(root, schema, judged)
    if not any(file.startswith("accept/") for file in judged) or not any(file.startswith("reject/") for file in judged):
        faults.append("the index lists no accept or no reject records")
    print("\n".join(faults), end="\n" if faults else "", file=sys.stderr)
    print(f"{len(judged)} records judged, {len(faults)} faults")
    return bool(faults)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--judge", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--layer", metavar="JSON", help='{"kv_heads": 2, "head_dim": 4, "layer": 3, "identity": "c0"}')
    arguments = parser.parse_args()
    if arguments.judge:
        if not arguments.layer:
            parser.error("--judge needs --layer")
        answer = verdict(arguments.judge.read_bytes(), Layer.from_json(json.loads(arguments.layer)))
        print(json.dumps(answer))
        return answer["verdict"] != "accept"
    if arguments.check:
        return check()
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
