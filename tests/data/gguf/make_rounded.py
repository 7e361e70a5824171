# SPDX-License-Identifier: Apache-2.0
"""Makes rounded.gguf of this folder again: values in F32, and what llama.cpp makes of them in each type that it rounds
to without an importance matrix.

    python3 make_rounded.py LIBGGML_BASE

Needs gguf and numpy. Both libggml (ggml_quantize_chunk) and gguf-py round, and must agree byte for byte.
"""
import pathlib
import sys

import gguf
import gguf.quants
import numpy as np
from libggml import rounder

HERE = pathlib.Path(__file__).parent
TYPES = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4"]
ROWS, COLUMNS = 24, 64


def values():
    """Blocks of every kind: of the normal law at many sizes, ties, zeros, of one sign, one large value, equal values."""
    random = np.random.default_rng(5)
    x = random.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    x[:8] *= np.float32(2) ** random.integers(-12, 8, (8, 1)).astype(np.float32)
    x[8] = np.round(x[8] * 4) / 8                   # ties of codes
    x[9] = 0
    x[10] = np.abs(x[10])
    x[11, 5], x[11, 40] = -300, 300
    x[12] = 0.75
    x[13] = np.where(random.random(COLUMNS) < 0.5, -1, 1)  # the largest magnitude with both signs
    x[14] = np.linspace(-4, 4, COLUMNS)
    x[15] *= 1e-6                                   # scales below f16's normal numbers
    x[16] = np.float32(2) ** random.integers(-6, 6, COLUMNS)
    x[17] = random.integers(-6, 7, COLUMNS) / 2     # values of E2M1, and halfway between
    x[18, ::2] = 0
    x[19] = np.nextafter(np.float32(2) ** 11, np.float32(0))  # whose log2 in f32 is 11
    x[20] = np.linspace(-31.5, 31.5, COLUMNS)       # halves between the codes of Q8_0, with a step of 1
    x[20, [0, 63]] = -127, 127
    return x


rounded = rounder(sys.argv[1])
writer = gguf.GGUFWriter(HERE / "rounded.gguf", "none")
x = values()
writer.add_tensor("values", x)
for name in TYPES:
    kind = gguf.GGMLQuantizationType[name]
    data = gguf.quants.quantize(x, kind)
    theirs = rounded(kind, x)
    assert np.array_equal(data.view(np.uint8).reshape(theirs.shape), theirs), name
    writer.add_tensor(name, theirs, raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
