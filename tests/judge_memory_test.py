#!/usr/bin/env python3
"""What `kvcert judge` keeps of each case: judge_memory_test.py BUILD [CASES…]. Exit status 0 if no more than 32 bytes.

Writes that many tiny cases, a file and a stream of answers, and compares the judge's largest resident size; the first number is what the others
are held against. Then the same number of cases with tensors a thousand times as large: what is kept must not grow with them.
"""
import fcntl
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time

KVCERT = pathlib.Path(sys.argv[1]).resolve() / "certify/kvcert"
CREATE = '{"op":"create","kv_heads":1,"head_dim":1,"query_heads":1,"scale":"0000803f"}'


def unread(pipe) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


def peak(folder: pathlib.Path, cases: int, floats: int) -> int:
    """Bytes, over a run on so many cases that append rows of so many floats."""
    path = folder / "cases.jsonl"
    rows = "00000000" * floats
    append = f'{{"op":"append","n":{floats},"k":"{rows}","v":"{rows}"}}'
    with open(path, "w", encoding="ascii") as file:
        for i in range(cases):
            file.write(f'{{"id":"tiny-{i:07}","check":"tiny","about":"","steps":[{CREATE},{append},{{"op":"length"}}]}}\n')
    judge = subprocess.Popen([KVCERT, "judge", path, "--findings", ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for i in range(cases):
        judge.stdin.write(f'{{"id":"tiny-{i:07}","steps":["ok","ok",{{"count":{floats}}}]}}\n')
    judge.stdin.flush()
    while unread(judge.stdin) > 0:
        time.sleep(0.01)
    # Now every case has its place and every answer but the last few is judged. (What wait4 says would be this program's size: a child is born
    # as large as its parent.)
    status = pathlib.Path(f"/proc/{judge.pid}/status").read_text()
    judge.stdin.close()
    output = judge.stdout.read()
    judge.wait()
    if f"cases     {cases}," not in output or "holds" not in output:
        sys.exit(f"the judge did not take the cases:\n{output}")
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) * 1024


def main() -> int:
    counts = [int(text) for text in sys.argv[2:]] or [1000, 41000]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        first = peak(folder, counts[0], 1)
        print(f"{counts[0]:>9} cases: {first / 1e6:.1f} MB")
        worst = 0.0
        for count in counts[1:]:
            size = peak(folder, count, 1)
            each = (size - first) / (count - counts[0])
            worst = max(worst, each)
            print(f"{count:>9} cases: {size / 1e6:.1f} MB, {each:.1f} bytes for each case more")
        few, many = peak(folder, 100, 1000), peak(folder, counts[0], 1000)
        each = (many - few) / (counts[0] - 100)
        print(f"{counts[0]:>9} cases a thousand times as large: {many / 1e6:.1f} MB, {each:.1f} bytes for each case more than 100")
    # Resident sizes come in pages: over so few cases a page more or less is many bytes each.
    return not (worst <= 32 and (many - few) <= 32 * (counts[0] - 100) + 300_000)


if __name__ == "__main__":
    sys.exit(main())
