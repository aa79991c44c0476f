"""Reads the inventories of proofs/ and finds everything about them that can be wrong without running a prover."""
import dataclasses
import json
import pathlib
import re

# Axioms that a proof about real numbers or one by Coq-Interval rests on. Only these places may ask for them.
REALS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
PRIMITIVE_INTEGERS = re.compile(r"(PrimInt63|Uint63|Sint63|PrimFloat|FloatOps|FloatAxioms)\.\S+")
MAY_USE = {
    "reals": {"accuracy", "functions", "structure/Binary32Facts.v"},
    "primitive-integers": {"accuracy", "functions"},
}

REQUIRED = {
    "coq": {"law", "statement", "tool", "file", "theorem", "about", "axioms"},
    "gappa": {"law", "statement", "tool", "file", "about"},
    "frama-c": {"law", "statement", "tool", "file", "about", "arguments", "goals"},
    "command": {"law", "statement", "tool", "file", "about", "command", "prints"},
}
NOT_PROOFS = {"README.md", "inventory.json", "_CoqProject", ".lia.cache", ".nia.cache"}  # the last two: coqc's own
FORBIDDEN = re.compile(r"\b(Admitted|admit|give_up|bypass_check|Unset\s+(?:Guard|Positivity|Universe)\s+Checking"
                       r"|Admit\s+Obligations)\b")
ASSUMING = {"Axiom", "Axioms", "Parameter", "Parameters", "Conjecture", "Conjectures", "Declare"}
IN_SECTION_ONLY = {"Hypothesis", "Hypotheses", "Variable", "Variables", "Context"}
SENTENCE_END = re.compile(r"\.(?=\s|$)")
BEFORE_COMMAND = re.compile(r"\s*(#\[[^]]*\]|(Local|Global|Polymorphic|Monomorphic|Time|Program)\b|[-+*{}]+)\s*")


@dataclasses.dataclass
class Folder:
    path: pathlib.Path
    title: str = ""
    entries: list = dataclasses.field(default_factory=list)
    support: dict = dataclasses.field(default_factory=dict)
    targets: list = dataclasses.field(default_factory=list)
    faults: list = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.name

    def coq_files(self) -> list:
        return sorted(str(file.relative_to(self.path)) for file in self.path.rglob("*.v"))


def without_comments(source: str) -> str:
    """Coq's text with comments, which nest, and strings made blank."""
    kept, depth, place = [], 0, 0
    for mark in re.finditer(r'\(\*|\*\)|"(?:[^"]|"")*"', source):
        if depth == 0:
            kept.append(source[place:mark.start()])
        place = mark.end()
        if mark[0] == "(*":
            depth += 1
        elif mark[0] == "*)" and depth > 0:
            depth -= 1
        kept.append(" ")
    return "".join(kept) + (source[place:] if depth == 0 else "")


def faults_of_source(source: str) -> list:
    """What a Coq file may not contain: unproven statements, switched-off checks, assumptions outside a Section."""
    faults, opened = [], []
    for sentence in SENTENCE_END.split(without_comments(source)):
        faults += [f"contains \"{' '.join(found[0].split())}\"" for found in FORBIDDEN.finditer(sentence)]
        while prefix := BEFORE_COMMAND.match(sentence):
            sentence = sentence[prefix.end():]
        words = sentence.split()
        command = words[0] if words else ""
        if command == "Section" or (command == "Module" and ":=" not in sentence):
            opened.append(command)
        elif command == "End" and opened:
            opened.pop()
        elif command in ASSUMING or (command in IN_SECTION_ONLY and "Section" not in opened):
            faults.append(f"assumes something: {' '.join(words)[:60]}")
    return faults


def entry_faults(folder: Folder, entry: dict) -> list:
    required = REQUIRED.get(entry.get("tool"))
    if required is None:
        return [f"tool {entry.get('tool')!r} is none of {', '.join(REQUIRED)}"]
    if entry.keys() != required:
        return [f"has the fields {sorted(entry)}, wants {sorted(required)}"]
    faults = []
    if not re.match(r"model\b|shipped code\b", entry["about"]):
        faults.append("\"about\" says neither model nor shipped code")
    if not entry["statement"].strip():
        faults.append("no statement")
    if entry["tool"] != "coq":
        return faults
    law, short = str(entry["law"]), entry["theorem"].split(".")[-1]
    if re.fullmatch(r"\d+[a-z]?", law) and not re.search(rf"law{law}(_|$)", short):
        faults.append(f"the name {short} does not carry the law's number: law{law}")
    for group in set(entry["axioms"]) & MAY_USE.keys():
        if not {folder.name, f"{folder.name}/{entry['file']}"} & MAY_USE[group]:
            faults.append(f"may not use {group}")
    return faults


