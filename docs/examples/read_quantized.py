# SPDX-License-Identifier: Apache-2.0
"""Reads a weight of a quantized checkpoint (docs/reference/quantized-checkpoint.md) with h5py and numpy alone.

usage: python3 read_quantized.py Q.h5 TENSOR
"""
import sys

import h5py
import numpy as np


def rotated_back(file, values, run):
    rows, n = values.shape
    base = run
    while base > 1 and f"hadamard/matrix.{base}" not in file:
        base //= 2
    matrix = file[f"hadamard/matrix.{base}"][:].astype(np.float64)
    while len(matrix) < run:
        matrix = np.kron([[1, 1], [1, -1]], matrix)
    turned = values.reshape(rows, -1, run) @ matrix.T * (1 / np.sqrt(run))
    return (turned.reshape(rows, n) * file[f"hadamard/signs.{n}"][:]).astype(np.float32)


def of_bf16(values):
    return (values.astype(np.uint32) << 16).view(np.float32)


def weight(file, name):
    codes, scales = file["codes/" + name], file["scales/" + name]
    rows, format, n = codes[:], bytes(codes.attrs["format"]).decode(), codes.attrs["in"]
    base, _, suffix = format.partition("+")
    if base in ("int2", "int3", "int4", "int6", "int8"):
        bits = int(base[3:])
        grid = np.arange(256).astype(np.int8) if bits == 8 else np.arange(2 ** bits) - 2 ** (bits - 1)
        if suffix in ("zero", "min"):
            grid = np.arange(2 ** bits)
    elif format == "e8p":
        bits, codes16 = 8, rows.view("<u2")[..., None]
        magnitudes = file["grids/e8p"][:].reshape(256, 8)[codes16[..., 0] & 255]
        negative = codes16 >> 8 + np.arange(8) & 1
        negative[..., 7] = (negative[..., :7].sum(-1) + magnitudes.sum(-1).astype(int)) % 2
        points = np.where(negative == 1, -magnitudes, magnitudes) + np.where(codes16 >> 15, -0.25, 0.25)
        rows = (points * 4).astype(np.int8).view(np.uint8).reshape(len(rows), -1)
        grid = np.arange(256).astype(np.int8) / 4
    else:
        grid = file["grids/" + format][:]
        bits = 4 if format == "if4" else len(grid).bit_length() - 1
    if bits < 8:
        group, u = rows.reshape(len(rows), -1, 8 * bits), np.uint8(0)
        for width, low in {2: [(2, 0)], 3: [(2, 0), (1, 2)], 4: [(4, 0)], 6: [(4, 0), (2, 4)]}[bits]:
            plane, group = group[..., :8 * width], group[..., 8 * width:]
            u = u | np.concatenate([(plane >> shift & 2 ** width - 1) << low for shift in range(0, 8, width)], axis=-1)
        rows = u.reshape(len(rows), -1)
    scale = scales[:]
    if scale.dtype == np.uint8:
        scale = file["grids/" + bytes(scales.attrs["grid"]).decode()][:][scale]
    if "tensor_scales/" + name in file:
        scale = scale * file["tensor_scales/" + name][0]
    of_columns = lambda groups: np.repeat(groups, codes.attrs["group"], axis=1)[:, :n].astype(np.float32)
    rows = rows[:, :n]
    if format == "if4":  # blocks with the second half of the grid: the highest bit of their scales
        rows = rows + of_columns(scales[:] >> 7 << 4).astype(int)
    values = grid[rows].astype(np.float32)
    if suffix == "zero":
        values = values - of_columns(file["zeros/" + name][:])
    values = values * of_columns(scale)
    if suffix == "min":
        values = values + of_columns(file["minima/" + name][:])
    if "hadamard" in codes.attrs:
        values = rotated_back(file, values, codes.attrs["hadamard"])
    if "low_rank_up/" + name in file:
        up, down = (of_bf16(file[f"low_rank_{part}/{name}"][:]) for part in ("up", "down"))
        for k in range(len(down)):
            values = values + up[:, k:k + 1] * down[k]
    return values


if __name__ == "__main__":
    with h5py.File(sys.argv[1]) as file:
        print(weight(file, sys.argv[2]))
