#!/usr/bin/env python3
"""prove accepts an honest proof folder, and refuses each of the planted dishonest ones for its own reason.

Without Coq the inventory's own checks run, and the exit status is 77: not run.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import proof_coq  # noqa: E402
import proof_inventory  # noqa: E402

HAVE_COQ = shutil.which("coqc") is not None
NOT_RUN = 77

HONEST = """From Coq Require Import Arith.
Section Sums.
Variable a : nat.
Theorem law1_zero : a + 0 = a.
Proof. apply Nat.add_0_r. Qed.
End Sums.
"""


def entry(**changes) -> dict:
    return {"law": "1", "statement": "adding zero changes nothing", "tool": "coq", "file": "Sums.v",
            "theorem": "Fake.Sums.law1_zero", "about": "model", "axioms": [], **changes}


class Repository:
    """A root with one proof folder and a page of laws, in a temporary directory."""

    def __init__(self, source=HONEST, entries=None, files=(), laws="", project="-R . Fake\nSums.v\n", folder="fake",
                 **inventory):
        self.temporary = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.temporary.name)
        self.folder = self.root / "proofs" / folder
        self.folder.mkdir(parents=True)
        (self.root / "docs").mkdir()
        (self.root / "docs/laws.md").write_text(laws)
        (self.folder / "Sums.v").write_text(source)
        (self.folder / "_CoqProject").write_text(project)
        for name, content in dict(files).items():
            (self.folder / name).write_text(content)
        data = {"title": "Sums", "entries": [entry()] if entries is None else entries, **inventory}
        (self.folder / "inventory.json").write_text(json.dumps(data))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.temporary.cleanup()

    def prove(self) -> tuple[int, str]:
        run = subprocess.run([sys.executable, "-B", ROOT / "tools/prove.py", "--root", self.root, self.root / "build"],
                             capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr


class Inventory(unittest.TestCase):
    """What needs no prover."""

    def faults(self, **arguments) -> str:
        with Repository(**arguments) as there:
            folders = proof_inventory.read_all(there.root / "proofs", there.root, [])
            return "\n".join(fault for folder in folders for fault in folder.faults)

    def test_an_honest_folder_has_no_fault(self):
        self.assertEqual(self.faults(), "")

    def test_unlisted_file(self):
        self.assertIn("More.v is not in the inventory", self.faults(files={"More.v": ""}))
        self.assertIn("More.v is not in _CoqProject", self.faults(files={"More.v": ""}, support={"More.v": "x"}))
        self.assertIn("tie.py is not in the inventory", self.faults(files={"tie.py": ""}))

    def test_listed_file_that_is_not_there(self):
        self.assertIn("'Gone.v', which is not there", self.faults(support={"Gone.v": "x"}))

    def test_listed_twice(self):
        self.assertIn("listed twice", self.faults(entries=[entry(), entry()]))

    def test_sources_that_assume(self):
        for text in ("Axiom a : False.", "Local Parameter a : False.", "Conjecture c : False.", "Variable a : False.",
                     "#[local] Hypothesis a : False.", "Context (a : False).", "Lemma l : False. Admitted.",
                     "Lemma l : False. Proof. admit. Admitted.", "Unset Guard Checking.", "Module M. Variable a : nat. End M.",
                     "Section S. End S. Hypothesis a : False.", "Declare Instance i : Inhabited."):
            self.assertNotEqual(proof_inventory.faults_of_source(HONEST + text), [], text)

    def test_sources_that_only_speak_of_it(self):
        for text in ("(* Axiom a : False. (* nested *) Admitted. *)", 'Notation "Axiom x" := x.',
                     "Record Parameters := { p : nat }.", "Section S. Context {A : Type}. End S.",
                     "Module M. Section S. Variable a : nat. End S. End M.", "Module N := M. Section S. Variable a : nat. End S."):
            self.assertEqual(proof_inventory.faults_of_source(HONEST + text), [], text)

    def test_entries(self):
        self.assertIn("law's number", self.faults(entries=[entry(law="2")]))
        self.assertIn("may not use reals", self.faults(entries=[entry(axioms=["reals"])]))
        self.assertEqual("", self.faults(entries=[entry(axioms=["reals"])], folder="accuracy"))
        self.assertIn("neither model nor shipped", self.faults(entries=[entry(about="everything")]))
        self.assertIn("tool 'trust'", self.faults(entries=[entry(tool="trust")]))
        self.assertIn("wants", self.faults(entries=[{"tool": "coq", "law": "1"}]))
        self.assertIn("empty", self.faults(entries=[], support={"Sums.v": "x"}))

    def test_folder_without_inventory(self):
        with Repository() as there:
            (there.folder / "inventory.json").unlink()
            folders = proof_inventory.read_all(there.root / "proofs", there.root, [])
            self.assertIn("no inventory.json", folders[0].faults[0])

    def test_laws_that_are_marked(self):
        with Repository(laws="| 1 grouping ⊢ | x |\n| 2 chunk ⊢ | x |\n| 3 window | ⊢ |\n") as there:
            folders = proof_inventory.read_all(there.root / "proofs", there.root, [])
            self.assertEqual(proof_inventory.laws_without_theorem(there.root / "docs/laws.md", folders), ["2"])

    def test_answers_of_print_assumptions(self):
        self.assertEqual(proof_coq.axioms_in("Closed under the global context\n"), set())
        self.assertIsNone(proof_coq.axioms_in("Error: a not a defined object."))
        self.assertEqual(proof_coq.axioms_in("Axioms:\na : 1 = 2\nb.c\n  : forall x : nat,\n    x = 1\n"), {"a", "b.c"})
        self.assertEqual(len(proof_coq.axioms_in("Axioms:\nf is assumed to be guarded.\n")), 1)
        self.assertIn("does not need", proof_coq.verdict({"axioms": ["reals"]}, set()))
        self.assertEqual(proof_coq.verdict({"axioms": ["reals"]}, {"Classical_Prop.classic"}), "")
        self.assertIn("rests on Eqdep", proof_coq.verdict({"axioms": ["reals"]}, {"Classical_Prop.classic", "Eqdep.eq"}))


@unittest.skipUnless(HAVE_COQ, "coqc is not installed")
class Proving(unittest.TestCase):
    def refused(self, reason: str, **arguments):
        with Repository(**arguments) as there:
            status, output = there.prove()
        self.assertEqual(status, 1, output)
        self.assertIn(reason, output)
        self.assertNotIn(" 0 failed", output)

    def test_an_honest_folder_passes(self):
        with Repository() as there:
            for _ in range(2):  # the second time finds everything built
                status, output = there.prove()
                self.assertEqual(status, 0, output)
                self.assertEqual(output.splitlines()[-1], "1 proved, 0 failed")
            self.assertEqual(list(there.folder.glob("*.vo*")), [])
            # a change that keeps the file's time is seen
            (there.folder / "Sums.v").write_text(HONEST.replace("a + 0 = a", "a + 0 = 0"))
            self.assertEqual(there.prove()[0], 1)

    def test_missing_theorem(self):
        self.refused("Coq knows no such theorem", entries=[entry(theorem="Fake.Sums.law1_nothing")])

    def test_wrong_proof(self):
        self.refused("the Coq build failed", source=HONEST.replace("a + 0 = a.", "a + 0 = S a."))

    def test_admitted(self):
        self.refused("rests on Sums.law1_zero",
                     source=HONEST.replace("Proof. apply Nat.add_0_r. Qed.", "Proof. Admitted."))

    def test_axiom(self):
        source = HONEST.replace("Section Sums.", "Axiom zero : forall a, a + 0 = a.\nSection Sums.")
        self.refused("rests on Sums.zero", source=source.replace("Nat.add_0_r", "zero"))

    def test_functional_extensionality(self):
        self.refused("rests on FunctionalExtensionality", source="""Require Import Coq.Logic.FunctionalExtensionality.