def file_of(folder: Folder, entry: dict, root: pathlib.Path) -> pathlib.Path:
    return folder.path / entry["file"].replace("{root}", str(root))


def check_files(folder: Folder, root: pathlib.Path) -> None:
    """Every file is the file of an entry or listed as support, and every listed file is there and is built."""
    files = {str(file.relative_to(folder.path)) for file in folder.path.rglob("*") if file.is_file()}
    files -= {file for file in files if "__pycache__" in file}
    listed = {entry.get("file", "") for entry in folder.entries} | folder.support.keys()
    for file in sorted(files - listed):
        if pathlib.PurePath(file).name not in NOT_PROOFS:
            folder.faults.append(f"{file} is not in the inventory")
    for file in sorted(listed):
        if not (folder.path / file.replace("{root}", str(root))).is_file():
            folder.faults.append(f"the inventory lists {file!r}, which is not there")
    project = folder.path / "_CoqProject"
    words = project.read_text().split() if project.is_file() else []
    for file in folder.coq_files():
        if file not in words:
            folder.faults.append(f"{file} is not in _CoqProject, so nothing builds it")
        folder.faults += [f"{file} {fault}" for fault in faults_of_source((folder.path / file).read_text())]
    if any(word in {"-arg", "-impredicative-set", "-type-in-type", "-noinit"} for word in words):
        folder.faults.append("_CoqProject passes arguments to Coq")


def read_folder(path: pathlib.Path, root: pathlib.Path) -> Folder:
    folder = Folder(path)
    try:
        data = json.loads((path / "inventory.json").read_text())
        folder.title, folder.entries = data["title"], data["entries"]
        folder.support, folder.targets = data.get("support", {}), data.get("targets", [])
        if unknown := data.keys() - {"title", "entries", "support", "targets"}:
            folder.faults.append(f"inventory.json has unknown fields: {', '.join(sorted(unknown))}")
    except (OSError, ValueError, KeyError, TypeError) as fault:
        folder.faults.append(f"inventory.json cannot be read: {type(fault).__name__}: {fault}")
        return folder
    if not folder.entries:
        folder.faults.append("the inventory is empty")
    for entry in folder.entries:
        name = entry.get("theorem") or entry.get("file")
        folder.faults += [f"{name}: {fault}" for fault in entry_faults(folder, entry)]
    check_files(folder, root)
    return folder


def read_all(proofs: pathlib.Path, root: pathlib.Path, only: list) -> list:
    """Every folder with an inventory; one that holds proofs and has none is a folder with a fault."""
    folders = []
    for path in sorted(path for path in proofs.iterdir() if path.is_dir()):
        if (path / "inventory.json").is_file():
            folders.append(read_folder(path, root))
        elif any(path.rglob("*.v")) or any(path.rglob("*.g")):
            folders.append(Folder(path, faults=["holds proofs and has no inventory.json"]))
    owner = {}
    for folder in folders:
        for entry in folder.entries:
            theorem = entry.get("theorem")
            if theorem in owner:
                folder.faults.append(f"{theorem} is listed twice, first in {owner[theorem]}")
            elif theorem:
                owner[theorem] = folder.name
    for name in only:
        if name not in {folder.name for folder in folders}:
            folders.append(Folder(proofs / name, faults=["there is no such folder with an inventory"]))
    return [folder for folder in folders if not only or folder.name in only]


def laws_marked(page: pathlib.Path) -> set:
    """The numbers of the laws that docs/laws.md marks as proven, with ⊢ in a row's first column."""
    if not page.is_file():
        return set()
    return {match[1] for match in re.finditer(r"^\| *(\d+)\b[^|\n]*⊢[^|\n]*\|", page.read_text(), re.MULTILINE)}


def laws_without_theorem(page: pathlib.Path, folders: list) -> list:
    listed = {re.sub(r"[a-z]$", "", str(entry.get("law"))) for folder in folders for entry in folder.entries
              if entry.get("tool") == "coq"}
    return sorted(laws_marked(page) - listed, key=int)
