#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint of a public model's shape with random bf16 weights, and ids.safetensors beside them, for
measurements of time and memory (CHECKPOINTS.md), a tensor at a time. Needs numpy.

    python3 results/random_checkpoint.py SHAPE FOLDER [LAYERS]

SHAPE: diffllama-1.2b, qwen3-3b or llama-7b; LAYERS: instead of all. With the tokenizer of the embedded pair:
diffllama-14m, for long contexts, and llama-57m, the shape of `tare bench forward`, for other programs' benches.
"""
import json
import math
import os
import shutil
import sys

import numpy as np

SHAPES = {
    "diffllama-1.2b": dict(model_type="diffllama", architectures=["DiffLlamaForCausalLM"], hidden_size=2048,
                           intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=32,
                           vocab_size=32000, lambda_std_dev=0.1, tie_word_embeddings=False),
    "qwen3-3b": dict(model_type="qwen3", architectures=["Qwen3ForCausalLM"], hidden_size=2560, intermediate_size=9728,
                     num_hidden_layers=28, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
                     vocab_size=151936, tie_word_embeddings=True),
    "llama-7b": dict(model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=4096, intermediate_size=11008,
                     num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32, vocab_size=32000,
                     tie_word_embeddings=False),
    "diffllama-14m": dict(model_type="diffllama", architectures=["DiffLlamaForCausalLM"], hidden_size=512,
                          intermediate_size=1376, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
                          vocab_size=2048, lambda_std_dev=0.1, tie_word_embeddings=False),
    "llama-57m": dict(model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=1024, intermediate_size=2752,
                      num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=16, vocab_size=2048,
                      tie_word_embeddings=False),
}


def tensors(c):
    """(name, shape, deviation): of norms about 1."""
    hidden, ffn, heads, kv = (c[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads",
                                             "num_key_value_heads"))
    width = c.get("head_dim", hidden // heads)
    yield "model.embed_tokens.weight", (c["vocab_size"], hidden), 1 / math.sqrt(hidden)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], hidden), 1 / math.sqrt(hidden)
    yield "model.norm.weight", (hidden,), None
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}{norm}.weight", (hidden,), None
        for name, out, inner in (("q", heads * width, hidden), ("k", kv * width, hidden), ("v", kv * width, hidden),
                                 ("o", hidden, heads * width)):
            yield f"{at}self_attn.{name}_proj.weight", (out, inner), 1 / math.sqrt(inner)
        if c["model_type"] == "diffllama":
            for name in ("q1", "k1", "q2", "k2"):
                yield f"{at}self_attn.lambda_{name}", (width,), 0.1
        if c["model_type"] == "qwen3":
            for name in ("q", "k"):
                yield f"{at}self_attn.{name}_norm.weight", (width,), None
        for name, out, inner in (("gate", ffn, hidden), ("up", ffn, hidden), ("down", hidden, ffn)):
            yield f"{at}mlp.{name}_proj.weight", (out, inner), 1 / math.sqrt(inner)


def write(path, all_tensors):
    """all_tensors: (name, dtype, shape, parts) with the bytes in parts."""
    header, end = {}, 0
    for name, dtype, shape, _ in all_tensors:
        size = math.prod(shape) * {"BF16": 2, "I32": 4}[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, _, _, parts in all_tensors:
            for part in parts:
                file.write(part)


def weights(c):
    random, part = np.random.default_rng(1), 1 << 22
    normal = random.standard_normal(2 * part, dtype=np.float32)

    def parts(shape, deviation):
        for begin in range(0, math.prod(shape), part):
            count = min(part, math.prod(shape) - begin)
            first = int(random.integers(part))  # of a pool: making each number anew takes minutes
            values = normal[first : first + count] * np.float32(deviation or 0.1)
            if deviation is None:
                values = values + np.float32(1)
            yield (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()

    return [(name, "BF16", shape, parts(shape, deviation)) for name, shape, deviation in tensors(c)]


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in SHAPES:
        sys.exit(__doc__)
    config, folder = SHAPES[sys.argv[1]], sys.argv[2]
    if len(sys.argv) == 4:
        config = config | dict(num_hidden_layers=int(sys.argv[3]))
    os.makedirs(folder)
    config = config | dict(hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=131072,
                           torch_dtype="bfloat16", attention_bias=False, mlp_bias=False)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file, indent=1)
    write(f"{folder}/model.safetensors", weights(config))
    if config["vocab_size"] == 2048:
        pair = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../experiments/pair/novels-standard")
        shutil.copy(f"{pair}/tokenizer.model", folder)
    ids = np.random.default_rng(2).zipf(1.2, 4 * 32768) % config["vocab_size"]  # 64 rows of 2,048
    write(f"{folder}/ids.safetensors", [("input_ids", "I32", (64, 2048), [ids.astype(np.int32).tobytes()])])


main()
