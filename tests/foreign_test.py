#!/usr/bin/env python3
"""Engines of other makes, from the outside: foreign_test.py BUILD. Exit status 0 if every expectation was met.

Schemas hold for what is written; the examples run as they are shipped and hold; answers that are shuffled, missing, there
twice or damaged each get their verdict; input of any other kind gets a sentence and status 2.
"""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
KVCERT = str(BUILD / "certify/kvcert")
FAULTS: list[str] = []


def run(*command, stdin=None, cwd=None):
    return subprocess.run([str(part) for part in command], input=stdin, capture_output=True, text=True, errors="replace", check=False,
                          timeout=900, cwd=cwd)


def expect(what: str, condition: bool, detail: str = "") -> None:
    if not condition:
        FAULTS.append(what)
        print(f"NOT MET: {what}\n{detail.strip()[-1500:]}")


def schema(name: str):
    return jsonschema.Draft7Validator(json.loads((ROOT / "docs/schemas" / name).read_text()))


def certificate_of(folder: pathlib.Path, cases: pathlib.Path, answers: str) -> tuple[int, dict, str]:
    path = folder / "certificate.json"
    path.unlink(missing_ok=True)
    result = run(KVCERT, "judge", cases, "--json", path, "--findings", folder / "findings", stdin=answers)
    return result.returncode, json.loads(path.read_text()) if path.exists() else {}, result.stdout + result.stderr


def check_named(certificate: dict, name: str) -> dict:
    return next((check for check in certificate.get("checks", []) if check["name"] == name), {"counts": {"wrong": -1}})


def schemas_hold(cases: str, answers: str) -> None:
    for name, text in (("case.json", cases), ("answer.json", answers)):
        validator = schema(name)
        for number, line in enumerate(text.splitlines(), 1):
            error = next(validator.iter_errors(json.loads(line)), None)
            expect(f"{name} holds for line {number}", error is None, str(error)[:600])
            if error:
                break
    for path in sorted((ROOT / "corpus/vectors").glob("*.json")):
        error = next(schema("vectors.json").iter_errors(json.loads(path.read_text())), None)
        expect(f"vectors.json holds for {path.name}", error is None, str(error)[:600])
    for bad in ({"id": "x", "check": "c", "about": "", "steps": []}, {"id": "x", "check": "c", "about": "", "steps": [{"op": "fly"}]},
                {"id": "x", "check": "c", "about": "", "steps": [{"op": "truncate", "n": -1}]}):
        expect(f"case.json refuses {bad}", not schema("case.json").is_valid(bad))
    for bad in ({"id": 3, "steps": []}, {"id": "x"}, {"id": "x", "steps": ["maybe"]}, {"engine": {"claims": ["fast"]}}):
        expect(f"answer.json refuses {bad}", not schema("answer.json").is_valid(bad))


def every_fifth(cases: pathlib.Path, answers: str) -> tuple[pathlib.Path, str]:
    """A fifth of the cases, from everywhere in the suite, and their answers behind the declaration: what is damaged below is the lines
    between engine and judge, not the engine."""
    few = cases.with_name("few.jsonl")
    lines = cases.read_text().splitlines()[::5]
    few.write_text("\n".join(lines) + "\n")
    wanted = {json.loads(line)["id"] for line in lines}
    hello, *rest = answers.splitlines()
    return few, "\n".join([hello, *(line for line in rest if json.loads(line)["id"] in wanted)]) + "\n"


def order_and_damage(folder: pathlib.Path, cases: pathlib.Path, answers: str) -> None:
    lines = answers.splitlines()
    hello, rest = lines[0], lines[1:]
    shuffled = rest[:]
    random.Random(1).shuffle(shuffled)
    _, plain, _ = certificate_of(folder, cases, answers)
    status, other, output = certificate_of(folder, cases, "\n".join([hello, *shuffled]))
    expect("any order gives the same certificate", status == 0 and other["digest"] == plain["digest"] and other["checks"] and
           {c["name"]: c["counts"] for c in other["checks"]} == {c["name"]: c["counts"] for c in plain["checks"]}, output)

    missing = json.loads(rest[3])["id"]
    status, certificate, output = certificate_of(folder, cases, "\n".join([hello, *rest[:3], *rest[4:]]))
    total = sum(check["counts"]["wrong"] for check in certificate["checks"])
    expect("a missing answer is wrong, and nothing else is", status == 1 and total == 1 and "there is no answer" in output and missing in output, output)

    status, certificate, output = certificate_of(folder, cases, "\n".join([*lines, rest[5]]))
    expect("a second answer is said", status == 1 and check_named(certificate, "protocol")["counts"]["wrong"] == 1 and "a second answer" in output, output)

    damaged = [rest[0][:40], "", "[1, 2]", "nul\0l", '{"id": "nobody", "steps": []}', '{"id": "x", "steps": [{"out": "zz"}]}', '{"steps": []}', "\xff{"]
    status, certificate, output = certificate_of(folder, cases, "\n".join([hello, *damaged, *rest]))
    expect("each damaged line is said, and costs nothing else", status == 1 and check_named(certificate, "protocol")["counts"]["wrong"] == 7 and
           sum(check["counts"]["wrong"] for check in certificate["checks"]) == 7, output)

    short = json.loads(rest[0])
    for what, steps in (("too few entries", short["steps"][:-1]), ("too many entries", short["steps"] + ["ok"]),
                        ("numbers that are too few", short["steps"][:-1] + [{"out": "0000803f"}])):
        status, _, output = certificate_of(folder, cases, "\n".join([hello, json.dumps({"id": short["id"], "steps": steps}), *rest[1:]]))
        expect(f"{what} are wrong", status == 1 and short["id"] in output, output)
    status, _, output = certificate_of(folder, cases, "\n".join([*rest[:1], hello, *rest[1:]]))
    expect("a declaration that comes late is said", status == 1 and "before the first answer" in output, output)
    status, _, output = certificate_of(folder, cases, "\n".join(json.dumps({"id": json.loads(line)["id"], "steps": ["unsupported"] * len(json.loads(line)["steps"])})
                                                             for line in rest))
    expect("an engine that has nothing does not pass", status == 1 and "DOES NOT HOLD" in output, output)


