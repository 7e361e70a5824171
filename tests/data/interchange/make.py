# SPDX-License-Identifier: Apache-2.0
"""Makes the layers beside this file, packed by the tools' own functions (oracles.py), and what their own unpacking
gives with scales taken to f32. make_models.py makes the llamas.

    SOURCES=FOLDER python3 make.py        checkouts as oracles.py names them; PyTorch 2.14.1
"""
import json
import os

import torch
from safetensors.torch import save_file

import oracles
from oracles import fp4, mx

HERE = os.path.dirname(os.path.abspath(__file__))
OUT, IN = 32, 64


def save(name, config, tensors, expected, beside=None, **keys):
    """beside: the file that has the settings, where config.json has none."""
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    texts = {"config.json": {**keys, "quantization_config": config}}
    if beside is not None:
        texts = {"config.json": keys, beside: config}
    for text, value in texts.items():
        with open(os.path.join(folder, text), "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.write("\n")
    save_file({k: v.detach().clone().contiguous() for k, v in tensors.items()}, os.path.join(folder, "model.safetensors"),
              {"format": "pt"})
    save_file({k: v.detach().clone().contiguous() for k, v in expected.items()},
              os.path.join(folder, "expected.safetensors"))


def asymmetric(weight, bits, columns):
    """Scales and zero points [out, groups] by minimum and maximum; some groups are positive: their zero point is 0."""
    parts = weight.reshape(weight.shape[0], -1, columns)
    low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
    scale = ((high - low) / (2**bits - 1)).half().float()
    return scale, (-low / scale).round().clamp(0, 2**bits - 1)


def symmetric(weight, bits, columns):
    scale = (weight.reshape(weight.shape[0], -1, columns).abs().amax(-1) / (2 ** (bits - 1) - 1)).half().float()
    return scale, torch.full_like(scale, 2 ** (bits - 1))


def weights(*shape):
    w = torch.randn(*shape) / shape[-1] ** 0.5
    w[1] = w[1].abs()  # zero points of 0, which version 1 stores with a borrow
    return w


def gptq_parts(weight, bits, columns, method, less_one, shuffled):
    scale, zero = method(weight, bits, columns)
    groups = torch.arange(weight.shape[1], dtype=torch.int32) // columns
    if shuffled:
        groups = groups[torch.randperm(len(groups))].contiguous()
    layer = oracles.Gptq(bits)
    layer.pack(weight, scale, zero, groups)
    if less_one:
        layer.store_less_one()
        stored = layer.qzeros.clone()
        layer.load_less_one()
        return {"qweight": layer.qweight, "qzeros": stored, "scales": layer.scales, "g_idx": groups}, layer.dequantized()
    return {k: getattr(layer, k) for k in ("qweight", "qzeros", "scales")} | {"g_idx": groups}, layer.dequantized()


def gptq():
    for name, less_one in (("gptq", True), ("gptq-v2", False)):
        torch.manual_seed(1)
        tensors, expected = {}, {}
        for module, bits, columns in (("a.int4", 4, 32), ("a.int8", 8, IN), ("a.int3", 3, 16), ("a.int2", 2, 32)):
            parts, expected[module + ".weight"] = gptq_parts(weights(OUT, IN), bits, columns, asymmetric, less_one,
                                                             module != "a.int8")
            tensors |= {f"{module}.{k}": v for k, v in parts.items()}
        tensors["a.plain.weight"] = torch.randn(3, 5).half()
        config = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False, "lm_head": False,
                  "checkpoint_format": name.replace("-", "_"), "pack_dtype": "int32", "meta": {"quantizer": ["gptqmodel:4"]},
                  "dynamic": {"-:.*plain": {}, r"+:a\.int8": {"bits": 8, "group_size": -1},
                              r".*\.int3$": {"bits": 3, "group_size": 16}, "a.int[2]": {"bits": 2}}}
        save(name, config, tensors, expected)


