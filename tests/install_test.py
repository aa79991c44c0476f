#!/usr/bin/env python3
"""Installs the build into a folder of its own, and builds a project against it: install_test.py BUILD."""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=900, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout


with tempfile.TemporaryDirectory() as name:
    tree = pathlib.Path(name)
    run("meson", "install", "-C", sys.argv[1], "--no-rebuild", "--destdir", tree)
    config = next(tree.rglob("kvcert.pc"))
    # In a tree of its own the prefix is not yet true.
    environment = {**os.environ, "PKG_CONFIG_PATH": str(config.parent), "PKG_CONFIG_SYSROOT_DIR": str(tree)}
    flags = run("pkg-config", "--cflags", "--libs", "--static", "kvcert", env=environment).split()
    run("c++", ROOT / "tests/consumer/main.cpp", "-o", tree / "consumer", *flags)
    run(tree / "consumer")
    program = next(path for path in tree.rglob("kvcert") if path.is_file() and os.access(path, os.X_OK))
    run(program, "--version")
    run(program, "vectors", "check", ROOT / "corpus/vectors")
    print("installed, found, built, run")
