#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint of a public model's shape with random bf16 weights, and ids.safetensors beside them, for
measurements of time and memory (docs/results/large-models.md), a tensor at a time. Needs numpy.

    python3 tools/results/random_checkpoint.py SHAPE FOLDER [LAYERS]

SHAPE: diffllama-1.2b, qwen3-3b, llama-7b or phi4flash-3.8b; LAYERS: instead of all. With the embedded pair's
tokenizer: diffllama-14m, for long contexts, and llama-57m, the shape of `tare bench forward`, for other programs'
benches. Of the trained pairs (docs/guides/pairs.md): wee, dwee, mamba2, diffmamba2, vanilla, softpick, mlx-vanilla,
mlx-diff.
"""
import json
import math
import os
import shutil
import sys

import numpy as np

from pair_shapes import PAIRS, pair_tensors

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
    "phi4flash-3.8b": dict(model_type="phi4flash", architectures=["Phi4FlashForCausalLM"], hidden_size=2560,
                           intermediate_size=10240, num_hidden_layers=32, num_attention_heads=40,
                           num_key_value_heads=20, vocab_size=200064, mb_per_layer=2, sliding_window=512,
                           layer_norm_eps=1e-5, tie_word_embeddings=True),
    "diffllama-14m": dict(model_type="diffllama", architectures=["DiffLlamaForCausalLM"], hidden_size=512,
                          intermediate_size=1376, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
                          vocab_size=2048, lambda_std_dev=0.1, tie_word_embeddings=False),
    "llama-57m": dict(model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=1024, intermediate_size=2752,
                      num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=16, vocab_size=2048,
                      tie_word_embeddings=False),
}


def scan(at, hidden, channels, rank, states=16, taps=4):
    """A Mamba's tensors."""
    for name, out, inner in (("in_proj", 2 * channels, hidden), ("x_proj", rank + 2 * states, channels),
                             ("dt_proj", channels, rank), ("out_proj", hidden, channels)):
        yield f"{at}{name}.weight", (out, inner), 1 / math.sqrt(inner)
    yield f"{at}dt_proj.bias", (channels,), 1
    yield f"{at}conv1d.weight", (channels, 1, taps), 0.5
    yield f"{at}conv1d.bias", (channels,), 0.1
    yield f"{at}A_log", (channels, states), None
    yield f"{at}D", (channels,), None


def flash_tensors(c):
    """The same of phi4flash: Mamba, attention over windows, one full layer, then memory units and shared keys."""
    hidden, ffn, layers = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
    width, kv = hidden // c["num_attention_heads"], c["num_key_value_heads"]
    yield "model.embed_tokens.weight", (c["vocab_size"], hidden), 1 / math.sqrt(hidden)
    for norm in ["final_layernorm"] + [f"layers.{i}.{n}_layernorm" for i in range(layers)
                                       for n in ("input", "post_attention")]:
        yield f"model.{norm}.weight", (hidden,), None
        yield f"model.{norm}.bias", (hidden,), 0.1
    for i in range(layers):
        at = f"model.layers.{i}.attn."
        if i % 2 == 0 and i <= layers // 2:
            yield from scan(at, hidden, 2 * hidden, hidden // 16)
        elif i % 2 == 0:
            yield f"{at}in_proj.weight", (2 * hidden, hidden), 1 / math.sqrt(hidden)
            yield f"{at}out_proj.weight", (hidden, 2 * hidden), 1 / math.sqrt(2 * hidden)
        else:
            rows = hidden + (2 * kv * width if i <= layers // 2 + 1 else 0)
            for name, out in (("Wqkv", rows), ("out_proj", hidden)):
                yield f"{at}{name}.weight", (out, hidden), 1 / math.sqrt(hidden)
                yield f"{at}{name}.bias", (out,), 0.1
            for name in ("q1", "k1", "q2", "k2"):
                yield f"{at}inner_cross_attn.lambda_{name}", (width,), 0.1
            yield f"{at}inner_cross_attn.subln.weight", (2 * width,), None
        yield f"model.layers.{i}.mlp.fc1.weight", (2 * ffn, hidden), 1 / math.sqrt(hidden)
        yield f"model.layers.{i}.mlp.fc2.weight", (hidden, ffn), 1 / math.sqrt(ffn)


def tensors(c):
    """(name, shape, deviation): of norms about 1."""
    if c["model_type"] == "phi4flash":
        yield from flash_tensors(c)
        return
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


def weights(of_tensors):
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

    return [(name, "BF16", shape, parts(shape, deviation)) for name, shape, deviation in of_tensors]


def here(path):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), path)


def own_config(config):
    """With the keys that the shapes above share."""
    config = config | dict(hidden_act="silu", max_position_embeddings=131072, torch_dtype="bfloat16", mlp_bias=False)
    if config["model_type"] == "phi4flash":
        return config
    return config | dict(rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=False)


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in SHAPES | PAIRS:
        sys.exit(__doc__)
    shape, folder = sys.argv[1:3]
    config = (SHAPES | PAIRS)[shape]
    if len(sys.argv) == 4:
        config = config | dict(num_hidden_layers=int(sys.argv[3]))
    if shape in SHAPES:
        config = own_config(config)
    os.makedirs(folder)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file, indent=1)
    write(f"{folder}/model.safetensors", weights(tensors(config) if shape in SHAPES else pair_tensors(shape)))
    if shape.startswith("mlx-"):
        shutil.copy(here(f"../../docs/examples/diff-mlx/{shape[4:]}/tensor-names.json"), folder)
    if config.get("vocab_size") == 2048:
        shutil.copy(here("../../experiments/pair/novels-standard/tokenizer.model"), folder)
    if "vocab_size" in config:
        ids = np.random.default_rng(2).zipf(1.2, 4 * 32768) % config["vocab_size"]  # 64 rows of 2,048
        write(f"{folder}/ids.safetensors", [("input_ids", "I32", (64, 2048), [ids.astype(np.int32).tobytes()])])


main()
