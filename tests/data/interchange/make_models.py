# SPDX-License-Identifier: Apache-2.0
"""Makes the llamas beside this file: random weights, codes of them by the functions of make.py, and the logits that
transformers computes from the dequantized weights.

    SOURCES=FOLDER python3 make_models.py        checkouts as oracles.py names them; transformers 5.12.1
"""
import torch
import transformers

import oracles
from make import (arguments, asymmetric, awq_dequantized, awq_layer, compressed, float8, four_bits, gptq_parts, linear_of,
                  mlx_parts, packed, save, symmetric)
from make_scaled import blocks_of, nvfp4_parts
from oracles import fp4

MODEL = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, rms_norm_eps=1e-5,
             tie_word_embeddings=False)


def model_of(name, seed, config, module, everything=False, **keys):
    """module(weight) -> the tensors of its codes, and what they stand for. All projections have codes, and where
    everything has, embeddings and head."""
    def has_codes(key):
        return "_proj" in key or (everything and "norm" not in key)
    torch.manual_seed(seed)
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**MODEL, attn_implementation="eager")).eval()
    tensors = {}
    for key, p in llama.named_parameters():
        p.data = 1 + 0.25 * torch.randn_like(p) if "norm" in key else torch.randn_like(p) * (
            0.3 if "embed" in key else 1.3 / p.shape[-1] ** 0.5)
        p.data = p.data.bfloat16().float()
        if not has_codes(key):
            tensors[key] = p.data.bfloat16()
    with torch.no_grad():
        for key, p in llama.named_parameters():
            if has_codes(key):
                parts, value = module(p.data)
                tensors |= {key.removesuffix("weight") + k: v for k, v in parts.items()}
                p.data = value
        ids = torch.randint(3, MODEL["vocab_size"], (2, 17))
        logits = llama(ids).logits
    save("llama-" + name, config, tensors, {"input_ids": ids, "logits": logits}, model_type="llama",
         architectures=["LlamaForCausalLM"], hidden_act="silu", rope_parameters={"rope_theta": 10000.0,
                                                                                 "rope_type": "default"}, **MODEL, **keys)


def models():
    linear = lambda args, **more: {"group_0": {"targets": ["Linear"], "weights": args, "input_activations": None,
                                               "output_activations": None, **more}}
    model_of("gptq", 11, {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False,
                          "checkpoint_format": "gptq"},
             lambda w: gptq_parts(w, 4, 32, asymmetric, True, True))
    model_of("gptq-named-wrong", 12, {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False,
                                      "sym": True, "checkpoint_format": "gptq"},
             lambda w: gptq_parts(w, 4, 32, symmetric, False, False))

    def awq_module(w):
        layer = awq_layer(w, 32)
        return {k: getattr(layer, k) for k in ("qweight", "qzeros", "scales")}, awq_dequantized(layer)
    model_of("awq", 13, {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"},
             awq_module)

    def auto_round_module(w):
        scale, zero = symmetric(w, 4, 32)
        layer = oracles.AUTO_ROUND["auto_round:auto_gptq"](4, 32, w.shape[1], w.shape[0], False)
        layer.device = "cpu"
        layer.pack(linear_of(w), scale, 8)
        parts = {k: getattr(layer, k).clone() for k in ("qweight", "qzeros", "scales")}
        return parts, oracles.auto_round_dequantized(layer)
    model_of("auto-round", 14, {"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq", "bits": 4,
                                "group_size": 32, "sym": True}, auto_round_module)
    model_of("compressed-int4", 15, compressed(linear(arguments(4, "group", group_size=32, symmetric=False)),
                                               "pack-quantized"), lambda w: packed(w, 4, 32, "0.18.0", False))

    def w8a8(w):
        scale = (w.abs().amax(1, keepdim=True) / 127).bfloat16()
        codes = (w / scale.float()).round().clamp(-128, 127).to(torch.int8)
        return {"weight": codes, "weight_scale": scale}, oracles.ct_dequantize(codes, scale)
    groups = linear(arguments(8, "channel"))
    groups["group_0"]["input_activations"] = arguments(8, "token", dynamic=True)
    model_of("compressed-w8a8", 16, compressed(groups, "int-quantized"), w8a8)

    def fp8(w):
        scale = w.abs().amax(1, keepdim=True) / 448
        codes = float8(w / scale)
        return {"weight": codes, "weight_scale": scale}, oracles.ct_dequantize(codes, scale)
    model_of("compressed-fp8", 17, compressed(linear(arguments(8, "channel", type="float")), "float-quantized"), fp8)

    def nvfp4(w):
        whole = 448 * 6 / w.abs().max().reshape(1)
        scale = float8(w.reshape(w.shape[0], -1, 16).abs().amax(-1) / 6 * whole)
        ratio = w / (scale.float() / whole).repeat_interleave(16, 1).clamp(min=1e-9)
        grid = torch.cat([-fp4.kE2M1ToFloat.flip(0), fp4.kE2M1ToFloat])
        values = grid[(ratio[..., None] - grid).abs().argmin(-1)]
        four = fp4.pack_fp4_to_uint8(values)
        unpacked = fp4.unpack_fp4_from_uint8(four, *w.shape, torch.float32)
        return ({"weight_packed": four, "weight_scale": scale, "weight_global_scale": whole},
                oracles.ct_dequantize(unpacked, scale, strategy="tensor_group", group_size=16, global_scale=whole))
    model_of("nf4", 19, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
             lambda w: four_bits(w, "nf4", 64, True))
    settings = {"group_size": 32, "bits": 4}
    model_of("mlx", 20, settings, lambda w: mlx_parts(w, 4, 32), everything=True, quantization=settings)
    model_of("compressed-nvfp4", 18, compressed(linear(arguments(4, "tensor_group", group_size=16, type="float")),
                                                "nvfp4-pack-quantized"), nvfp4)

    def fp8_blocks(w):
        codes, scale, value = blocks_of(w, 48, 48, torch.bfloat16)
        return {"weight": codes, "weight_scale_inv": scale}, value
    model_of("fp8", 24, {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
                         "weight_block_size": [48, 48]}, fp8_blocks)
    model_of("modelopt-nvfp4", 25, {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"],
                                    "producer": {"name": "modelopt", "version": "0.39.0"}}, nvfp4_parts)


if __name__ == "__main__":
    models()
