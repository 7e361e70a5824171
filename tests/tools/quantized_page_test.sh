#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python of quant/file/quantized-checkpoint.md, run as it stands there on a file of every kind of format: the same floats as tare's
# own, which `tare quantize --format safetensors` writes. Skipped (77) where Python has no h5py.
# usage: quantized_page_test.sh TARE PAGE MODEL     MODEL: a checkpoint folder in F32
set -euo pipefail
tare=$1 page=$2 model=$3
python3 -c 'import h5py, numpy' 2>/dev/null || exit 77

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' "$page" | sed '/^with h5py.File/,$d' >"$work/page.py"
cat >"$work/run.py" <<'PYTHON'
import json, struct, sys

import h5py
import numpy as np

sys.path.insert(0, sys.argv[1])
from page import weight


def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            begin, end = t["data_offsets"]
            yield name, np.frombuffer(data[8 + size + begin:8 + size + end], np.float32).reshape(t["shape"])


with h5py.File(sys.argv[1] + "/q.h5") as file:
    quantized = 0
    for name, expected in tensors(sys.argv[1] + "/folder/model.safetensors"):
        if "codes/" + name in file:
            assert np.array_equal(weight(file, name), expected), (sys.argv[2], name)
            quantized += 1
assert quantized > 0, sys.argv[2]
PYTHON
for plan in weights=int8/channel weights=int6/group16 weights=int4/tensor weights=mxfp4 weights=mxfp6e2m3 weights=mxfp6e3m2:rceil weights=mxfp8e4m3 \
  weights=mxfp8e5m2 weights=mxint8 weights=nvfp4 weights=fp8e4m3/channel weights=fp8e5m2/tensor weights=nf4/group16 \
  weights=nvfp4:256:ties-away weights=fp8e4m3:rceil/group16 weights=ternary/tensor; do
  rm -rf "$work/q.h5" "$work/folder"
  "$tare" quantize "$model" --plan "$plan" --out "$work/q.h5" >/dev/null
  "$tare" quantize "$model" --plan "$plan" --format safetensors --out "$work/folder" >/dev/null
  python3 "$work/run.py" "$work" "$plan"
done
