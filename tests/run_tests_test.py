#!/usr/bin/env python3
"""The test runner reads Boost's log rightly: every finished case is seen, whatever unit its time is printed in."""
import contextlib
import io
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import run_tests  # noqa: E402

LOG = """a.cpp(1): Entering test module "m"
a.cpp(2): Entering test suite "s"
a.cpp(3): Entering test case "one"
a.cpp(3): Leaving test case "one"; testing time: 155ms
a.cpp(4): Entering test case "two<A>"
a.cpp(4): Leaving test case "two<A>"; testing time: 17us
a.cpp(5): Entering test case "three"
a.cpp(5): Leaving test case "three"
a.cpp(2): Leaving test suite "s"; testing time: 1us
"""


def main() -> int:
    progress = run_tests.Progress(filtered=False)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for line in LOG.splitlines():
            progress.line(line)
    seen = progress.finished == ["s/one", "s/two<A>", "s/three"] and "Leaving" not in printed.getvalue()
    if not seen or "0.2 s" not in printed.getvalue():
        print(progress.finished, printed.getvalue())
    return 0 if seen and "0.2 s" in printed.getvalue() else 1


if __name__ == "__main__":
    sys.exit(main())
