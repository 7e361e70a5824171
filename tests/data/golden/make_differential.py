#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny checkpoints of differential families that transformers does not have, and what their published formulas give.

Written from the definitions (arXiv 2410.05258 and the authors' modules; their note on V2; Motif's public model and arXiv
2510.06949), in plain PyTorch and float64: what is compared with is the formula, not another implementation of Tare.

usage: make_differential.py FOLDER [MODULE.safetensors...]
FOLDER gets one checkpoint folder a case of CASES. MODULE: outputs of the authors' own attention modules, which the
attention here must reproduce before anything is written.
"""
import json
import math
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

CASES = {
    "diff-v1-mha": dict(model_type="diff_v1", num_attention_heads=4, num_key_value_heads=4, head_dim=8, hidden_size=32,
                        attn_rms_norm_eps=1e-5, seed=1),
    "diff-v1-gqa": dict(model_type="diff_v1", num_attention_heads=8, num_key_value_heads=4, head_dim=8, hidden_size=48,
                        attn_rms_norm_eps=1e-5, tie_word_embeddings=True, dtype="bfloat16", seed=2),
    "diff-v2-gqa": dict(model_type="diff_v2", num_attention_heads=8, num_key_value_heads=2, head_dim=8, hidden_size=40,
                        seed=3),
    "motif": dict(model_type="motif", num_attention_heads=4, num_key_value_heads=4, hidden_size=32,
                  hidden_act="poly_norm", attn_rms_norm_eps=1e-6, tie_word_embeddings=True, seed=4),
    "motif-gda": dict(model_type="motif", num_attention_heads=10, num_key_value_heads=4, num_noise_heads=2, head_dim=8,
                      hidden_size=32, hidden_act="poly_norm", attn_rms_norm_eps=1e-6, dtype="bfloat16", seed=5),
}
LAYERS, FFN, VOCABULARY, TOKENS = 2, 56, 97, 21


def rms(x, eps, weight=None):
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def rotate(x, theta, interleaved):  # [B, T, heads, d]
    d = x.shape[-1]
    angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * theta ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    y = (a * cos - b * sin, b * cos + a * sin)
    return torch.stack(y, -1).flatten(-2) if interleaved else torch.cat(y, -1)


def maps_of(q, k):  # [B, T, heads, d], as many of k: scaled scores and their softmax, [B, heads, T, T]
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    scores = scores.masked_fill(future, -math.inf)
    return scores, scores.softmax(-1)


def lambda_of(w, init):
    return torch.exp((w["lambda_q1"] * w["lambda_k1"]).sum()) - torch.exp((w["lambda_q2"] * w["lambda_k2"]).sum()) + init


def grouped(x, q, k, v, w, c, init):
    """V1 and its grouped form: per noise head a group of r signal heads before it; keys in pairs, values 2 d wide."""
    noise = c.get("num_noise_heads", c["num_attention_heads"] // 2)
    size, pairs = c["num_attention_heads"] // noise, c["num_key_value_heads"] // 2
    B, T, _, d = q.shape
    per = noise // pairs  # groups that share a pair of keys
    keys = k.reshape(B, T, pairs, 2, d).repeat_interleave(per, 2)
    k_of_q = torch.cat([keys[:, :, :, :1].expand(-1, -1, -1, size - 1, -1), keys[:, :, :, 1:]], 3).reshape(q.shape)
    scores, p = maps_of(q, k_of_q)
    p = p.reshape(B, noise, size, T, T)
    difference = p[:, :, :-1] - lambda_of(w, init) * p[:, :, -1:]
    values = v.reshape(B, T, pairs, 2 * d).repeat_interleave(per, 2)
    o = torch.einsum("bgrts,bsgd->btgrd", difference, values)
    o = rms(o, c["attn_rms_norm_eps"], w["subln.weight"]) * (1 - init)
    return scores, o.reshape(B, T, -1) @ (w["out_proj.weight"] if "out_proj.weight" in w else w["o_proj.weight"]).T


def v2(x, q, k, v, w, c):
    B, T, H, _ = q.shape
    group = H // k.shape[2]
    scores, p = maps_of(q, k.repeat_interleave(group, 2))
    o = torch.einsum("bhts,bshd->bthd", p, v.repeat_interleave(group, 2))
    strength = torch.sigmoid(x @ w["lambda_proj.weight"].T)[..., None]
    o = o[:, :, 0::2] - strength * o[:, :, 1::2]
    return scores, o.reshape(B, T, -1) @ w["o_proj.weight"].T


def attention(x, w, c, layer):
    heads = lambda name: (x @ w[name + ".weight"].T).unflatten(-1, (-1, c["head_dim"]))
    q, k = (rotate(heads(n), c["rope_theta"], c["model_type"] != "motif") for n in ("q_proj", "k_proj"))
    v = heads("v_proj")
    if c["model_type"] == "diff_v2":
        return v2(x, q, k, v, w, c)
    depth = layer - 1 if c["model_type"] == "motif" else layer
    return grouped(x, q, k, v, w, c, 0.8 - 0.6 * math.exp(-0.3 * depth))


def activation(x, w):
    if "act_fn.weight" not in w:
        return torch.nn.functional.silu(x)
    cube, square, line = w["act_fn.weight"]
    return cube * rms(x**3, 1e-6) + square * rms(x**2, 1e-6) + line * rms(x, 1e-6) + w["act_fn.bias"]


def part(weights, prefix):
    return {name[len(prefix):]: t for name, t in weights.items() if name.startswith(prefix)}


def run(weights, c, ids):
    out = {"input_ids": ids}
    w = {name: t.double() for name, t in weights.items()}
    x = out["embed"] = w["model.embed_tokens.weight"][ids]
    for i in range(LAYERS):
        layer = part(w, f"model.layers.{i}.")
        normed = rms(x, c["rms_norm_eps"], layer["input_layernorm.weight"])
        out[f"attn_logits.{i}"], delta = attention(normed, part(layer, "self_attn."), c, i)
        x = x + delta
        normed = rms(x, c["rms_norm_eps"], layer["post_attention_layernorm.weight"])
        mlp = part(layer, "mlp.")
        wide = activation(normed @ mlp["gate_proj.weight"].T, mlp) * (normed @ mlp["up_proj.weight"].T)
        x = out[f"layer_out.{i}"] = x + wide @ mlp["down_proj.weight"].T
    out["final_norm"] = rms(x, c["rms_norm_eps"], w["model.norm.weight"])
    head = w["model.embed_tokens.weight" if c.get("tie_word_embeddings") else "lm_head.weight"]
    out["logits"] = out["final_norm"] @ head.T
    return {name: t.contiguous() if t.dtype == torch.int64 else t.float().contiguous() for name, t in out.items()}


def random_weights(c):
    torch.manual_seed(c["seed"])
    E, d, H, G = c["hidden_size"], c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
    noise = c.get("num_noise_heads", H // 2)
    v1 = c["model_type"] != "diff_v2"
    matrix = lambda o, i: torch.randn(o, i) / math.sqrt(i)
    w = {"model.embed_tokens.weight": torch.randn(VOCABULARY, E), "model.norm.weight": 1 + 0.2 * torch.randn(E)}
    if not c.get("tie_word_embeddings"):
        w["lm_head.weight"] = matrix(VOCABULARY, E)
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        w[p + "input_layernorm.weight"] = 1 + 0.2 * torch.randn(E)
        w[p + "post_attention_layernorm.weight"] = 1 + 0.2 * torch.randn(E)
        a = p + "self_attn."
        w[a + "q_proj.weight"], w[a + "k_proj.weight"] = 1.5 * matrix(H * d, E), 1.5 * matrix(G * d, E)
        w[a + "v_proj.weight"] = matrix(G * d, E)
        width = 2 * (H - noise) * d if v1 else H // 2 * d
        w[a + ("out_proj.weight" if c["model_type"] == "diff_v1" else "o_proj.weight")] = matrix(E, width)
        if v1:
            w[a + "subln.weight"] = 1 + 0.2 * torch.randn(2 * d)
            for name in ("q1", "k1", "q2", "k2"):
                w[a + "lambda_" + name] = 0.3 * torch.randn(d)
        else:
            w[a + "lambda_proj.weight"] = matrix(H // 2, E)
        m = p + "mlp."
        w[m + "gate_proj.weight"], w[m + "up_proj.weight"] = matrix(FFN, E), matrix(FFN, E)
        w[m + "down_proj.weight"] = matrix(E, FFN)
        if c["model_type"] == "motif":
            w[m + "act_fn.weight"] = 1 / 3 + 0.1 * torch.randn(3)
            w[m + "act_fn.bias"] = 0.1 * torch.randn(1)
    return w


def write(folder, c):
    c = dict(c)
    seed, dtype = c["seed"], getattr(torch, c.pop("dtype", "float32"))
    config = {key: value for key, value in c.items() if key != "seed"}
    config |= dict(vocab_size=VOCABULARY, intermediate_size=FFN, num_hidden_layers=LAYERS, rms_norm_eps=1e-5,
                   max_position_embeddings=64, rope_theta=10000.0, torch_dtype=str(dtype)[6:])
    config.setdefault("hidden_act", "silu")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    c |= config
    c.setdefault("head_dim", c["hidden_size"] // c["num_attention_heads"])
    weights = {name: t.to(dtype).contiguous() for name, t in random_weights(c | {"seed": seed}).items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    ids = torch.randint(0, VOCABULARY, (2, TOKENS), generator=torch.Generator().manual_seed(seed))
    save_file(run(weights, c, ids), folder / "expected.safetensors")


def check(path):
    """The attention above against the authors' module."""
    with safe_open(path, "pt") as f:
        meta = f.metadata()
    t = {name: value.double() for name, value in load_file(path).items()}
    d = int(meta.get("head_dim", t["q_proj.weight"].shape[1] // int(meta["num_heads"]) // 2))
    c = dict(model_type="diff_v2" if "lambda_proj.weight" in t else "diff_v1", head_dim=d, attn_rms_norm_eps=1e-5,
             rope_theta=float(meta["rope_theta"]), num_attention_heads=2 * int(meta["num_heads"]),
             num_key_value_heads=t["k_proj.weight"].shape[0] // d)
    _, y = attention(t["x"], t, c, int(meta.get("depth", 0)))
    off = ((y - t["y"]).abs().max() / t["y"].abs().max()).item()
    print(f"{path}: off by {off:.1e} of the largest")
    assert off < 2e-6, path


if __name__ == "__main__":
    for module in sys.argv[2:]:
        check(module)
    for name, case in CASES.items():
        write(Path(sys.argv[1]) / name, case)