Theorem law1_zero : (fun a => a + 0) = (fun a : nat => a).
Proof. apply functional_extensionality. auto. Qed.
""")

    def test_allowance_that_is_not_needed(self):
        self.refused("does not need", entries=[entry(axioms=["Fake.Sums.zero"])])

    def test_unlisted_file(self):
        self.refused("More.v is not in _CoqProject", files={"More.v": "Definition a := 1."})

    def test_listed_twice(self):
        self.refused("listed twice", entries=[entry(), entry()])

    def test_law_without_theorem(self):
        self.refused("marks law 2", laws="| 1 grouping ⊢ | x |\n| 2 chunk ⊢ | x |\n")

    def test_commands(self):
        def command(prints: str) -> list:
            return [entry(), {"law": "tie", "statement": "x", "tool": "command", "file": "tie.py", "about": "shipped code",
                              "command": [sys.executable, "{folder}/tie.py"], "prints": prints}]
        tie = {"tie.py": "print('3 agree')\n"}
        with Repository(files=tie, entries=command("3 agree")) as there:
            self.assertEqual(there.prove()[1].splitlines()[-1], "2 proved, 0 failed")
        self.refused("wants the line \"4 agree\"", files=tie, entries=command("4 agree"))
        self.refused("status 1", files={"tie.py": "print('3 agree')\nraise SystemExit(1)\n"}, entries=command("3 agree"))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=1).result
    if not result.wasSuccessful():
        sys.exit(1)
    if not HAVE_COQ:
        print("coqc is not installed; only the inventory's own checks ran")
        sys.exit(NOT_RUN)
