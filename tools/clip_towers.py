#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Splits a CLIP or DiffCLIP checkpoint into two folders that Tare reads, one per tower.

usage: clip_towers.py CHECKPOINT NAME [--head-dim 64]

CHECKPOINT is checkpoint_best.pt as the authors of DiffCLIP (hammoudhasan/DiffCLIP) publish it, with differential
attention or their baseline, or a .safetensors file with the same names. The script writes config.json and
model.safetensors into the folders NAME-vision and NAME-text, with the tensor names of transformers'
CLIPVisionModelWithProjection and CLIPTextModelWithProjection.

PyTorch's weights-only loading opens the file and runs no code in it. Other objects that the training stored with the
weights (arguments, paths) are read as names without content.
"""
import argparse
import json
import math
import pathlib
import pickle
import re
import sys

import torch
from safetensors.torch import load_file, save_file


class Nothing:
    """Replaces a class that a checkpoint names and the weights do not need."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        pass


def admitted(names):
    """The classes that a checkpoint names, each as (Nothing, name) instead of the real one."""
    return [(type(name.rsplit(".", 1)[1], (Nothing,), {"__module__": name.rsplit(".", 1)[0]}), name) for name in names]


def read(path):
    if path.suffix == ".safetensors":
        return load_file(path)
    known = ["argparse.Namespace", "pathlib.PosixPath", "pathlib._local.PosixPath"]
    with torch.serialization.safe_globals(admitted(known)):
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            sys.exit(f"{path}: contains more than weights, none of which was run; try saving only its state_dict")
    if not isinstance(loaded, dict):
        sys.exit(f"{path}: got a {type(loaded).__name__}, expected a dictionary with state_dict")
    return {name.removeprefix("module."): t for name, t in loaded.get("state_dict", loaded).items()}


LAYER_NAMES = {
    "norm1": "layer_norm1", "norm2": "layer_norm2", "ln_1": "layer_norm1", "ln_2": "layer_norm2", "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2", "mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2", "attn.proj": "self_attn.out_proj",
    "attn.diff_norm": "self_attn.subln",
    **{f"attn.{p}": f"self_attn.{p}" for p in ("q_proj", "k_proj", "v_proj", "out_proj")},
}


def layer_tensors(name, tensor):
    """One tensor of a layer under Tare's names; splits the fused projections of the baseline."""
    if re.fullmatch(r"attn\.(in_proj_|qkv\.)(weight|bias)", name):
        kind = "weight" if name.endswith("weight") else "bias"
        return {f"self_attn.{p}_proj.{kind}": part.clone() for p, part in zip("qkv", tensor.chunk(3))}
    if re.fullmatch(r"attn\.lambda_[qk][12]", name):
        return {"self_" + name: tensor}
    module, _, kind = name.rpartition(".")
    if module not in LAYER_NAMES:
        sys.exit(f"{name}: not a tensor of a layer of CLIP or DiffCLIP")
    return {f"{LAYER_NAMES[module]}.{kind}": tensor}


def tower(state, layers, prefix, others):
    """Layers matching the pattern `layers`, and `others`: {name: name in the file}."""
    tensors = {ours: state.pop(theirs) for ours, theirs in others.items() if theirs in state}
    for name in list(state):
        if match := re.fullmatch(layers + r"\.(\d+)\.(.*)", name):
            for part, tensor in layer_tensors(match[2], state.pop(name)).items():
                tensors[f"{prefix}.encoder.layers.{match[1]}.{part}"] = tensor
    return tensors


def layer_norm_eps(prefix, differential):
    """torch.nn.LayerNorm's default, but timm's own in the baseline's vision tower: the authors' differential tower
    replaces that norm by torch.nn.LayerNorm, and both text towers have it."""
    return 1e-6 if prefix == "vision_model" and not differential else 1e-5


