#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs docs/examples/read_quantized.py on a file with every kind of format and every code: it gives the same floats, bit
# for bit, as `tare quantize --format safetensors`. Skipped (77) if Python has no h5py.
# usage: quantized_page_test.sh TARE PROGRAM MODEL     MODEL: a checkpoint folder in F32
set -euo pipefail
tare=$1 program=$2 model=$3
python3 -c 'import h5py, numpy' 2>/dev/null || exit 77

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$program" "$work/page.py"
cat >"$work/values.py" <<'PYTHON'
import json, struct

import numpy as np


RANGED = {base + suffix for base in ("int2", "int3", "int4", "int6", "int8") for suffix in ("+full", "+zero", "+min")}


def tensors(path, mode="r"):
    """The f32 ones, as they lie in the file."""
    data = np.memmap(path, np.uint8, mode)
    size = struct.unpack("<Q", data[:8].tobytes())[0]
    for name, t in json.loads(data[8:8 + size].tobytes()).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            begin, end = t["data_offsets"]
            yield name, data[8 + size + begin:8 + size + end].view(np.float32).reshape(t["shape"])


def values(file, name):
    """What the codes of a matrix stand for; None if that depends on the group, or on the values beside it."""
    format = bytes(file["codes/" + name].attrs["format"]).decode()
    of_mean_square = format == "e8p" or format.startswith("normal")
    low_rank = "low_rank_up" in file
    if format in RANGED or of_mean_square or format == "if4" or low_rank or "hadamard" in file["codes/" + name].attrs:
        return None
    if format in ("int2", "int3", "int4", "int6", "int8"):
        largest = 2 ** (int(format[3:]) - 1) - 1
        return np.arange(-largest, largest + 1).astype(np.float32)
    grid = file["grids/" + format][:]
    return grid[~np.isnan(grid)]
PYTHON
# The first layer gets every value of the format, the largest first in each group, so that all groups have one scale.
cat >"$work/fill.py" <<'PYTHON'
import itertools, sys

import h5py
import numpy as np

from values import tensors, values

for folder in sys.argv[1:]:
    with h5py.File(folder + "/q.h5") as file:
        for name, tensor in tensors(folder + "/model/model.safetensors", "r+"):
            if "codes/" + name in file and ".layers.0." in name and values(file, name) is not None:
                of_format, group = values(file, name), file["codes/" + name].attrs["group"]
                turn, largest = itertools.cycle(of_format), of_format[np.argmax(np.abs(of_format))]
                for row in tensor:
                    row[:] = [(largest if i % group == 0 else next(turn)) / 8 for i in range(len(row))]
PYTHON
cat >"$work/run.py" <<'PYTHON'
import sys

import h5py
import numpy as np

from page import weight
from values import tensors, values

for folder in sys.argv[1:]:
    plan = open(folder + "/plan").read()
    with h5py.File(folder + "/q.h5") as file:
        filled = 0
        for name, expected in tensors(folder + "/folder/model.safetensors"):
            if "codes/" + name in file:
                bits = weight(file, name).view(np.uint32)
                assert np.array_equal(bits, expected.view(np.uint32)), (plan, name)
                if ".layers.0." in name:
                    of_format = values(file, name)
                    assert of_format is None or len(np.unique(bits)) == len(of_format), (plan, name)
                    filled += 1
    assert filled > 0, plan
PYTHON
# quantized MODEL FOLDER ARGUMENT...: by the plan of the folder.
quantized() {
  local plan method=rtn
  plan=$(cat "$2/plan")
  [ "$plan" != weights=int4/group8 ] || method=svdquant:3
  "$tare" quantize "$1" --plan "$plan" --method $method "${@:3}" >/dev/null
}
for plan in weights=int8/channel weights=int3/group16 weights=int2/channel+zero weights=int3/tensor+full \
  weights=int6/group16 weights=int4/tensor weights=mxfp4 weights=mxfp6e2m3 \
  weights=mxfp6e3m2:rceil weights=mxfp8e4m3 \
  weights=mxfp8e5m2 weights=mxint8 weights=nvfp4 weights=fp8e4m3/channel weights=fp8e5m2/tensor weights=nf4/group16 \
  weights=nvfp4:256:ties-away weights=if4 weights=fp8e4m3:rceil/group16 weights=ternary/tensor weights=e8p/channel \
  weights=normal4/tensor weights=normal3/group16+hadamard16 weights=normal2/channel \
  weights=int4/group16+zero weights=int6/channel+min weights=int8/tensor+full weights=int8/group16+zero \
  weights=int4/group16+hadamard16 weights=int6/channel+zero+hadamard weights=nvfp4+hadamard8 \
  weights=int4/group8 \
  "weights=grid(-1 -0.3 0.2 1)/group16" "weights=grid($(seq -s ' ' -40 1 29))/channel"; do
  folder=$(mktemp -d "$work/plan.XXXX")
  printf %s "$plan" >"$folder/plan"
  quantized "$model" "$folder" --out "$folder/q.h5"
  cp -rT "$model" "$folder/model"
done
# All plans in one run each: to start Python with numpy takes longer than to compare a file.
python3 "$work/fill.py" "$work"/plan.*
for folder in "$work"/plan.*; do
  rm "$folder/q.h5"
  quantized "$folder/model" "$folder" --out "$folder/q.h5"
  quantized "$folder/model" "$folder" --format safetensors --out "$folder/folder"
done
python3 "$work/run.py" "$work"/plan.*
