#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint of gpt-oss-20b's shape with random weights, experts in MXFP4, for measurements of time and memory
(docs/results/large-models.md): 13.8 GB with all layers, a tensor at a time. Needs numpy.

    python3 results/random_gpt_oss.py FOLDER [LAYERS]
"""
import json
import math
import os
import sys

import numpy as np

E, I, HEADS, KV, D, EXPERTS, VOCABULARY = 2880, 2880, 64, 8, 64, 32, 201088


def tensors(layers):
    """(name, type, shape, deviation or mean): of U8 the range of bytes."""
    yield "model.embed_tokens.weight", "BF16", (VOCABULARY, E), 1 / math.sqrt(E)
    yield "lm_head.weight", "BF16", (VOCABULARY, E), 1 / math.sqrt(E)
    yield "model.norm.weight", "BF16", (E,), 0.1
    for i in range(layers):
        at = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}{norm}.weight", "BF16", (E,), 0.1
        for name, out, inner in (("q", HEADS * D, E), ("k", KV * D, E), ("v", KV * D, E), ("o", E, HEADS * D)):
            yield f"{at}self_attn.{name}_proj.weight", "BF16", (out, inner), 1 / math.sqrt(inner)
            yield f"{at}self_attn.{name}_proj.bias", "BF16", (out,), 0.1
        yield f"{at}self_attn.sinks", "BF16", (HEADS,), 1
        yield f"{at}mlp.router.weight", "BF16", (EXPERTS, E), 1 / math.sqrt(E)
        yield f"{at}mlp.router.bias", "BF16", (EXPERTS,), 0.1
        for name, out in (("gate_up", 2 * I), ("down", E)):
            at_experts = f"{at}mlp.experts.{name}_proj"
            yield at_experts + "_blocks", "U8", (EXPERTS, out, E // 32, 16), (0, 256)
            yield at_experts + "_scales", "U8", (EXPERTS, out, E // 32), (117, 121)  # values of about 1 / sqrt(E)
            yield at_experts + "_bias", "BF16", (EXPERTS, out), 0.1


def write(path, layers):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, _ in tensors(layers):
        size = math.prod(shape) * (2 if dtype == "BF16" else 1)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random, part = np.random.default_rng(1), 1 << 22
    normal = random.standard_normal(2 * part, dtype=np.float32)
    codes = random.integers(0, 256, 2 * part, dtype=np.uint8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, dtype, shape, how in tensors(layers):
            for begin in range(0, math.prod(shape), part):
                count = min(part, math.prod(shape) - begin)
                first = int(random.integers(part))  # of a pool: making each number anew takes half an hour
                if dtype == "U8":
                    values = codes[first : first + count]
                    if how != (0, 256):
                        values = values % (how[1] - how[0]) + np.uint8(how[0])
                else:
                    x = normal[first : first + count] * np.float32(how) + np.float32("norm" in name)
                    values = (x.view(np.uint32) >> 16).astype(np.uint16)
                file.write(values.tobytes())


def main():
    folder, layers = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 24
    os.makedirs(folder, exist_ok=True)
    config = dict(model_type="gpt_oss", vocab_size=VOCABULARY, hidden_size=E, intermediate_size=I,
                  num_hidden_layers=layers, num_attention_heads=HEADS, num_key_value_heads=KV, head_dim=D,
                  num_local_experts=EXPERTS, num_experts_per_tok=4, sliding_window=128, rms_norm_eps=1e-5,
                  max_position_embeddings=131072, attention_bias=True, tie_word_embeddings=False,
                  hidden_act="silu", rope_theta=150000.0,
                  rope_scaling=dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                    original_max_position_embeddings=4096),
                  quantization_config=dict(quant_method="mxfp4"))
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    write(os.path.join(folder, "model.safetensors"), layers)


main()