def broken_copy(folder: pathlib.Path, cases: pathlib.Path) -> None:
    source = (ROOT / "examples/numpy_engine.py").read_text()
    for good, bad, check, hint in (("position + 1 - self.window", "position - self.window", "window", "W+1"),
                                   ("keep = max(0, len(layer.k) - step[\"n\"])", "keep = max(0, len(layer.k) - step[\"n\"] + 1)", "rollback", "one position less"),
                                   ("repeat(group, axis=1)", "repeat(group, axis=1)[:, [h % self.kv_heads * group for h in range(self.heads)]]", "head map", "tiled")):
        expect(f"the example still has {good}", good in source)
        script = folder / "broken.py"
        script.write_text(source.replace(good, bad))
        answers = run(sys.executable, script, stdin=cases.read_text())
        status, certificate, output = certificate_of(folder, cases, answers.stdout)
        entry = check_named(certificate, check)
        expect(f"the example with {bad} is caught by {check}, and the hint names it",
               status == 1 and entry["counts"]["wrong"] > 0 and hint in entry["wrong"]["hint"], output + answers.stderr)
        finding = re.search(r"replay (\S+)", output)
        replay = run(KVCERT, "replay", finding[1]) if finding else None
        expect("its finding is explained step by step", replay is not None and replay.returncode == 1 and "step  1  create" in replay.stdout and "broken " in replay.stdout and
               ("sees rows" in replay.stdout or "expected" in replay.stdout),
               replay.stdout + replay.stderr if replay else output)


def findings_stay(folder: pathlib.Path, cases: str, answers: str) -> None:
    """An id is the cases' to choose, and where a finding goes is not."""
    case = json.loads(cases.splitlines()[0])
    answer = next(object for object in map(json.loads, answers.splitlines()) if object.get("id") == case["id"])
    case["id"] = answer["id"] = "../escaped"
    answer["steps"] = answer["steps"][:-1]
    (folder / "inside").mkdir()
    (folder / "one.jsonl").write_text(json.dumps(case) + "\n")
    result = run(KVCERT, "judge", folder / "one.jsonl", "--findings", folder / "inside", stdin=json.dumps(answer) + "\n")
    expect("a finding stays in its folder", result.returncode == 1 and len(list((folder / "inside").iterdir())) == 1
           and not (folder / "escaped.json").exists(), result.stdout + result.stderr)


def plugins(folder: pathlib.Path) -> None:
    library = folder / "plugin.so"
    made = run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", f"-I{ROOT}/include", ROOT / "examples/plugin.c", "-o", library, "-lm")
    expect("examples/plugin.c compiles as C11", made.returncode == 0, made.stderr)
    page = folder / "page.html"
    result = run(KVCERT, "certify", "--engine", library, "--suite", "quick", "--seconds", "60", "--findings", folder / "findings", "--json", folder / "plugin.json",
                 "--html", page)
    expect("examples/plugin.c holds", result.returncode == 0 and "HOLDS" in result.stdout, result.stdout + result.stderr)
    text = page.read_text() if page.exists() else ""
    expect("the page needs nothing else", "<svg" in text and "HOLDS" in text and not re.search(r"(src|href)=|<script|@import|url\(", text))
    certificate = json.loads((folder / "plugin.json").read_text())
    error = next(schema("certificate.json").iter_errors(certificate), None)
    expect("certificate.json holds for the certificate", error is None, str(error)[:600])
    verified = run(KVCERT, "verify", folder / "plugin.json")
    expect("the certificate is verified", verified.returncode == 0 and "VERIFIED" in verified.stdout, verified.stdout + verified.stderr)
    certificate["digest"] = "0" * 16
    (folder / "plugin.json").write_text(json.dumps(certificate))
    verified = run(KVCERT, "verify", folder / "plugin.json")
    expect("a changed certificate is not", verified.returncode == 1 and "NOT VERIFIED" in verified.stdout, verified.stdout + verified.stderr)
    program = run(KVCERT, "certify", "--program", f"{sys.executable} {ROOT}/examples/numpy_engine.py", "--suite", "head map", "--seconds", "60", "--findings", "")
    expect("a program is asked line by line", program.returncode == 0, program.stdout + program.stderr)


