#!/usr/bin/env python3
"""Fails when a file includes what its room must not: check_rooms.py SOURCE_ROOT [STAMP].

Every #include of every C++ file is held against its room's row. Only the text is read, so the rule holds for code
behind #if as well. Includes are written from the repository's root ("reference/attend.hpp") or, for the seam,
"kvcert/…"; a path with ".." is refused everywhere, since it could reach any room, and so is a file whose name does not
say that it is C++, since it would not be read here.
"""
import pathlib
import re
import sys

# A standard header has no slash and no dot; these are the exceptions that are not another library.
SYSTEM = {"immintrin.h", "cpuid.h", "malloc.h", "arm_neon.h", "xmmintrin.h", "unistd.h", "sys/wait.h", "sys/mman.h",
          "sys/auxv.h", "sys/ioctl.h", "sys/utsname.h", "sys/resource.h"}

# room: (quoted prefixes it may include, angle-bracket libraries it may include)
ROOMS = {
    "include": (("kvcert/",), ()),
    "reference": (("kvcert/", "reference/"), ("boost/multiprecision/", "mpfr.h", "mpfi.h")),
    "optimized": (("kvcert/", "optimized/"), ()),
    "certify": (("kvcert/", "reference/", "optimized/", "certify/"),
                ("boost/", "mpfr.h", "mpfi.h", "nlohmann/", "CLI/", "fmt/")),
    "fuzz": (("kvcert/", "reference/", "optimized/", "certify/", "fuzz/"),
             ("boost/", "mpfr.h", "mpfi.h", "nlohmann/", "fmt/")),
    "proofs": (("kvcert/", "reference/", "optimized/", "proofs/"), ("boost/", "mpfr.h", "mpfi.h", "fmt/")),
    "tests": (("kvcert/", "reference/", "optimized/", "certify/", "fuzz/", "proofs/", "tests/"),
              ("boost/", "mpfr.h", "mpfi.h", "nlohmann/", "fmt/", "CLI/", "rapidcheck.h", "rapidcheck/", "benchmark/",
               "Eigen/")),
}
CODE = {".cpp", ".hpp", ".h", ".c", ".cc", ".cxx", ".hh", ".hxx", ".inc", ".inl", ".ipp", ".tpp", ".S"}
# A compiler takes comments for blanks, and the line may begin inside one.
BLANK = r'(?:[ \t]|/\*[\s\S]*?\*/)*'
INCLUDE = re.compile(rf'^(?:.*\*/)?{BLANK}(?:#|%:){BLANK}(?:include|import){BLANK}(?:([<"])([^>"\n]+)[>"]|(.*))', re.M)


def violations(root: pathlib.Path):
    for room, (quoted, libraries) in ROOMS.items():
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in CODE:
                continue
            text = path.read_text(encoding="utf-8").replace("\\\n", "")  # continued lines are one line
            for bracket, target, computed in INCLUDE.findall(text):
                if computed:
                    ok, target = False, computed  # a macro could name anything
                elif ".." in pathlib.PurePosixPath(target).parts:
                    ok = False
                elif bracket == '"':
                    ok = target.startswith(quoted) and pathlib.PurePosixPath(target).suffix in CODE
                else:
                    ok = (target in SYSTEM or target.startswith(libraries or ("\0",))
                          or not ("/" in target or "." in target))
                if not ok:
                    yield f"{path.relative_to(root)}: {room}/ must not include {target}"


def main() -> int:
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    if not found and len(sys.argv) > 2:
        pathlib.Path(sys.argv[2]).write_text("ok\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
