# SPDX-License-Identifier: Apache-2.0
"""peers.safetensors: what four public implementations make of blocks of values: every value that a code has, every half
between two of them (of grids below 64 codes the f32 on both sides of it, too), zeros of both signs, under block maxima on
both sides of every bound at which a rule of scales turns, from 2^-149 to the largest f32. Per format FORMAT/input
[blocks, 32 or 16], and one tensor for all implementations that agree bit for bit: FORMAT/NAME,NAME,... with the values
that their codes stand for. FORMAT.elements has infinities and NaN, each alone; nvfp4.0 .. are tensors of their own.

    PYTHONPATH=... python3 make_peers.py        gfloat b142762, torchao 36027d8, ModelOpt a2fbac7, microxcaling 7bc4195;
                                                PyTorch 2.14.1, NumPy 2.4.6
"""
import numpy as np
import torch
from gfloat import RoundMode, compute_scale_amax, decode_float, quantize_block, round_float
from gfloat import formats as gf
from modelopt.torch.quantization.qtensor.mxfp4_tensor import MXFP4QTensor
from modelopt.torch.quantization.qtensor.mxfp8_tensor import MXFP8QTensor
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor
from mx.mx_ops import _quantize_mx
from safetensors.torch import save_file
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.mx_tensor import MXTensor
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
from torchao.quantization.quantize_.workflows.nf4.nf4_tensor import NF4Tensor

MX = {  # gfloat's record, torchao's name, microxcaling's name
    "mxfp4": (gf.format_info_mxfp4_e2m1, torch.float4_e2m1fn_x2, "fp4_e2m1"),
    "mxfp6e2m3": (gf.format_info_mxfp6_e2m3, "fp6_e2m3", "fp6_e2m3"),
    "mxfp6e3m2": (gf.format_info_mxfp6_e3m2, "fp6_e3m2", "fp6_e3m2"),
    "mxfp8e4m3": (gf.format_info_mxfp8_e4m3, torch.float8_e4m3fn, "fp8_e4m3"),
    "mxfp8e5m2": (gf.format_info_mxfp8_e5m2, torch.float8_e5m2, "fp8_e5m2"),
    "mxint8": (gf.format_info_mxint8, None, "int8"),
}


def f32(x):
    return np.float32(x)


def beside(x):
    return [np.nextafter(f32(x), f32(-np.inf)), f32(x), np.nextafter(f32(x), f32(np.inf))]


def magnitudes(element):
    values = {abs(decode_float(element, code).fval) for code in range(2**element.k)}
    return sorted(x for x in values if np.isfinite(x) and x <= element.max)


def points(values):
    halves = [(a + b) / 2 for a, b in zip(values, values[1:])]
    around = [y for x in halves for y in beside(x)] if len(values) < 64 else halves
    return [sign * float(x) for x in (*values, *around) for sign in (1, -1)]


def maxima(values):
    """Block maxima where some rule of E8M0 turns, with the exponent that the block's other values are given."""
    largest, power = values[-1], 2.0 ** np.floor(np.log2(values[-1]))
    step = values[-1] - values[-2]
    bounds = [power, largest, 2 * power - step / 2, 2 * power]
    turns = [float(y) for x in bounds for y in beside(x)] + [(largest + 2 * power) / 2]
    yield from ((m * 2.0**-17, -17) for m in turns)
    for m in 2.0**-149, 2.0**-127, 2.0**-126, *beside(largest * 2.0**-127), 2.0**127, np.finfo(np.float32).max:
        yield float(m), int(np.floor(np.log2(float(m))) - np.log2(power))