def auto_round():
    for name, packing, method in (("auto-round", "auto_round", asymmetric),
                                  ("auto-round-gptq", "auto_round:auto_gptq", symmetric)):
        torch.manual_seed(2)
        tensors, expected = {}, {}
        for module, bits, columns in (("a.int4", 4, 32), ("a.int8", 8, 64), ("a.int3", 3, 32), ("a.int2", 2, 32)):
            weight = weights(OUT, IN)
            if method is asymmetric:
                weight[1] -= 0.02  # it packs field by field, which zero points of 0 do not survive less one
            scale, zero = method(weight, bits, columns)
            if method is symmetric:
                scale[::3] *= -1  # as its search of scales may end
            layer = oracles.AUTO_ROUND[packing](bits, columns, IN, OUT, False)
            layer.device = "cpu"
            linear = torch.nn.Linear(IN, OUT, bias=False)
            linear.weight.data = (weight / scale.repeat_interleave(columns, 1)).round().clamp(
                1 - 2 ** (bits - 1), 2 ** (bits - 1) - 1) * scale.repeat_interleave(columns, 1) \
                if method is symmetric else weight
            layer.pack(linear, scale, zero.clone() if method is asymmetric else 2 ** (bits - 1))
            for part in ("qweight", "qzeros", "scales"):
                tensors[f"{module}.{part}"] = getattr(layer, part).clone()
            expected[module + ".weight"] = oracles.auto_round_dequantized(layer)
        save(name, {"quant_method": "auto-round", "packing_format": packing, "bits": 4, "group_size": 32,
                    "sym": method is symmetric, "data_type": "int", "autoround_version": "0.10.0", "iters": 0,
                    "extra_config": {"a.int8": {"bits": 8, "group_size": 64}, ".*int3.*": {"bits": 3},
                                     "a.int2": {"bits": 2}, "a.plain": {"bits": 16}}}, tensors, expected)
    torch.manual_seed(3)
    weight = weights(OUT, IN)
    scale, _ = symmetric(weight, 4, 32)
    layer = oracles.auto_round_awq.WQLinear_GEMM.from_linear(linear_of(weight), 4, 32, scales=scale.T.contiguous(),
                                                             zeros=8)
    save("auto-round-awq", {"quant_method": "auto-round", "packing_format": "auto_round:auto_awq", "bits": 4,
                            "group_size": 32, "sym": True}, awq_tensors("a", layer), {"a.weight": awq_dequantized(layer)})


def far_from_zero():
    """Asymmetric, the mean of code - zero point a code or two away from 0: no mean tells how zero points are stored."""
    for name, less_one in (("gptq-far", True), ("gptq-v2-far", False), ("auto-round-far", None)):
        torch.manual_seed(21)
        tensors, expected, overrides = {}, {}, {}
        for bits in (2, 3, 4, 8):
            module, weight = f"a.int{bits}", torch.randn(OUT, IN) / 8
            weight += (-1 if less_one else 1) * 1.1 * 6 / 8 / (2**bits - 1)
            weight[:, 0], weight[:, 1] = -0.5, 0.5  # no zero point is 0
            weight[:, 32], weight[:, 33] = -0.5, 0.5
            if less_one is not None:
                parts, expected[module + ".weight"] = gptq_parts(weight, bits, 32, asymmetric, less_one, False)
            else:
                scale, zero = asymmetric(weight, bits, 32)
                layer = oracles.AUTO_ROUND["auto_round"](bits, 32, IN, OUT, False)
                layer.device = "cpu"
                layer.pack(linear_of(weight), scale, zero.clone())
                parts = {part: getattr(layer, part).clone() for part in ("qweight", "qzeros", "scales")}
                expected[module + ".weight"] = oracles.auto_round_dequantized(layer)
            tensors |= {f"{module}.{k}": v for k, v in parts.items()}
            overrides[module] = {"bits": bits}
        config = {"bits": 4, "group_size": 32, "sym": False}
        config |= {"quant_method": "auto-round", "packing_format": "auto_round", "extra_config": overrides} \
            if less_one is None else {"quant_method": "gptq", "desc_act": False, "dynamic": overrides,
                                      "checkpoint_format": "gptq" if less_one else "gptq_v2"}
        save(name, config, tensors, expected)


def linear_of(weight):
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    linear.weight.data = weight
    return linear


def awq_tensors(module, layer):
    return {f"{module}.{part}": getattr(layer, part) for part in ("qweight", "qzeros", "scales")}


def awq_dequantized(layer):
    return oracles.awq_packing.dequantize_gemm(layer.qweight, layer.qzeros, layer.scales.float(), 4,
                                               layer.group_size).T.contiguous()


