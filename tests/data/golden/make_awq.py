#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes awq.safetensors in two golden checkpoints: AWQ's search (Lin et al., arXiv 2306.00978), written from its published
definition and computed in float64 on 8 x 50 ids, with the inputs that Hugging Face transformers gives each linear layer.
Weights have four bits with a zero point in groups of 16.

    losses.{layer}.{input} [20]             summed squared error of the outputs of all linear layers with the input, by ratio
    scales.{layer}.{input} [channels]       those of the first ratio with the least loss
    clip.0.v_proj [out, groups]             after scaling, the largest magnitude that each group keeps
    rounded.0.v_proj [out, in]              the weights that result, scaled

    python3 make_awq.py
"""
import os

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

GROUP, LEVELS, GRID = 16, 15, 20
INPUTS = {"q_proj.in": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
          "o_proj.in": ["self_attn.o_proj"],
          "gate_proj.in": ["mlp.gate_proj", "mlp.up_proj"],
          "down_proj.in": ["mlp.down_proj"]}


def rounded(w):
    groups = w.reshape(-1, GROUP)
    low, high = groups.min(1, keepdims=True), groups.max(1, keepdims=True)
    step = np.maximum(high - low, 1e-5) / LEVELS
    zero = np.clip(-np.rint(low / step), 0, LEVELS)
    codes = np.clip(np.rint(groups / step) + zero, 0, LEVELS)
    return ((codes - zero) * step).reshape(w.shape)


def search(weights, x):
    """Losses by ratio, and the factors of the best."""
    mean, losses, factors = np.abs(x).mean(0), [], []
    for step in range(GRID):
        s = np.maximum(mean ** (step / GRID), 1e-4)
        s = s / np.sqrt(s.max() * s.min())
        losses.append(sum((((rounded(w * s) / s - w) @ x.T) ** 2).sum() for w in weights))
        factors.append(s)
    return np.array(losses), factors[int(np.argmin(losses))]


def clip(w, x):
    """For each group the largest magnitude, cut by up to a half, with the least error of what the group adds to outputs."""
    out, count = w.shape[0], w.shape[1] // GROUP
    w, x = w.reshape(out, count, GROUP), x.reshape(-1, count, GROUP)
    most = np.abs(w).max(2, keepdims=True)
    best, least = most.copy(), np.full(most.shape, np.inf)
    for step in range(GRID // 2):
        kept = most * (1 - step / GRID)
        error = rounded(np.clip(w, -kept, kept)) - w
        loss = (np.einsum("tgi,ogi->otg", x, error) ** 2).sum(1)[..., None]
        better = loss < least
        best[better], least[better] = kept[better], loss[better]
    return best[..., 0]


def make(name, inputs):
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    ids = torch.tensor([(i * i * 7 + 3 * i) % 95 + 1 for i in range(400)]).reshape(8, 50)
    seen, tensors = {}, {}
    for layer, block in enumerate(model.model.layers):
        for places in INPUTS.values():
            linear = block.get_submodule(places[0])
            linear.register_forward_pre_hook(lambda _, args, key=(layer, places[0]): seen.__setitem__(key, args[0]))
    with torch.no_grad():
        model(ids)
    for layer, block in enumerate(model.model.layers):
        weights = lambda places: [block.get_submodule(p).weight.detach().numpy().astype(np.float64) for p in places]
        for key in inputs:
            x = seen[layer, INPUTS[key][0]].numpy().astype(np.float64)
            x = x.reshape(-1, x.shape[-1])
            losses, scales = search(weights(INPUTS[key]), x)
            tensors[f"losses.{layer}.{key}"] = losses.astype(np.float32)
            tensors[f"scales.{layer}.{key}"] = scales.astype(np.float32)
            if (layer, key) == (0, "q_proj.in"):
                w = weights(["self_attn.v_proj"])[0] * scales
                kept = clip(w, x / scales)
                bound = np.repeat(kept, GROUP, axis=1)
                tensors["clip.0.v_proj"] = kept.astype(np.float32)
                tensors["rounded.0.v_proj"] = rounded(np.clip(w, -bound, bound)).astype(np.float32)
    save_file(tensors, os.path.join(folder, "awq.safetensors"))
    for key, value in tensors.items():
        if key.startswith("losses"):
            two = np.sort(value)[:2]
            print(name, key, int(np.argmin(value)), value[0], two, two[1] / two[0] - 1)


make("llama-mha", ["q_proj.in", "o_proj.in", "gate_proj.in", "down_proj.in"])
make("diffllama-mha", ["q_proj.in", "gate_proj.in", "down_proj.in"])
