"""Some sources of a build compiled anew, with other words or from other text, and a program linked anew with them.

The rest of the build is used as it is: to change one file, or to watch three, nobody needs to compile sixty.
"""
import json
import pathlib
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLANG = {".c": "clang-19", ".cpp": "clang++-19"}


def entries(build: pathlib.Path) -> list[tuple[str, str, list[str]]]:
    """(source from the root, object, command) of everything the build compiles."""
    found = []
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = (build / entry["file"]).resolve()
        if source.is_relative_to(ROOT):
            found.append((source.relative_to(ROOT).as_posix(), entry["output"], shlex.split(entry["command"])))
    return found


def recompiled(build: pathlib.Path, command: list[str], source: pathlib.Path, made: pathlib.Path, *, flags=(), clang=False) -> pathlib.Path:
    """The object of `source`, by a command that the build has for some file."""
    words = list(command)
    for flag in ("-MQ", "-MF"):
        at = words.index(flag)
        del words[at:at + 2]
    words.remove("-MD")
    words[words.index("-o") + 1] = str(made)
    words[words.index("-c") + 1] = str(source)
    first = next(at for at, word in enumerate(words) if word.startswith("-"))
    compiler = [CLANG[source.suffix]] if clang else words[:first]
    made.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*compiler, *flags, *words[first:]], cwd=build, check=True)
    return made


def relinked(build: pathlib.Path, name: str, objects: dict[str, pathlib.Path | None], made: pathlib.Path, *, flags=(), clang=False,
             more=()) -> pathlib.Path:
    """The program `name` with other objects in the place of some; None leaves one out. One that lies in an archive is linked before
    it: its member is then not taken, since its symbols are there already."""
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", name], check=True, capture_output=True, text=True).stdout
    words = shlex.split(next(line for line in reversed(lines.splitlines()) if f"-o {name} " in line))
    at = words.index("-o")
    words[at + 1] = str(made)
    for old, new in objects.items():
        if old in words:
            words[words.index(old):words.index(old) + 1] = [str(new)] if new else []
        elif new:
            words.insert(at + 2, str(new))
    words[at + 2:at + 2] = [str(path) for path in more]
    first = next(place for place, word in enumerate(words) if word.startswith("-"))
    subprocess.run([*(["clang++-19"] if clang else words[:first]), *flags, *words[first:]], cwd=build, check=True)
    return made