def awq_layer(weight, columns):
    scale, zero = asymmetric(weight, 4, columns)
    return oracles.awq.WQLinear_GEMM.from_linear(linear_of(weight), 4, columns, scales=scale.T.contiguous(),
                                                 zeros=zero.T.contiguous())


def awq():
    torch.manual_seed(4)
    layer = awq_layer(weights(OUT, IN), 32)
    save("awq", {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm",
                 "modules_to_not_convert": ["lm_head"]}, awq_tensors("a", layer), {"a.weight": awq_dequantized(layer)})


def arguments(bits, strategy, **more):
    return {"num_bits": bits, "type": "int", "symmetric": True, "strategy": strategy, "dynamic": False, "actorder": None,
            "block_structure": None, "group_size": None, "observer": "minmax", "observer_kwargs": {}, **more}


def compressed(groups, fmt, version="0.18.0", **more):
    return {"quant_method": "compressed-tensors", "format": fmt, "quantization_status": "compressed", "version": version,
            "config_groups": groups, "ignore": ["lm_head", "re:.*norm.*"], "kv_cache_scheme": None, "sparsity_config": {},
            "transform_config": {}, "global_compression_ratio": None, **more}


def packed(weight, bits, columns, version, is_symmetric, g_idx=None):
    """Tensors of one module and what they stand for. columns 0: a scale per row."""
    tool, out = oracles.PACKING[version], weight.shape[0]
    width = columns or weight.shape[1]
    grouped = weight if g_idx is None else weight[:, torch.argsort(g_idx)]
    scale, zero = (symmetric if is_symmetric else asymmetric)(grouped, bits, width)
    offset = 2 ** (bits - 1)
    codes = (grouped / scale.repeat_interleave(width, 1) + zero.repeat_interleave(width, 1)).round().clamp(
        0, 2**bits - 1).sub(offset).to(torch.int8)
    if g_idx is not None:
        codes = codes[:, torch.argsort(torch.argsort(g_idx))]
    zero = (zero - offset).to(torch.int8)
    tensors = {"weight_packed": tool.pack_to_int32(codes, bits), "weight_scale": scale.bfloat16(),
               "weight_shape": torch.tensor(weight.shape)}
    if not is_symmetric:
        tensors["weight_zero_point"] = tool.pack_to_int32(zero, bits, packed_dim=0).contiguous()
        zero = tool.unpack_from_int32(tensors["weight_zero_point"], bits, torch.Size([out, scale.shape[1]]), packed_dim=0)
    if g_idx is not None:
        tensors["weight_g_idx"] = g_idx
    codes = tool.unpack_from_int32(tensors["weight_packed"], bits, weight.shape)
    return tensors, oracles.ct_dequantize(codes, tensors["weight_scale"], None if is_symmetric else zero,
                                          "group" if columns else "channel", columns or None, g_idx=g_idx)


