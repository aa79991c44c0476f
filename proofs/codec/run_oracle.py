#!/usr/bin/env python3
"""Holds the decoder extracted from Coq against both C++ decoders: run_oracle.py BUILD ROOT NINJA [GENERATED]

BUILD gets the Coq output and the oracle, ROOT is the repository, NINJA the build directory that has
proofs/kvcert_wire_verdicts. Compared are the verdict with code, offset and both values, or the state and its records in both
formats: for the golden records, every truncation and every single-bit flip of them, and GENERATED records (100,000).
"""
import concurrent.futures
import itertools
import json
import pathlib
import random
import shutil
import subprocess
import sys
import time

import oracle_records

MODEL = ["Bytes.v", "Binary16.v", "Grammar.v", "Record.v", "Extract.v"]
BATCH = 20_000
CODES = {"truncated", "bad_version", "identity_mismatch", "layer_mismatch", "unknown_kind", "kind_mismatch", "bad_flag",
         "reserved_not_zero", "position_out_of_range", "position_mismatch", "geometry_mismatch", "inconsistent_length",
         "ring_cursor_mismatch", "ring_slot_not_zero", "trailing_bytes", "unversioned_refused"}


def build_oracle(source: pathlib.Path, build: pathlib.Path) -> pathlib.Path:
    """Coq, extraction, OCaml. What `prove` has built in BUILD already is used."""
    build.mkdir(parents=True, exist_ok=True)
    for name in [*MODEL, "wire_oracle.ml"]:
        if not (build / name).is_file() or (build / name).read_bytes() != (source / name).read_bytes():
            shutil.copyfile(source / name, build / name)
    run = lambda *command: subprocess.run(command, cwd=build, check=True)  # noqa: E731
    newest = 0.0
    for name in MODEL:
        compiled = build / (name + "o")
        newest = max(newest, (build / name).stat().st_mtime)
        if not compiled.is_file() or compiled.stat().st_mtime < newest or not (build / "wire_model.ml").is_file():
            run("coqc", "-R", ".", "KvCodec", name)
            newest = compiled.stat().st_mtime
    run("ocamlfind", "ocamlopt", "-O3", "-w", "-a", "wire_model.mli", "wire_model.ml", "wire_oracle.ml", "-o", "wire_oracle")
    return build / "wire_oracle"


def neighbours(root: pathlib.Path):
    """The corpus, and every truncation and every single-bit flip of it, each with its layer."""
    for index in sorted((root / "corpus/wire").rglob("index.json")):
        for item in json.loads(index.read_text())["records"]:
            layer = oracle_records.layer_words(item["layer"])
            data = (index.parent / item["file"]).read_bytes()
            yield layer, data
            for length in range(len(data)):
                yield layer, data[:length]
            for at, bit in itertools.product(range(len(data)), range(8)):
                flipped = bytearray(data)
                flipped[at] ^= 1 << bit
                yield layer, bytes(flipped)


def answers(program: pathlib.Path, lines: list[str]) -> list[str]:
    run = subprocess.run([str(program)], input="".join(lines), capture_output=True, text=True, check=False)
    got = run.stdout.splitlines()
    if run.returncode != 0 or len(got) != len(lines):
        sys.exit(f"{program.name} ended with {run.returncode} after {len(got)} of {len(lines)} records: {run.stderr}")
    return got


def compare(what: str, records, programs: list[pathlib.Path]) -> tuple[int, int, dict[str, int]]:
    """Records compared, differences, and how often each verdict came."""
    count = differences = 0
    verdicts: dict[str, int] = {}
    began = time.monotonic()
    records = iter(records)
    with concurrent.futures.ThreadPoolExecutor(len(programs)) as pool:
        while batch := [f"{layer} {data.hex() or '-'}\n" for layer, data in itertools.islice(records, BATCH)]:
            model, shipped = pool.map(lambda program: answers(program, batch), programs)
            for line, expected, found in zip(batch, model, shipped):
                verdict = expected.split(" ", 1)[0]
                verdicts[verdict] = verdicts.get(verdict, 0) + 1
                if expected != found:
                    differences += 1
                    if differences <= 10:
                        print(f"DIFFERENT on: {line}  the model:  {expected}\n  the code:   {found}")
            count += len(batch)
    print(f"{what}: {count} records, {verdicts.get('accept', 0)} accepted, {differences} differences, "
          f"{time.monotonic() - began:.1f} s")
    return count, differences, verdicts


def main() -> int:
    build, root, ninja = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    wanted = int(sys.argv[4]) if len(sys.argv) > 4 else 100_000
    programs = [build_oracle(root / "proofs/codec", build), ninja / "proofs/kvcert_wire_verdicts"]
    around, differences, corpus_verdicts = compare("corpus", neighbours(root), programs)
    generated, more, verdicts = compare("generated", oracle_records.generate(random.Random(20240607), wanted), programs)
    differences += more
    for code in sorted(CODES):
        print(f"  {code:<22} {corpus_verdicts.get(code, 0):>7} {verdicts.get(code, 0):>7}")
    # A comparison that saw too little has compared nothing.
    missing = [code for code in CODES if verdicts.get(code, 0) < wanted // 2000]
    if missing or around < 100_000 or not wanted / 5 < verdicts.get("accept", 0) < wanted:
        print(f"oracle: too little was seen: {around} neighbours, {verdicts.get('accept', 0)} of {generated} accepted, "
              f"hardly any {missing}")
        return 1
    print(f"oracle: corpus, its truncations and flips, and {generated} generated records: {differences} differences")
    return int(differences != 0)


if __name__ == "__main__":
    sys.exit(main())