def shared_config(tensors, prefix, width, head_dim):
    layer = f"{prefix}.encoder.layers.0."
    differential = layer + "self_attn.lambda_q1" in tensors
    if differential:
        head_dim = tensors[layer + "self_attn.lambda_q1"].numel()
    return {
        "model_type": ("diffclip_" if differential else "clip_") + prefix,
        "hidden_size": width,
        "intermediate_size": tensors[layer + "mlp.fc1.weight"].shape[0],
        "num_hidden_layers": 1 + max(int(name.split(".")[3]) for name in tensors if ".layers." in name),
        "num_attention_heads": width // head_dim,
        "layer_norm_eps": layer_norm_eps(prefix, differential),
        **({"lambda_init": 0.8} if differential else {}),
    }


def vision_tower(state, head_dim):
    p, v = "vision_model", "visual."
    tensors = tower(state, r"visual\.blocks", p, {
        f"{p}.embeddings.class_embedding": v + "cls_token",
        f"{p}.embeddings.position_embedding.weight": v + "pos_embed",
        f"{p}.embeddings.patch_embedding.weight": v + "patch_embed.proj.weight",
        f"{p}.embeddings.patch_embedding.bias": v + "patch_embed.proj.bias",
        f"{p}.post_layernorm.weight": v + "norm.weight",
        f"{p}.post_layernorm.bias": v + "norm.bias",
        "visual_projection.weight": "image_projection",
    })
    width, _, patch, _ = tensors[f"{p}.embeddings.patch_embedding.weight"].shape
    tensors["visual_projection.weight"] = tensors["visual_projection.weight"].T
    tensors[f"{p}.embeddings.class_embedding"] = tensors[f"{p}.embeddings.class_embedding"].reshape(width)
    positions = tensors[f"{p}.embeddings.position_embedding.weight"].reshape(-1, width)
    tensors[f"{p}.embeddings.position_embedding.weight"] = positions
    config = shared_config(tensors, p, width, head_dim) | {
        "hidden_act": "gelu",
        "image_size": patch * math.isqrt(positions.shape[0] - 1),
        "patch_size": patch,
        "projection_dim": tensors["visual_projection.weight"].shape[0],
    }
    return config, tensors


def text_tower(state, head_dim):
    p = "text_model"
    tensors = tower(state, r"transformer\.resblocks", p, {
        f"{p}.embeddings.token_embedding.weight": "token_embedding.weight",
        f"{p}.embeddings.position_embedding.weight": "positional_embedding",
        f"{p}.final_layer_norm.weight": "ln_final.weight",
        f"{p}.final_layer_norm.bias": "ln_final.bias",
        "text_projection.weight": "text_projection",
    })
    tensors["text_projection.weight"] = tensors["text_projection.weight"].T
    vocabulary, width = tensors[f"{p}.embeddings.token_embedding.weight"].shape
    config = shared_config(tensors, p, width, head_dim) | {
        "hidden_act": "quick_gelu",
        "vocab_size": vocabulary,
        "max_position_embeddings": tensors[f"{p}.embeddings.position_embedding.weight"].shape[0],
        "projection_dim": tensors["text_projection.weight"].shape[0],
    }
    return config, tensors


def write(folder, config, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors", {"format": "pt"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("name", help="of both folders, before -vision and -text")
    parser.add_argument("--head-dim", type=int, default=64, help="of the baseline, whose tensors do not tell it")
    options = parser.parse_args()
    state = read(options.checkpoint)
    vision, text = vision_tower(state, options.head_dim), text_tower(state, options.head_dim)
    state.pop("logit_scale", None)  # one factor of all cosines, which no rank depends on
    if state:
        sys.exit(f"{options.checkpoint}: {', '.join(sorted(state))}: not a tensor of CLIP or DiffCLIP")
    write(pathlib.Path(options.name + "-vision"), *vision)
    write(pathlib.Path(options.name + "-text"), *text)


if __name__ == "__main__":
    main()
