# SPDX-License-Identifier: Apache-2.0
"""Every *_test.py of this folder on the module that PYTHONPATH has, in a process of its own: what it leaks, nanobind
says at its end, and that fails too. Skipped (77) where Python has no numpy.

usage: run.py [unittest's options]"""
import pathlib
import subprocess
import sys

try:
    import numpy  # noqa: F401
except ImportError:
    sys.exit(77)
folder = pathlib.Path(__file__).parent
command = [sys.executable, "-X", "dev", "-W", "error", "-m", "unittest", "discover", "-s", folder, "-p", "*_test.py",
           *sys.argv[1:]]
run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
print(run.stderr, file=sys.stderr)
leaks = [line for line in run.stderr.splitlines() if line.startswith("nanobind:")]
sys.exit(run.returncode or (1 if leaks else 0))
