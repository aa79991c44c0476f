#!/usr/bin/env python3
"""Builds the optimized room in several ways and holds each to the same bits: check_builds.py SOURCE_ROOT DIRECTORY

Each build is of kvcert_digests alone, in DIRECTORY, and must reproduce corpus/digests.json with every ISA of this machine.
The compiler's own choice of instructions must not matter: -march=native lets it use fma wherever it contracts, which
-ffp-contract=off forbids. Ends with: N passed, N failed.
"""
import os
import pathlib
import shutil
import subprocess
import sys

# name: (compiler, flags); the ISAs' own units have their own flags besides, as always.
BUILDS = {
    "g++ -O0": ("g++", "-O0"),
    "g++ -O3": ("g++", "-O3"),
    "g++ -O3 -march=native": ("g++", "-O3 -march=native"),
    "clang++-19 -O3": ("clang++-19", "-O3"),
    "clang++-19 -O3 -march=native": ("clang++-19", "-O3 -march=native"),
}


def words_of(command: list, **more) -> tuple[bool, str]:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **more)
    return done.returncode == 0, done.stdout


def reproduces(root: pathlib.Path, folder: pathlib.Path, compiler: str, flags: str) -> tuple[bool, str]:
    if not shutil.which(compiler):
        return False, f"there is no {compiler}"
    if not (folder / "build.ninja").is_file():
        environment = {**os.environ, "CXX": compiler, "CXXFLAGS": flags}
        good, words = words_of(["meson", "setup", "--buildtype=plain", folder, root], env=environment)
        if not good:
            return False, words
    jobs = ["-j", os.environ["KVCERT_JOBS"]] if os.environ.get("KVCERT_JOBS") else []
    good, words = words_of(["ninja", "-C", folder, *jobs, "tests/kvcert_digests"])
    if not good:
        return False, words
    environment = {name: value for name, value in os.environ.items() if name not in {"KVCERT_ISA", "KVCERT_CPU"}}
    return words_of([folder / "tests/kvcert_digests", root / "corpus/digests.json"], env=environment)


def main() -> int:
    root, directory = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    failed = 0
    for name, (compiler, flags) in BUILDS.items():
        good, words = reproduces(root, directory / name.replace(" ", "_").replace("+", "x"), compiler, flags)
        failed += not good
        print(f"{name}: {'the same bits' if good else 'FAILED'}", flush=True)
        print("".join(f"  {line}\n" for line in words.splitlines() if not good or "digests" in line), end="", flush=True)
    print(f"{len(BUILDS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
