#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny towers of CLIP as transformers saves them, and what it computes; and DiffCLIP's from the authors' own modules.

usage: make_clip.py FOLDER [DIFFCLIP.safetensors]
FOLDER gets clip-vision and clip-text. DIFFCLIP: weights under the authors' names, `image`, `text`, and what their modules
give (`image_embed`, `text_embed`, `visual.attn_logits.{i}`, `text.attn_logits.{i}`): FOLDER then gets diffclip-vision
and diffclip-text as well.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import (CLIPTextConfig, CLIPTextModelWithProjection, CLIPVisionConfig, CLIPVisionModelWithProjection)

SIZES = dict(hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, projection_dim=20)


def spread(model, seed):
    """Weights far enough from zero that attention is neither flat nor one-hot."""
    torch.manual_seed(seed)
    for name, p in model.named_parameters():
        mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        p.data = mean + torch.randn_like(p) * (0.2 if p.dim() < 2 else 1.4 / p[0].numel() ** 0.5)
    return model.eval()


def vision(folder):
    model = spread(CLIPVisionModelWithProjection(CLIPVisionConfig(image_size=24, patch_size=6, hidden_act="gelu", **SIZES)), 1)
    images = torch.randn(3, 3, 24, 24)
    with torch.no_grad():
        out = model(pixel_values=images, output_hidden_states=True)
    model.save_pretrained(folder)
    expected = {f"layer_out.{i}": h for i, h in enumerate(out.hidden_states[1:])}
    save_file({"images": images, "image_embed": out.image_embeds, **expected}, folder / "expected.safetensors")


def text(folder):
    model = spread(CLIPTextModelWithProjection(CLIPTextConfig(vocab_size=61, max_position_embeddings=12, bos_token_id=59,
                                                              eos_token_id=60, pad_token_id=0, **SIZES)), 2)
    ids = torch.randint(1, 59, (3, 12))
    for row, end in enumerate((11, 7, 4)):
        ids[row, 0], ids[row, end], ids[row, end + 1:] = 59, 60, 0
    with torch.no_grad():
        out = model(input_ids=ids, output_hidden_states=True)
    model.save_pretrained(folder)
    expected = {f"layer_out.{i}": h for i, h in enumerate(out.hidden_states[1:])}
    save_file({"input_ids": ids, "text_embed": out.text_embeds, **expected}, folder / "expected.safetensors")


def diffclip(given, name):
    tensors = load_file(given)
    computed = {n: tensors.pop(n) for n in list(tensors) if n in ("image", "text", "image_embed", "text_embed")
                or ".attn_logits." in n}
    with tempfile.TemporaryDirectory() as temporary:
        save_file(tensors, Path(temporary) / "official.safetensors")
        script = Path(__file__).parents[3] / "tools/clip_towers.py"
        subprocess.run([sys.executable, script, Path(temporary) / "official.safetensors", name], check=True)
    for tower, prefix, names in (("vision", "visual.", {"images": "image", "image_embed": "image_embed"}),
                                 ("text", "text.", {"input_ids": "text", "text_embed": "text_embed"})):
        logits = {n.removeprefix(prefix): t for n, t in computed.items() if n.startswith(prefix + "attn_logits")}
        save_file({**logits, **{ours: computed[theirs] for ours, theirs in names.items()}},
                  Path(f"{name}-{tower}") / "expected.safetensors")


if __name__ == "__main__":
    out = Path(sys.argv[1])
    for make in (vision, text):
        folder = out / f"clip-{make.__name__}"
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)
    if len(sys.argv) > 2:
        diffclip(Path(sys.argv[2]), out / "diffclip")
