# SPDX-License-Identifier: Apache-2.0
"""Makes the folders fp8-* and modelopt-* beside this file: codes and scales by their definition, and for FP8 in whole
blocks the values that transformers' own dequantization makes of them.

    SOURCES=FOLDER python3 make_scaled.py        as make.py; transformers 5.12.1
"""
import torch
import transformers.integrations.finegrained_fp8

from make import IN, OUT, float8, save, weights


def blocks_of(weight, rows, columns, dtype):
    """E4M3 codes with a scale for each block, the last ones short, and their values by the definition."""
    down, across = -(-weight.shape[0] // rows), -(-weight.shape[1] // columns)
    scale = (torch.rand(down, across) / 100 + 0.001).to(dtype)
    wide = scale.float().repeat_interleave(rows, 0).repeat_interleave(columns, 1)[: weight.shape[0], : weight.shape[1]]
    codes = float8(weight / wide)
    return codes, scale, codes.float() * wide


def fp8():
    """quant_method fp8; where blocks are whole, transformers' own dequantization gives the values."""
    own = transformers.integrations.finegrained_fp8.Fp8Dequantize(None)._dequantize_one
    torch.manual_seed(22)
    tensors, expected = {"a.plain.weight": torch.randn(3, 5).bfloat16()}, {}
    for module, shape, dtype in (("a.whole", (32, 64), torch.bfloat16), ("a.ragged", (24, 40), torch.float32),
                                 ("a.column", (40, 16), torch.float16), ("a.power", (16, 32), torch.float8_e8m0fnu)):
        codes, scale, value = blocks_of(weights(*shape), 16, 32, dtype)
        if shape[0] % 16 == 0 and shape[1] % 32 == 0:
            assert torch.equal(own(codes, scale, torch.float32), value)
        tensors |= {module + ".weight": codes, module + ".weight_scale_inv": scale}
        expected[module + ".weight"] = value
    save("fp8-blocks", {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
                        "weight_block_size": [16, 32], "modules_to_not_convert": ["a.plain", "a.col"]}, tensors, expected)
    for name, scale_name, input_name, shape in (("fp8-static", "weight_scale", "input_scale", ()),
                                                ("fp8-static-inv", "weight_scale_inv", "activation_scale", (1,))):
        tensors, expected = {"a.plain.weight": torch.randn(3, 5).bfloat16(), "a.k.k_scale": torch.tensor(0.5)}, {}
        for module in ("a.q", "a.k"):
            scale = torch.rand(shape) / 100
            codes = float8(weights(OUT, IN) / scale)
            tensors |= {f"{module}.weight": codes, f"{module}.{scale_name}": scale,
                        f"{module}.{input_name}": torch.rand(shape)}
            expected[module + ".weight"] = own(codes, scale, torch.float32)
        config = {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["a.plain"]}
        save(name, config if shape == () else config | {"weight_block_size": None}, tensors, expected)


def nvfp4_parts(weight):
    """As modelopt's NVFP4QTensor: the scale of 16 values in E4M3, times that of the tensor; the first of two is low."""
    whole = weight.abs().max() / (6 * 448)
    scale = float8((weight.reshape(weight.shape[0], -1, 16).abs().amax(-1) / (6 * whole)).clamp(min=2**-9))
    each = (scale.float() * whole).repeat_interleave(16, 1)
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = ((weight / each)[..., None] - table).abs().argmin(-1).to(torch.uint8)
    return {"weight": codes[:, 1::2] << 4 | codes[:, ::2], "weight_scale": scale, "weight_scale_2": whole,
            "input_scale": torch.tensor(0.25)}, table[codes.long()] * each


def model_opt():
    torch.manual_seed(23)
    parts = {"a.four": nvfp4_parts(weights(OUT, IN))}
    scale = torch.tensor(0.0123)
    codes = float8(weights(OUT, IN) * 80)
    parts["a.eight"] = {"weight": codes, "weight_scale": scale, "input_scale": scale}, codes.float() * scale
    rows = torch.rand(OUT) / 100
    parts["a.rows"] = {"weight": codes, "weight_scale": rows}, codes.float() * rows[:, None]
    exponents = torch.randint(100, 130, (OUT, IN // 32), dtype=torch.uint8)
    parts["a.mx"] = ({"weight": codes, "weight_scale": exponents},
                     codes.float() * (exponents.float() - 127).exp2().repeat_interleave(32, 1))
    producer = {"name": "modelopt", "version": "0.33.0"}

    def folder(name, modules, config, beside=None):
        tensors = {"a.plain.weight": torch.randn(3, 5).bfloat16(), "a.k.k_scale": torch.tensor(0.5)}
        for module in modules:
            tensors |= {f"{module}.{k}": v for k, v in parts[module][0].items()}
        save(name, config, tensors, {module + ".weight": parts[module][1] for module in modules}, beside)
    folder("modelopt-nvfp4", ["a.four"], {"producer": producer, "quantization": {
        "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["a.plai*", "lm_head"]}},
           "hf_quant_config.json")
    group = {"dynamic": False, "num_bits": 8, "type": "float"}
    folder("modelopt-fp8", ["a.eight"], {"config_groups": {"group_0": {"input_activations": group, "weights": group}},
                                         "ignore": ["lm_head"], "quant_algo": "FP8", "kv_cache_scheme": group,
                                         "producer": producer})
    layers = {"a.four": ("NVFP4", 16), "a.eight": ("FP8", None), "a.rows": ("FP8_PER_CHANNEL_PER_TOKEN", None),
              "a.mx": ("MXFP8", 32)}
    folder("modelopt-mixed", list(layers), {"producer": producer, "quantization": {
        "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "exclude_modules": [], "quantized_layers": {
            module: {"quant_algo": algorithm} | ({"group_size": size} if size else {})
            for module, (algorithm, size) in layers.items()}}}, "hf_quant_config.json")


if __name__ == "__main__":
    fp8()
    model_opt()