def bad_calls(folder: pathlib.Path) -> None:
    garbage = folder / "garbage"
    garbage.write_text("{]")
    empty = folder / "empty"
    empty.write_text("")
    other = folder / "other.json"
    other.write_text('{"certificate": "somebody else\'s"}')
    deep = folder / "deep"  # written back in a message, bracket within bracket, it would end a program whose stack is finite
    deep.write_text('{"index":' + "[" * 200000 + "]" * 200000 + "}")
    (folder / "vectors").mkdir()
    cases = folder / "bad.jsonl"
    for line in ('{"id": "a"}', '{"id": "a", "check": "c", "steps": [{"op": "append", "n": 1}]}', '[]', '{"id": "a", "check": "c", "steps": 3}',
                 '{"id": "a", "check": "c", "steps": [{"op": "create", "kv_heads": 1048577, "head_dim": 1, "query_heads": 1, "scale": "00000000"}]}'):
        cases.write_text(line + "\n")
        result = run(KVCERT, "judge", cases, stdin="")
        expect(f"the case {line} is refused with a sentence", result.returncode == 2 and len(result.stderr) > 20, result.stderr)
    for command in (("gen", "--suite", "nonsense"), ("gen", "--geometry", "8by128"), ("gen", "--geometry", "0x4"), ("gen", "--geometry", "4x-1"),
                    ("judge", folder / "absent"), ("judge", garbage), ("judge", empty), ("replay", garbage), ("replay", folder / "absent"),
                    ("replay", deep), ("verify", deep), ("judge", deep),
                    ("verify", garbage), ("verify", other), ("verify", folder / "absent"), ("vectors", "check", folder / "vectors"),
                    ("vectors", "check", folder / "absent"), ("certify", "--engine", folder / "absent.so"), ("certify", "--engine", garbage),
                    ("certify", "--engine", BUILD / "tests/broken/kvcert_broken.so", "--option", "fault=none_such")):
        result = run(KVCERT, *command, stdin="")
        expect(f"{' '.join(map(str, command))} is refused with a sentence", result.returncode == 2 and len(result.stderr) > 20, f"{result.returncode} {result.stdout[-300:]} {result.stderr}")
    for command in ("certify", "gen", "judge", "replay", "verify", "vectors", "wire"):
        result = run(KVCERT, command, "--help")
        expect(f"{command} --help shows an example", result.returncode == 0 and "Example" in result.stdout, result.stdout)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        generated = run(KVCERT, "gen", "--suite", "quick")
        expect("gen succeeds", generated.returncode == 0, generated.stderr)
        cases = folder / "cases.jsonl"
        cases.write_text(generated.stdout)
        answered = run(sys.executable, ROOT / "examples/numpy_engine.py", stdin=generated.stdout)
        expect("the NumPy engine answers", answered.returncode == 0, answered.stderr)
        status, _, output = certificate_of(folder, cases, answered.stdout)
        expect("the NumPy engine holds", status == 0, output)
        schemas_hold(generated.stdout, answered.stdout)
        few, answers_of_few = every_fifth(cases, answered.stdout)
        order_and_damage(folder, few, answers_of_few)
        broken_copy(folder, cases)
        findings_stay(folder, generated.stdout, answered.stdout)
        plugins(folder)
        bad_calls(folder)
        for path in ("include/kvcert/engine.h",):
            for compiler in (("cc", "-std=c11", "-xc"), ("c++", "-std=c++17", "-xc++")):
                result = run(*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", ROOT / path)
                expect(f"{path} is {compiler[1]}", result.returncode == 0, result.stderr)
        vectors = run(KVCERT, "vectors", "check", ROOT / "corpus/vectors")
        expect("the vectors hold", vectors.returncode == 0, vectors.stdout + vectors.stderr)
        size = sum(path.stat().st_size for path in (ROOT / "corpus/vectors").glob("*.json"))
        expect("the vectors are there, and no more than 5 MB", 0 < size <= 5_000_000, str(size))
    print("all expectations met" if not FAULTS else f"{len(FAULTS)} expectations not met")
    return bool(FAULTS)


if __name__ == "__main__":
    sys.exit(main())
