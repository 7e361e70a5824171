# SPDX-License-Identifier: Apache-2.0
"""Makes super.gguf of this folder again: rows of values in F32, and what libggml rounds them to in K-types.

    python3 make_super.py LIBGGML_BASE

Needs gguf and numpy. Rows of a trained model are of ../../../experiments/pair/novels-standard.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
from libggml import rounder

HERE = pathlib.Path(__file__).parent
TYPES = ["Q4_K", "Q5_K", "Q6_K"]
ROWS, COLUMNS = 8, 256


def trained():
    """Rows of an attention matrix, in bf16 in the file."""
    folder = HERE.parents[2] / "experiments/pair/novels-standard"
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensor = json.loads(data[8:8 + size])["model.layers.1.self_attn.q_proj.weight"]
    begin, end = tensor["data_offsets"]
    assert tensor["dtype"] == "BF16" and tensor["shape"][1] == COLUMNS
    bits = np.frombuffer(data[8 + size + begin:8 + size + end], np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32).reshape(-1, COLUMNS)[:ROWS].copy()


def values():
    random = np.random.default_rng(7)
    normal = random.normal(size=(ROWS, COLUMNS))
    apart = random.normal(size=(ROWS, COLUMNS))
    apart[:, 32:64] *= 40
    kinds = {"normal": normal * 0.02, "tails": random.standard_t(3, (ROWS, COLUMNS)), "positive": np.abs(normal),
             "apart": apart}
    return {name: x.astype(np.float32) for name, x in kinds.items()} | {"trained": trained()}


rounded = rounder(sys.argv[1])
writer = gguf.GGUFWriter(HERE / "super.gguf", "none")
for name, x in values().items():
    writer.add_tensor(name, x)
    for kind in TYPES:
        data = rounded(gguf.GGMLQuantizationType[kind], x)
        error = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind]) - x
        print(name, kind, float((error.astype(np.float64)**2).sum() / (x.astype(np.float64)**2).sum()))
        writer.add_tensor(f"{name}.{kind}", data, raw_dtype=gguf.GGMLQuantizationType[kind])
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