def compressed_packed():
    for version in ("0.12.2", "0.18.0"):
        torch.manual_seed(5)
        tensors, expected, groups = {}, {}, {}
        cases = [("int4", 4, 32, True), ("asym4", 4, 16, False), ("int8", 8, 0, True), ("asym8", 8, 0, False)]
        cases += [(f"int{b}", b, 16, b % 2 == 0) for b in (3, 5, 6, 7)]
        for module, bits, columns, is_symmetric in cases:
            g_idx = (torch.arange(IN) // columns)[torch.randperm(IN)].int() if module == "asym4" else None
            rows = 29 if columns == 0 else OUT  # zero points end within a word
            parts, expected[f"a.{module}.weight"] = packed(weights(rows, IN), bits, columns, version, is_symmetric, g_idx)
            tensors |= {f"a.{module}.{k}": v for k, v in parts.items()}
            groups[f"group_{module}"] = {
                "targets": [f"re:a.{module}$"] if bits % 2 else [f"a.{module}"], "input_activations": None,
                "output_activations": None,
                "weights": arguments(bits, "group" if columns else "channel", group_size=columns or None,
                                     symmetric=is_symmetric, actorder="group" if g_idx is not None else None)}
        save("compressed-packed-" + version[:4], compressed(groups, "pack-quantized", version), tensors, expected)


def float8(x):
    return x.clamp(-448, 448).to(torch.float8_e4m3fn)


def compressed_bytes():
    """int-quantized, float-quantized and the four-bit floats, each a group of one checkpoint."""
    torch.manual_seed(6)
    tensors, expected, groups = {}, {}, {}

    def add(module, fmt, args, parts, value, inputs=None):
        tensors.update({f"a.{module}.{k}": v for k, v in parts.items()})
        expected[f"a.{module}.weight"] = value
        groups["group_" + module] = {"targets": [f"a.{module}"], "weights": args, "input_activations": inputs,
                                     "output_activations": None, "format": fmt}

    token = arguments(8, "token", dynamic=True)
    w = weights(OUT, IN)
    scale = (w.abs().amax(1, keepdim=True) / 127).bfloat16()
    codes = (w / scale.float()).round().clamp(-128, 127).to(torch.int8)
    add("int8", "int-quantized", arguments(8, "channel"), {"weight": codes, "weight_scale": scale},
        oracles.ct_dequantize(codes, scale), token)
    zero = torch.randint(-9, 9, scale.shape, dtype=torch.int8)
    add("asym", "int-quantized", arguments(8, "channel", symmetric=False),
        {"weight": codes, "weight_scale": scale, "weight_zero_point": zero}, oracles.ct_dequantize(codes, scale, zero), token)
    one = torch.tensor([0.0123])
    add("tensor", "naive-quantized", arguments(8, "tensor"), {"weight": codes, "weight_scale": one},
        oracles.ct_dequantize(codes, one, strategy="tensor"), token)

    f8 = dict(type="float")
    codes = float8(weights(OUT, IN) * 100)
    scale = torch.rand(OUT, 1) / 100
    add("f8channel", "float-quantized", arguments(8, "channel", **f8), {"weight": codes, "weight_scale": scale},
        oracles.ct_dequantize(codes, scale), arguments(8, "token", dynamic=True, **f8))
    add("f8tensor", "float-quantized", arguments(8, "tensor", **f8),
        {"weight": codes, "weight_scale": one.bfloat16(), "input_scale": one},
        oracles.ct_dequantize(codes, one.bfloat16(), strategy="tensor"), arguments(8, "tensor", **f8))
    ragged = float8(weights(24, 40) * 100)  # blocks of 16 x 32: the last ones are short
    scale = torch.rand(2, 2) / 100
    add("f8block", "float-quantized", arguments(8, "block", block_structure=[16, 32], **f8),
        {"weight": ragged, "weight_scale": scale},
        oracles.ct_dequantize(ragged, scale, strategy="block", block_structure=[16, 32]),
        arguments(8, "group", group_size=128, dynamic=True, **f8))
    column = float8(weights(24, 30) * 100)  # a column of blocks, which shapes alone take for something else
    scale = torch.rand(2, 1) / 100
    add("f8column", "float-quantized", arguments(8, "block", block_structure=[16, 32], **f8),
        {"weight": column, "weight_scale": scale},
        oracles.ct_dequantize(column, scale, strategy="block", block_structure=[16, 32]))

    values = fp4.kE2M1ToFloat[torch.randint(0, 8, (OUT, IN))] * (1 - 2.0 * torch.randint(0, 2, (OUT, IN)))
    four = fp4.pack_fp4_to_uint8(values)
    unpacked = fp4.unpack_fp4_from_uint8(four, OUT, IN, torch.float32)
    scale, whole = float8(torch.rand(OUT, IN // 16) * 400 + 1), torch.tensor([1234.5])
    add("nvfp4", "nvfp4-pack-quantized", arguments(4, "tensor_group", group_size=16, **f8),
        {"weight_packed": four, "weight_scale": scale, "weight_global_scale": whole, "input_global_scale": whole},
        oracles.ct_dequantize(unpacked, scale, strategy="tensor_group", group_size=16, global_scale=whole),
        arguments(4, "tensor_group", group_size=16, dynamic="local", **f8))
    exponents = torch.randint(100, 130, (OUT, IN // 32), dtype=torch.uint8)
    add("mxfp4", "mxfp4-pack-quantized", arguments(4, "group", group_size=32, **f8),
        {"weight_packed": four, "weight_scale": exponents},
        oracles.ct_dequantize(unpacked, mx.decompress_mx_scale(exponents), strategy="group", group_size=32))
    add("mxfp8", "mxfp8-quantized", arguments(8, "group", group_size=32, **f8),
        {"weight": codes, "weight_scale": exponents},
        oracles.ct_dequantize(codes, mx.decompress_mx_scale(exponents), strategy="group", group_size=32))
    save("compressed-bytes", compressed(groups, "mixed-precision"), tensors, expected)


def four_bits(weight, kind, size, nested):
    """As bitsandbytes' default backend packs and unpacks: nearest code, the first of a pair high."""
    table = oracles.bnb_tables._NF4_QUANT_TABLE if kind == "nf4" else oracles.bnb_tables._FP4_QUANT_TABLE
    flat = torch.nn.functional.pad(weight.flatten(), (0, -weight.numel() % size)).reshape(-1, size)
    absmax = flat.abs().amax(1)
    codes = ((flat / absmax[:, None])[..., None] - table).abs().argmin(-1).to(torch.uint8).flatten()[: weight.numel()]
    codes = torch.nn.functional.pad(codes, (0, codes.numel() % 2))
    tensors = {"weight": ((codes[::2] << 4) | codes[1::2]).unsqueeze(1), "weight.quant_map": table}
    state = {"quant_type": kind, "blocksize": size, "dtype": "bfloat16", "shape": list(weight.shape)}
    scales = absmax
    if nested:
        dynamic, offset = oracles.bnb_maps.create_dynamic_map(), absmax.mean()
        blocks = torch.nn.functional.pad(absmax - offset, (0, -absmax.numel() % 256)).reshape(-1, 256)
        largest = blocks.abs().amax(1)
        eight = ((blocks / largest[:, None])[..., None] - dynamic).abs().argmin(-1).to(torch.uint8)
        eight = eight.flatten()[: absmax.numel()]
        tensors |= {"weight.absmax": eight, "weight.nested_absmax": largest, "weight.nested_quant_map": dynamic}
        state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset.item()}
        scales = oracles.bnb._dequantize_blockwise_compute(eight, largest, dynamic, 256, torch.float32) + offset
    else:
        tensors["weight.absmax"] = absmax
    tensors["weight.quant_state.bitsandbytes__" + kind] = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
    return tensors, oracles.bnb._dequantize_4bit_compute(tensors["weight"].flatten(), scales, table, size, weight.shape,
                                                         torch.float32)


def bits_and_bytes():
    for kind in ("nf4", "fp4"):
        torch.manual_seed(7)
        tensors, expected = {}, {}
        for module, shape, nested in (("a.plain", (OUT, IN), False), ("a.nested", (OUT, IN), True),
                                      ("a.ragged", (15, 45), True)):  # blocks go on in the next row
            parts, expected[module + ".weight"] = four_bits(torch.randn(*shape), kind, 64, nested)
            tensors |= {f"{module}.{k}": v for k, v in parts.items()}
        save("bitsandbytes-" + kind, {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False,
                                      "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": True,
                                      "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8",
                                      "llm_int8_skip_modules": None, "llm_int8_threshold": 6.0}, tensors, expected)


def mlx_parts(weight, bits, columns):
    parts = weight.reshape(weight.shape[0], -1, columns)
    low, high = parts.amin(-1), parts.amax(-1)
    scale, bias = ((high - low) / (2**bits - 1)).half(), low.half()
    scale[::3], bias[::3] = -scale[::3], high.half()[::3]  # as its search may end
    wide = [x.float().repeat_interleave(columns, 1) for x in (scale, bias)]
    codes = ((weight - wide[1]) / wide[0]).round().clamp(0, 2**bits - 1)
    packed = oracles.mlx._pack_weight_mlx(codes.int(), bits).view(torch.uint32)
    return {"weight": packed, "scales": scale, "biases": bias}, wide[0] * codes + wide[1]


def mlx():
    torch.manual_seed(8)
    tensors, expected, overrides = {}, {}, {}
    for bits in range(2, 9):
        parts, expected[f"a.int{bits}.weight"] = mlx_parts(torch.randn(OUT, IN), bits, 32 if bits < 6 else 64)
        tensors |= {f"a.int{bits}.{k}": v for k, v in parts.items()}
        if bits != 4:
            overrides[f"a.int{bits}"] = {"bits": bits, "group_size": 32 if bits < 6 else 64}
    settings = {"group_size": 32, "bits": 4, "mode": "affine", **overrides, "a.plain": False}
    save("mlx", settings, tensors, expected, quantization=settings)


if __name__ == "__main__":
    gptq()
    auto_round()
    far_from_zero()
    awq()
    compressed_packed()
    compressed_bytes()
    bits_and_bytes()
    mlx()
