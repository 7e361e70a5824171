# SPDX-License-Identifier: Apache-2.0
"""float8.txt: what PyTorch's casts to float8_e4m3fn and float8_e5m2 make of f32: every value that a code has, every half
between two of them and the f32 on both sides of it. Positive values up to the largest: beyond it PyTorch gives NaN or
infinity, which no grid has. Lines: the grid, the bits of the input, the bits of the result as f32.

    python3 make_float8.py >float8.txt        (PyTorch 2.14.1)
"""

import torch


def bits(x):
    return f"{x.view(torch.int32).item():08x}"


for name, dtype in ("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2):
    codes = torch.arange(128, dtype=torch.uint8).view(dtype).to(torch.float32)
    values = codes[torch.isfinite(codes)]
    halves = (values[1:] + values[:-1]) / 2
    zero, end = torch.tensor(0.0), torch.tensor(float("inf"))
    inputs = torch.cat([values, halves, torch.nextafter(halves, zero), torch.nextafter(halves, end)])
    for x in torch.sort(inputs).values:
        print(name, bits(x), bits(x.to(dtype).to(torch.float32)))
