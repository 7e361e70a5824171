# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python module share: where the tree and the program are, and refusals."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def program(*arguments):
    """What the command prints, its standard error too; fails where it does."""
    run = subprocess.run([os.environ["TARE_PROGRAM"], *map(str, arguments)], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    if run.returncode != 0:
        raise AssertionError(f"tare {arguments}: {run.stdout}")
    return run.stdout


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refuses(self, text, call, *arguments, **named):
        """The call raises ValueError with this text in its message, which names no option of the program, for Python
        has none, unless the text does."""
        with self.assertRaises(ValueError) as caught:
            call(*arguments, **named)
        self.assertIn(text, str(caught.exception))
        self.assertEqual("--" in str(caught.exception), "--" in text, str(caught.exception))
