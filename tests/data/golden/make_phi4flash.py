#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny checkpoints of Phi-4-mini-flash-reasoning's family (SambaY), and what its published formulas give.

Written from the definitions (arXiv 2507.06607, 2312.00752 and 2410.05258), token by token in plain PyTorch and float64:
what is compared with is the formula, not another implementation of Tare.

usage: make_phi4flash.py FOLDER [CHECKPOINT]
FOLDER gets one checkpoint folder a case of CASES. CHECKPOINT: a folder whose expected.safetensors another implementation
made, which this one must reproduce before anything is written.
"""
import json
import math
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

# Sizes that config.json says, or leaves to the tensors: rank, states, taps and channels of the scan, and biases.
CASES = {
    "phi4flash-biases": dict(
        config=dict(hidden_size=32, num_hidden_layers=12, num_attention_heads=8, num_key_value_heads=2,
                    sliding_window=[None, 5, None, None, None, 3] + 6 * [None], mamba_d_state=5, mamba_d_conv=3,
                    mamba_dt_rank=3, mamba_expand=1, mamba_proj_bias=True, mlp_bias=True, tie_word_embeddings=False,
                    layer_norm_eps=1e-5),
        rank=3, states=5, taps=3, channels=32, conv_bias=True, dtype="bfloat16", shards=2, seed=1),
    "phi4flash-bare": dict(
        config=dict(hidden_size=40, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=4,
                    sliding_window=None, layer_norm_eps=1e-3),
        rank=2, states=6, taps=2, channels=24, conv_bias=False, dtype="float16", shards=1, seed=2),
}
FFN, VOCABULARY, TOKENS, GREEDY = 16, 97, 11, 40


def layer_norm(x, w, name, eps):
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + eps) * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    y = x @ w[name + ".weight"].T
    return y + w[name + ".bias"] if name + ".bias" in w else y


def silu(x):
    return x / (1 + torch.exp(-x))


def mamba(x, w):
    """What out_proj makes, the scan's output before the gate, and the gate before silu."""
    u, z = linear(x, w, "in_proj").chunk(2, -1)
    taps = w["conv1d.weight"].shape[-1]
    mixed = torch.zeros_like(u) + w.get("conv1d.bias", torch.zeros(1, dtype=u.dtype))
    for back in range(min(taps, u.shape[1])):  # the last tap is the present token's
        mixed[:, back:] += u[:, : u.shape[1] - back] * w["conv1d.weight"][:, 0, taps - 1 - back]
    u = silu(mixed)
    rank, states = w["dt_proj.weight"].shape[1], w["A_log"].shape[1]
    r, b, c = linear(u, w, "x_proj").split([rank, states, states], -1)
    delta = torch.log1p(torch.exp(linear(r, w, "dt_proj")))
    a = -torch.exp(w["A_log"])
    state, out = torch.zeros(*u.shape[::2], states, dtype=u.dtype), []
    for t in range(u.shape[1]):
        d = delta[:, t, :, None]
        state = torch.exp(d * a) * state + d * u[:, t, :, None] * b[:, t, None, :]
        out.append((state * c[:, t, None, :]).sum(-1) + w["D"] * u[:, t])
    y = torch.stack(out, 1)
    return linear(y * silu(z), w, "out_proj"), y, z


