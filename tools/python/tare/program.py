# SPDX-License-Identifier: Apache-2.0
"""The command `tare` from Python."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from .arguments import checked


def _program():
    package = pathlib.Path(__file__).parent
    places = [package / "bin" / "tare", package.parents[1] / "tare"]  # a wheel's; beside a build's python/tare
    found = os.environ.get("TARE_PROGRAM") or next((str(p) for p in places if p.is_file()), shutil.which("tare"))
    if found is None:
        raise ValueError("tare: got no program of this name in PATH, expected one; try TARE_PROGRAM=build/release/tare")
    return found


def main():
    """The wheel's command `tare`."""
    os.execv(_program(), ["tare", *sys.argv[1:]])


@checked
def run(command: str, *arguments, **options):
    """Runs a command of the program and gives what it writes with --json, as a dict; its errors as ValueError, with
    its text.

        tare.run("eval", model, plan="attn_logits=int6/row", tasks="perplexity=heldout.txt", tokens=2044)
        tare.run("bench attention", family="v1", n=4096)
        tare.run("plot", "bits", figure="bits", out="bits.svg", json=None)    # a command without --json: None

    An argument may be a list of words, such as models. Write an option's name with _ for -, and give it a value, a list
    of values, True for a flag, or None to leave it out. The program is $TARE_PROGRAM, that of the wheel or
    the build, or the one in PATH.
    """
    options = {"json": "-", **options}
    words = [_program(), *command.split()]
    for argument in arguments:
        words.extend(map(str, argument if isinstance(argument, (list, tuple)) else [argument]))
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append("--" + name.rstrip("_").replace("_", "-"))
        if value is not True:
            words.extend(map(str, value if isinstance(value, (list, tuple)) else [value]))
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip().removeprefix("tare: "))
    return json.loads(done.stdout) if options["json"] == "-" else None