def blocks(values):
    """Rows of 32: a maximum, and 31 of the points in turn; the points come round whole under the largest value."""
    at, cycle = 0, points(values)
    whole = [(values[-1], 0)] * (-(-len(cycle) // 31))
    for i, (largest, e) in enumerate([*whole, *maxima(values)]):
        row = [largest if i % 2 == 0 else -largest]
        while len(row) < 32:
            x, at = f32(np.ldexp(cycle[at % len(cycle)], e)), at + 1
            row.append(x if abs(x) <= largest else f32(0))
        yield row
    yield [0.0, -0.0] * 16


def by_gfloat(info, x):
    return torch.tensor(np.array([quantize_block(info, row, compute_scale_amax) for row in x.numpy().astype(float)]),
                        dtype=torch.float32)


def by_modelopt(tensor, x, **options):
    quantized, *scales = tensor.quantize(x.clone(), **options)
    named = dict(zip(("scale", "double_scale"), scales))
    return quantized.dequantize(torch.float32, block_sizes={-1: options.get("block_size", 32)}, **named)


def mx_results(name, x):
    info, torchao_name, microxcaling_name = MX[name]
    results = {"gfloat": by_gfloat(info, x)} if torch.isfinite(x).all() else {}
    if torchao_name is not None:
        for mode in "FLOOR", "CEIL", "RCEIL", "EVEN":
            tensor = MXTensor.to_mx(x, torchao_name, 32, ScaleCalculationMode[mode])
            results["torchao:" + mode.lower()] = tensor.dequantize(torch.float32)
    for ties in "nearest", "even":
        results["microxcaling:" + ties] = _quantize_mx(x, 8, microxcaling_name, axes=[-1], block_size=32, round=ties)
    if name == "mxfp4":
        results["modelopt"] = by_modelopt(MXFP4QTensor, x, block_size=32)
    if name == "mxfp8e4m3":
        results["modelopt"] = by_modelopt(MXFP8QTensor, x)
    return results


def nvfp4_input(seed, largest):
    """One tensor: blocks of codes, halves and their neighbours under block scales that are E4M3's, and of noise."""
    rng = np.random.default_rng(seed)
    cycle, rows, t = points(magnitudes(gf.format_info_ocp_e2m1)), [], float(f32(largest) / f32(448 * 6))
    scales = [decode_float(gf.format_info_ocp_e4m3, code).fval for code in (1, 2, 7, 8, 9, 0x38, 0x39, 0x3f, 0x55, 0x7d)]
    at = 0
    for scale in scales:
        row = [6.0 * scale * t] + [float(cycle[(at + i) % len(cycle)]) * scale * t for i in range(15)]
        at += 15
        rows.append(row)
    rows += [list(rng.normal(size=16) * largest * 2.0**-k) for k in (3, 6, 12, 30)]
    rows += [[largest] + [0.0] * 15, [0.0, -0.0] * 8]
    return torch.tensor(np.clip(np.array(rows), -largest, largest), dtype=torch.float32)


def nvfp4_results(x):
    scale = per_tensor_amax_to_scale(x.abs().max())
    return {"torchao": NVFP4Tensor.to_nvfp4(x, 16, per_tensor_scale=scale).dequantize(torch.float32),
            "modelopt": by_modelopt(NVFP4QTensor, x, block_size=16)}


def nf4_results(x):
    table = NF4Tensor.from_tensor(torch.ones(64), 64, 1).nf4
    return {"torchao": table[NF4Tensor.quantize_tensor_nearest(x, table)]}


def add(tensors, name, x, results):
    groups = {}
    for peer, y in results.items():
        groups.setdefault(y.contiguous().numpy().tobytes(), ([], y))[0].append(peer)
    tensors[f"{name}/input"] = x
    tensors.update({f"{name}/{','.join(peers)}": y.reshape(x.shape).contiguous() for peers, y in groups.values()})


def elements(element):
    """Values without a block: infinities, what lies beyond the largest, the smallest f32, NaN where the grid has one."""
    values = [np.inf, 2 * element.max, float(np.finfo(np.float32).max), 2.0**-149, *([np.nan] if element.num_nans else [])]
    x = torch.tensor([sign * v for v in values for sign in (1, -1)], dtype=torch.float32)
    return x, {"gfloat": torch.tensor([round_float(element, v, RoundMode.TiesToEven, sat=True) for v in x.tolist()])}


tensors = {}
for name, (info, *_) in MX.items():
    x = torch.tensor(np.array(list(blocks(magnitudes(info.etype)))), dtype=torch.float32)
    add(tensors, name, x, mx_results(name, x))
    add(tensors, name + ".elements", *elements(info.etype))
for i, largest in enumerate((2688.0, 3.0, 1e-30)):
    x = nvfp4_input(i, largest)
    add(tensors, f"nvfp4.{i}", x, nvfp4_results(x))
levels = [float(x) for x in NF4Tensor.from_tensor(torch.ones(64), 64, 1).nf4]
x = torch.tensor([y for v in (*levels, *((a + b) / 2 for a, b in zip(levels, levels[1:]))) for y in beside(v)])
x = torch.cat([x.clamp(-1, 1), torch.zeros(128 - len(x))]).reshape(2, 64)
add(tensors, "nf4", x, nf4_results(x))
save_file(tensors, "peers.safetensors")

for name in MX:  # what becomes of a block of ones with one value that is not finite
    for value in torch.nan, torch.inf:
        x = torch.ones(1, 32)
        x[0, 5] = value
        print(name, value, {peer: y[0, 4:6].tolist() for peer, y in mx_results(name, x).items()})
