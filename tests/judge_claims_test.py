#!/usr/bin/env python3
"""What does not pass, from the outside: judge_claims_test.py BUILD. Exit status 0 if every expectation was met.

A run in which no case met the bound's hypotheses; an accurate engine that claims canonical bits and has others.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
KVCERT = pathlib.Path(sys.argv[1]).resolve() / "certify/kvcert"
INFINITY, ONE, NAN = "0000807f", "0000803f", "0000c07f"
FAULTS: list[str] = []


def expect(what: str, condition: bool, detail: str = "") -> None:
    if not condition:
        FAULTS.append(what)
        print(f"NOT MET: {what}\n{detail.strip()[-1500:]}")


def judge(folder: pathlib.Path, cases: str, answers: str) -> tuple[int, dict, str]:
    (folder / "cases").write_text(cases)
    certificate = folder / "certificate.json"
    run = subprocess.run([KVCERT, "judge", folder / "cases", "--findings", "", "--json", certificate], input=answers, capture_output=True, text=True, check=False)
    return run.returncode, json.loads(certificate.read_text()), run.stdout + run.stderr


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        def case(value):
            return json.dumps({"id": "one", "check": "outside", "about": "", "steps": [
                {"op": "create", "kv_heads": 1, "head_dim": 1, "query_heads": 1, "scale": ONE}, {"op": "append", "n": 1, "k": value, "v": value},
                {"op": "attend", "from": 0, "n": 1, "q": ONE}]}) + "\n"
        def answer(value):
            return json.dumps({"id": "one", "steps": ["ok", "ok", {"out": value}]}) + "\n"
        status, certificate, output = judge(folder, case(INFINITY), answer(NAN))
        expect("a run in which no case met the hypotheses does not hold", status == 1 and certificate["verdict"] == "does not hold" and certificate["outputs"]["not_judged"] == 1 and
               "DOES NOT HOLD: no output" in output, output)
        status, certificate, output = judge(folder, case(ONE), answer(ONE))
        expect("the same case with numbers that meet them does", status == 0 and certificate["outputs"]["within_the_bound"] == 1, output)

        cases = subprocess.run([KVCERT, "gen", "--suite", "accuracy", "--count", "20"], capture_output=True, text=True, check=True).stdout
        answers = subprocess.run([sys.executable, ROOT / "examples/numpy_engine.py"], input=cases, capture_output=True, text=True, check=True).stdout
        status, _, output = judge(folder, cases, answers)
        expect("NumPy's numbers lie within the bound", status == 0, output)
        hello, rest = answers.split("\n", 1)
        claiming = json.dumps({"engine": {**json.loads(hello)["engine"], "claims": ["canonical"]}})
        status, certificate, output = judge(folder, cases, claiming + "\n" + rest)
        expect("the same numbers are wrong for an engine that claims canonical bits", status == 1 and "canonical bits are claimed" in output and "law 13" in output, output)
    print("all expectations met" if not FAULTS else f"{len(FAULTS)} expectations not met")
    return bool(FAULTS)


if __name__ == "__main__":
    sys.exit(main())
