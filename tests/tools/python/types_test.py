# SPDX-License-Identifier: Apache-2.0
"""Type checkers read the package and its stubs: right calls have no error, and wrong ones have one each."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RIGHT = """
import numpy as np
import tare

x = np.zeros((3, 1, 8), np.float32)
out = tare.attention(x, x, x, heads="standard", plan="q=int8/token", scale=1.0, threads=2)
codes: tare.Quantized = tare.quantize(np.zeros((4, 64), np.float32), "int4/group64")
back: np.ndarray = tare.dequantize(codes)
again: np.ndarray = codes.dequantize(threads=1)
format_name: str = codes.format
better: tare.Quantized = tare.gptq(np.zeros((4, 64), np.float32), np.eye(64, dtype=np.float32), "int4/group64")
projected: np.ndarray = tare.Linear(better, activations="int8", threads=1)(x)
cache = tare.Cache(1, 8, v_width=16, plan="cache_k=int8/token", threads=1)
decoded, tokens, size = cache.fork().decode(x, lambda_=0.5, window=2), len(cache), cache.nbytes
kurtosis = tare.measures(x)["kurtosis"]
result = tare.run("plan", "int8")
with tare.Statistics("S.h5", formats="int8/row") as statistics:
    statistics.feed("input_ids", None, x)
version: str = tare.__version__
"""
WRONG = """
import tare

tare.attention(1, 1, 1, plan=8)
tare.attention(1, 1, 1, causale=True)
tare.quantize(1)
number: int = tare.__version__
"""


@unittest.skipIf(importlib.util.find_spec("mypy") is None, "no mypy")
class TypesTest(unittest.TestCase):
    def errors(self, source):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "program.py"
            path.write_text(source)
            run = subprocess.run([sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", folder,
                                  "--disable-error-code", "import-untyped", path],  # pandas, which is optional
                                 capture_output=True, text=True,
                                 env={**os.environ, "MYPYPATH": os.environ["PYTHONPATH"], "PYTHONPATH": ""})
            self.assertEqual(run.stderr, "")
            return [line for line in run.stdout.splitlines() if ": error: " in line]

    def test_right_calls_have_no_error(self):
        self.assertEqual(self.errors(RIGHT), [])

    def test_wrong_calls_have_one_each(self):
        self.assertEqual([int(line.split(":")[1]) for line in self.errors(WRONG)], [4, 5, 6, 7])


if __name__ == "__main__":
    unittest.main()
