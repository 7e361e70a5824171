# SPDX-License-Identifier: Apache-2.0
"""Shapes of the trained pairs of docs/guides/pairs.md: configurations, and each tensor's (name, shape, deviation)."""
import math

VIT = dict(num_classes=1000, num_features=256, global_pool="avg", width=256, inner=1280, layers=14, heads=4,
           pretrained_cfg=dict(input_size=[3, 256, 256], interpolation="bicubic", crop_pct=0.95, crop_mode="center",
                               mean=[0.5] * 3, std=[0.5] * 3))
MAMBA = dict(model_type="mamba2", hidden_size=1024, num_hidden_layers=48, num_heads=32, head_dim=64, state_size=128,
             n_groups=1, expand=2, conv_kernel=4, vocab_size=50288, layer_norm_epsilon=1e-5, use_bias=False,
             use_conv_bias=True, hidden_act="silu", tie_word_embeddings=True)
PICK = dict(model_type="transformer", hidden_size=1024, num_hidden_layers=24, num_heads=16, num_kv_heads=None,
            intermediate_size=2816, vocab_size=32000, norm_eps=1e-6, rope_theta=10000.0, max_position_embeddings=4096,
            hidden_act="swish", qkv_bias=False, qk_norm=False, window_size=None, tie_word_embeddings=False)
MLX = dict(dim=768, inner=2048, layers=12, heads=12, vocab_size=100277)  # docs/examples/diff-mlx has the keys

PAIRS = {
    "wee": VIT | dict(architecture="vit_wee_patch16_reg1_gap_256"),
    "dwee": VIT | dict(architecture="vit_dwee_patch16_reg1_gap_256"),
    "mamba2": MAMBA,
    "diffmamba2": MAMBA | dict(diffmamba=True, diffmamba_settings="all"),
    "vanilla": PICK | dict(attn_impl="parallel_attn"),
    "softpick": PICK | dict(attn_impl="parallel_softpick_attn"),
    "mlx-vanilla": MLX,
    "mlx-diff": MLX,
}


def matrix(name, out, inner):
    return name, (out, inner), 1 / math.sqrt(inner)


def lambdas(at, width):
    return [(f"{at}lambda_{name}", (width,), 0.1) for name in ("q1", "k1", "q2", "k2")]


def vit_tensors(c):
    width, inner, classes = c["width"], c["inner"], c["num_classes"]
    maps = "dwee" in c["architecture"]
    yield "reg_token", (1, 1, width), 0.02
    yield "pos_embed", (1, 256, width), 0.02
    yield "patch_embed.proj.weight", (width, 3, 16, 16), 1 / math.sqrt(768)
    yield "patch_embed.proj.bias", (width,), 0.1
    yield matrix("head.weight", classes, width)
    yield "head.bias", (classes,), 0.1
    for name in ["fc_norm"] + [f"blocks.{i}.norm{n}" for i in range(c["layers"]) for n in (1, 2)]:
        yield f"{name}.weight", (width,), None
        yield f"{name}.bias", (width,), 0.1
    for i in range(c["layers"]):
        at = f"blocks.{i}."
        for name, out, columns in (("attn.qkv", 3 * width, width), ("attn.proj", width, width),
                                   ("mlp.fc1", inner, width), ("mlp.fc2", width, inner)):
            yield matrix(f"{at}{name}.weight", out, columns)
            yield f"{at}{name}.bias", (out,), 0.1
        for n in (1, 2):
            yield f"{at}ls{n}.gamma", (width,), 0.1
        if maps:
            yield from lambdas(f"{at}attn.", width // c["heads"] // 2)
            yield f"{at}attn.sub_norm.weight", (width // c["heads"],), None


def mixer(at, c, inner):
    hidden, heads = c["hidden_size"], c["num_heads"]
    mixed = inner + 2 * c["n_groups"] * c["state_size"]
    yield matrix(f"{at}in_proj.weight", inner + mixed + heads, hidden)
    yield matrix(f"{at}out_proj.weight", hidden, inner)
    yield f"{at}conv1d.weight", (mixed, 1, c["conv_kernel"]), 0.5
    yield f"{at}conv1d.bias", (mixed,), 0.1
    yield f"{at}norm.weight", (inner,), None
    yield f"{at}dt_bias", (heads,), 1
    yield f"{at}A_log", (heads,), None
    yield f"{at}D", (heads,), None


def mamba_tensors(c):
    hidden = c["hidden_size"]
    yield matrix("backbone.embeddings.weight", c["vocab_size"], hidden)
    yield "backbone.norm_f.weight", (hidden,), None
    for i in range(c["num_hidden_layers"]):
        at = f"backbone.layers.{i}."
        yield f"{at}norm.weight", (hidden,), None
        if "diffmamba" in c:
            yield from mixer(f"{at}mixer_1.", c, hidden)
            yield from mixer(f"{at}mixer_2.", c, hidden)
            yield f"{at}lambda_q1", (hidden,), 0.1
            yield f"{at}subln.weight", (hidden,), None
        else:
            yield from mixer(f"{at}mixer.", c, 2 * hidden)


def pick_tensors(c):
    hidden, ffn = c["hidden_size"], c["intermediate_size"]
    for name in ("model.embeddings", "lm_head"):
        yield matrix(f"{name}.weight", c["vocab_size"], hidden)
    yield "model.norm.weight", (hidden,), None
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        for name in ("attn_norm", "mlp_norm"):
            yield f"{at}{name}.weight", (hidden,), None
        for name in ("q", "k", "v", "o"):
            yield matrix(f"{at}attn.{name}_proj.weight", hidden, hidden)
        for name, out, inner in (("gate", ffn, hidden), ("up", ffn, hidden), ("down", hidden, ffn)):
            yield matrix(f"{at}mlp.{name}_proj.weight", out, inner)


def mlx_tensors(c, maps):
    hidden, ffn, width = c["dim"], c["inner"], c["dim"] // c["heads"]
    yield matrix("model.tok_embed.weight", c["vocab_size"], hidden)
    yield "model.final_norm.scale", (hidden,), None
    for i in range(c["layers"]):
        at = f"model.blocks.{i}."
        for name in ("norm_attn", "norm_mlp"):
            yield f"{at}{name}.scale", (hidden,), None
        for name in ("q", "k", "v", "o"):
            yield matrix(f"{at}attn.{name}_proj.weight", hidden, hidden)
        for name, out, inner in (("gate", ffn, hidden), ("up", ffn, hidden), ("down", hidden, ffn)):
            yield matrix(f"{at}mlp.{name}.weight", out, inner)
        if maps:
            yield from lambdas(f"{at}attn.", width)
            yield f"{at}attn.subln.scale", (2 * width,), None


def pair_tensors(shape):
    c = PAIRS[shape]
    if "architecture" in c:
        return vit_tensors(c)
    if shape.startswith("mlx-"):
        return mlx_tensors(c, shape == "mlx-diff")
    return mamba_tensors(c) if c["model_type"] == "mamba2" else pick_tensors(c)
