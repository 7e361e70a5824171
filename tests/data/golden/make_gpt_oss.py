#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden checkpoints gpt-oss (experts in bfloat16) and gpt-oss-mxfp4 (experts as random blocks of MXFP4)
beside this file: random weights, computed in float32 with eager attention by Hugging Face transformers.

    python3 make_gpt_oss.py
"""
import json
import os

import torch
from safetensors.torch import load_file, save_file
from transformers import GptOssConfig, GptOssForCausalLM
from transformers.models.gpt_oss import modeling_gpt_oss

B, T, NEW = 2, 23, 40
KEYS = dict(vocab_size=96, hidden_size=64, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, num_local_experts=5, num_experts_per_tok=2, sliding_window=7,
            max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0,
            rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "beta_fast": 4.0,
                             "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 16})
LUT = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def blocks_for(experts, rows, columns):
    """Random codes and scales, and the values [experts, rows, columns] that they stand for."""
    codes = torch.randint(0, 256, (experts, rows, columns // 32, 16), dtype=torch.uint8)
    scales = torch.randint(121, 125, (experts, rows, columns // 32), dtype=torch.uint8)
    pairs = torch.stack([LUT[(codes & 15).long()], LUT[(codes >> 4).long()]], -1).reshape(*codes.shape[:3], 32)
    values = pairs * torch.exp2(scales.float() - 127)[..., None]
    return codes, scales, values.reshape(experts, rows, columns)


def spread(model, mxfp4):
    """Attention neither flat nor one-hot, sinks that matter, experts that reach their clamps; as bfloat16 holds it."""
    stored = {}
    for name, p in model.named_parameters():
        if name.endswith(("gate_up_proj", "down_proj")):
            if mxfp4:
                codes, scales, values = blocks_for(p.shape[0], p.shape[2], p.shape[1])
                stored[name + "_blocks"], stored[name + "_scales"] = codes, scales
                p.data = values.transpose(1, 2).contiguous()
                continue
            p.data = torch.randn_like(p) * (2.5 / p.shape[1] ** 0.5)
        elif "norm" in name:
            p.data = 1 + 0.25 * torch.randn_like(p)
        elif name.endswith("sinks"):
            p.data = 1 + 1.5 * torch.randn_like(p)
        elif name.endswith("bias"):
            p.data = 0.5 * torch.randn_like(p)
        else:
            p.data = torch.randn_like(p) * (0.3 if "embed" in name else 1.3 / p.shape[-1] ** 0.5)
        p.data = p.data.bfloat16().float()
    return stored


def greedy(model):
    runs = []
    for length in (5, 14, 26):
        prompt = torch.randint(3, KEYS["vocab_size"], (1, length))
        ids, lead = prompt, float("inf")
        for _ in range(NEW):
            top = model(ids, use_cache=False).logits[0, -1].topk(2)
            lead = min(lead, (top.values[0] - top.values[1]).item())
            ids = torch.cat([ids, top.indices[:1][None]], 1)
        runs.append({"prompt": prompt[0].tolist(), "tokens": ids[0, length:].tolist(), "least_lead": lead})
    return runs


def make(name, mxfp4):
    torch.manual_seed(sum(name.encode()))
    config = GptOssConfig(**KEYS)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = GptOssForCausalLM(config).eval()
    stored = spread(model, mxfp4)
    ids = torch.randint(3, config.vocab_size, (B, T))
    seen, layer_of = {"input_ids": ids}, iter(range(config.num_hidden_layers))
    keep = lambda key: lambda module, args, out: None if key in seen else seen.__setitem__(
        key, out[0] if isinstance(out, tuple) else out)
    model.model.embed_tokens.register_forward_hook(keep("embed"))
    model.model.norm.register_forward_hook(keep("final_norm"))
    largest = []
    for i, layer in enumerate(model.model.layers):
        layer.register_forward_hook(keep(f"layer_out.{i}"))
        layer.mlp.experts.register_forward_hook(
            lambda m, args, out: largest.append((args[0] @ m.gate_up_proj[0] + m.gate_up_proj_bias[0]).abs().max()))
    eager = modeling_gpt_oss.eager_attention_forward

    def attend(module, query, key, value, attention_mask, scaling, **options):
        out, probs = eager(module, query, key, value, attention_mask, scaling, **options)
        k = key.repeat_interleave(module.num_key_value_groups, 1)
        logits = query @ k.transpose(2, 3) * scaling + attention_mask
        i = next(layer_of, None)
        if i is not None:
            seen[f"attn_logits.{i}"] = logits.masked_fill(logits < -1e30, -torch.inf)
            seen[f"probs.{i}"] = probs
        return out, probs

    modeling_gpt_oss.eager_attention_forward = attend
    with torch.no_grad():
        seen["logits"] = model(ids, use_cache=False).logits
        runs = greedy(model)
    modeling_gpt_oss.eager_attention_forward = eager
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    model.bfloat16().save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    if mxfp4:
        path = os.path.join(folder, "model.safetensors")
        tensors = {key: x for key, x in load_file(path).items() if not key.endswith(("gate_up_proj", "down_proj"))}
        save_file({**tensors, **stored}, path, metadata={"format": "pt"})
        path = os.path.join(folder, "config.json")
        with open(path) as file:
            saved = json.load(file)
        saved["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
        with open(path, "w") as file:
            json.dump(saved, file, indent=2)
            file.write("\n")
    save_file({key: x.contiguous() for key, x in seen.items()}, os.path.join(folder, "expected.safetensors"))
    with open(os.path.join(folder, "greedy.json"), "w") as file:
        json.dump(runs, file)
        file.write("\n")
    sink = 1 - torch.stack([seen[f"probs.{i}"].sum(-1).mean() for i in range(config.num_hidden_layers)])
    print(name, "sinks take", [f"{x:.2f}" for x in sink], "leads", [f"{r['least_lead']:.4f}" for r in runs],
          "largest gate or up", f"{max(largest):.1f}", "logits to", f"{seen['logits'].abs().max():.1f}")


make("gpt-oss", mxfp4=False)
make("gpt-oss-mxfp4", mxfp4=True)