def attention(q, k, v, w, layer, window):
    """[B, T, heads, d]: neighbouring heads are the two maps, of queries and keys; and neighbouring values one value."""
    B, T, H, d = q.shape
    group = H // k.shape[2]
    scores = torch.full((B, H, T, T), -math.inf, dtype=q.dtype)
    heads = []
    p = w["inner_cross_attn.lambda_q1"], w["inner_cross_attn.lambda_k1"], w["inner_cross_attn.lambda_q2"], w[
        "inner_cross_attn.lambda_k2"]
    init = 0.8 - 0.6 * math.exp(-0.3 * layer)
    strength = math.exp((p[0] * p[1]).sum()) - math.exp((p[2] * p[3]).sum()) + init
    for pair in range(H // 2):
        shared, maps = pair // group, []
        for m in (0, 1):
            s = q[:, :, 2 * pair + m] @ k[:, :, 2 * shared + m].transpose(1, 2) / math.sqrt(d)
            for query in range(T):
                first = max(0, query - window + 1) if window else 0
                scores[:, 2 * pair + m, query, first : query + 1] = s[:, query, first : query + 1]
            maps.append(torch.softmax(scores[:, 2 * pair + m], -1))
        value = torch.cat([v[:, :, 2 * shared], v[:, :, 2 * shared + 1]], -1)
        o = (maps[0] - strength * maps[1]) @ value
        o = o / torch.sqrt(o.pow(2).mean(-1, keepdim=True) + 1e-5) * w["inner_cross_attn.subln.weight"]
        heads.append((1 - init) * o)
    return linear(torch.cat(heads, -1), w, "out_proj"), scores, strength


def run(weights, c, ids):
    out = {"input_ids": ids}
    w = {name: t.double() for name, t in weights.items()}
    n, H, K = c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"]
    d, eps = c["hidden_size"] // H, c["layer_norm_eps"]
    x = out["embed"] = w["model.embed_tokens.weight"][ids]
    memory = keys = values = None
    for i in range(n):
        prefix = f"model.layers.{i}."
        layer = {name[len(prefix):]: t for name, t in w.items() if name.startswith(prefix)}
        mixer = {name[5:]: t for name, t in layer.items() if name.startswith("attn.")}
        h = layer_norm(x, layer, "input_layernorm", eps)
        if i % 2 == 0 and i <= n // 2:
            delta, memory, out[f"gate.{i}"] = mamba(h, mixer)  # the last one's memory stays
            out[f"scan.{i}"] = memory
        elif i % 2 == 0:
            out[f"gate.{i}"] = linear(h, mixer, "in_proj")
            delta = linear(memory * silu(out[f"gate.{i}"]), mixer, "out_proj")
        else:
            rows = linear(h, mixer, "Wqkv").unflatten(-1, (-1, d))
            windows = c["sliding_window"]
            window = windows[i] if isinstance(windows, list) else windows if i < n // 2 else None
            if i <= n // 2 + 1:
                keys, values = rows[:, :, H : H + K], rows[:, :, H + K :]
            delta, out[f"attn_logits.{i}"], strength = attention(rows[:, :, :H], keys, values, mixer, i, window)
            out[f"lambda.{i}"] = torch.tensor([strength])
        x = x + delta
        gate, up = linear(layer_norm(x, layer, "post_attention_layernorm", eps), layer, "mlp.fc1").chunk(2, -1)
        x = out[f"layer_out.{i}"] = x + linear(up * silu(gate), layer, "mlp.fc2")
    out["final_norm"] = layer_norm(x, w, "model.final_layernorm", eps)
    head = w["model.embed_tokens.weight" if c.get("tie_word_embeddings", True) else "lm_head.weight"]
    out["logits"] = out["final_norm"] @ head.T
    return {name: t.contiguous() if t.dtype == torch.int64 else t.float().contiguous() for name, t in out.items()}


def random_weights(case):
    torch.manual_seed(case["seed"])
    c, C, N, R = case["config"], case["channels"], case["states"], case["rank"]
    E, n, H, K = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"]
    d, w = E // H, {}

    def put(name, out, inner, bias, gain=1.0):
        w[name + ".weight"] = gain * torch.randn(out, inner) / math.sqrt(inner)
        if bias:
            w[name + ".bias"] = 0.2 * torch.randn(out)

    def norm(name):
        w[name + ".weight"], w[name + ".bias"] = 1 + 0.3 * torch.randn(E), 0.2 * torch.randn(E)

    w["model.embed_tokens.weight"] = torch.randn(VOCABULARY, E)
    norm("model.final_layernorm")
    if not c.get("tie_word_embeddings", True):
        w["lm_head.weight"] = torch.randn(VOCABULARY, E) / 2
    for i in range(n):
        p = f"model.layers.{i}."
        norm(p + "input_layernorm")
        norm(p + "post_attention_layernorm")
        put(p + "mlp.fc1", 2 * FFN, E, c.get("mlp_bias"))
        put(p + "mlp.fc2", E, FFN, c.get("mlp_bias"))
        a, mixes = p + "attn.", c.get("mamba_proj_bias")
        if i % 2 == 0 and i <= n // 2:
            put(a + "in_proj", 2 * C, E, mixes)
            put(a + "x_proj", R + 2 * N, C, False, 2.0)
            put(a + "dt_proj", C, R, True)
            put(a + "out_proj", E, C, mixes)
            w[a + "conv1d.weight"] = 0.7 * torch.randn(C, 1, case["taps"])
            if case["conv_bias"]:
                w[a + "conv1d.bias"] = 0.3 * torch.randn(C)
            w[a + "A_log"], w[a + "D"] = torch.log(1 + 4 * torch.rand(C, N)), 1 + 0.3 * torch.randn(C)
        elif i % 2 == 0:
            put(a + "in_proj", C, E, False)
            put(a + "out_proj", E, C, False)
        else:
            put(a + "Wqkv", (H + 2 * K if i <= n // 2 + 1 else H) * d, E, True, 1.3)
            put(a + "out_proj", E, E, True)
            for name in ("q1", "k1", "q2", "k2"):
                w[a + "inner_cross_attn.lambda_" + name] = 0.3 * torch.randn(d)
            w[a + "inner_cross_attn.subln.weight"] = 1 + 0.3 * torch.randn(2 * d)
    return w


def greedy(weights, c, seed):
    """Three prompts, 40 tokens after each; least_lead: of the chosen logit over the next, which rounding cannot turn."""
    random, runs = torch.Generator().manual_seed(seed), []
    for length in (4, 9, 17):
        prompt = torch.randint(0, VOCABULARY, (1, length), generator=random)
        ids, lead = prompt, math.inf
        for _ in range(GREEDY):
            top = run(weights, c, ids)["logits"][0, -1].topk(2)
            lead = min(lead, (top.values[0] - top.values[1]).item())
            ids = torch.cat([ids, top.indices[:1][None]], 1)
        assert lead > 1e-3, lead
        runs.append(dict(prompt=prompt[0].tolist(), tokens=ids[0, length:].tolist(), least_lead=lead))
    return runs


def save(folder, weights, shards):
    names = sorted(weights)
    if shards == 1:
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        return
    files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    index = {name: files[i * shards // len(names)] for i, name in enumerate(names)}
    for file in files:
        save_file({name: weights[name] for name in names if index[name] == file}, folder / file, {"format": "pt"})
    size = sum(t.numel() * t.element_size() for t in weights.values())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps(dict(metadata=dict(total_size=size), weight_map=index), indent=1) + "\n")


def write(folder, case):
    c = case["config"] | dict(model_type="phi4flash", architectures=["Phi4FlashForCausalLM"], vocab_size=VOCABULARY,
                              intermediate_size=FFN, hidden_act="silu", mb_per_layer=2, max_position_embeddings=128,
                              bos_token_id=1, torch_dtype=case["dtype"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    weights = {name: t.to(getattr(torch, case["dtype"])).contiguous() for name, t in random_weights(case).items()}
    if case["dtype"] == "bfloat16":  # some files keep these in f32
        weights |= {name: t.float() for name, t in weights.items() if name.endswith(("A_log", ".D")) or "lambda" in name}
    save(folder, weights, case["shards"])
    ids = torch.randint(0, VOCABULARY, (2, TOKENS), generator=torch.Generator().manual_seed(case["seed"]))
    save_file(run(weights, c, ids), folder / "expected.safetensors")
    (folder / "greedy.json").write_text(json.dumps(greedy(weights, c, case["seed"])) + "\n")


def check(folder):
    """All of this against what another implementation made."""
    c = json.loads((folder / "config.json").read_text())
    expected = load_file(folder / "expected.safetensors")
    actual = run(load_file(folder / "model.safetensors"), c, expected["input_ids"])
    assert actual.keys() == expected.keys(), actual.keys() ^ expected.keys()
    for name, want in expected.items():
        got, seen = actual[name], torch.isfinite(want.double())
        assert torch.equal(seen, torch.isfinite(got.double())), name
        off = ((got - want)[seen].abs().max() / want[seen].abs().max()).item()
        assert off < 1e-5, (name, off)
    print(f"{folder}: {len(expected)} tensors agree")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        check(Path(sys.argv[2]))
    for name, case in CASES.items():
        write(Path(sys.argv[1]) / name, case)
