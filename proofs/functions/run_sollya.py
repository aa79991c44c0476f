"""Runs tanh_series.sollya; prints what it says."""
import pathlib
import subprocess
import sys

script = pathlib.Path(__file__).with_name("tanh_series.sollya")
result = subprocess.run(["sollya", "--warnonstderr", script], capture_output=True, text=True, timeout=300)
print(result.stdout.strip().splitlines()[-1] if result.stdout.strip() else result.stderr)
sys.exit(result.returncode)
