#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden checkpoints mixtral and qwen3-moe beside this file: random weights, computed in float32 with eager
attention by Hugging Face transformers.

    python3 make_experts.py
"""
import json
import os

import torch
from safetensors.torch import save_file
from transformers import MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.mixtral import modeling_mixtral
from transformers.models.qwen3_moe import modeling_qwen3_moe

B, T, NEW = 2, 19, 40
SHARED = dict(vocab_size=96, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              head_dim=16, num_experts_per_tok=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2,
              pad_token_id=0, rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
              tie_word_embeddings=False)


def spread(model):
    """Attention neither flat nor one-hot, routers that decide; as bfloat16 holds it."""
    for name, p in model.named_parameters():
        if "norm" in name:
            p.data = 1 + 0.25 * torch.randn_like(p)
        elif name.endswith("bias"):
            p.data = 0.5 * torch.randn_like(p)
        else:
            p.data = torch.randn_like(p) * (0.3 if "embed" in name else 1.5 / p.shape[-1] ** 0.5)
        p.data = p.data.bfloat16().float()


def greedy(model):
    runs = []
    for length in (5, 14, 26):
        prompt = torch.randint(3, model.config.vocab_size, (1, length))
        ids, lead = prompt, float("inf")
        for _ in range(NEW):
            top = model(ids, use_cache=False).logits[0, -1].topk(2)
            lead = min(lead, (top.values[0] - top.values[1]).item())
            ids = torch.cat([ids, top.indices[:1][None]], 1)
        runs.append({"prompt": prompt[0].tolist(), "tokens": ids[0, length:].tolist(), "least_lead": lead})
    return runs


def make(name, model_class, config, module):
    torch.manual_seed(sum(name.encode()))
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = model_class(config).eval()
    spread(model)
    ids = torch.randint(3, config.vocab_size, (B, T))
    seen, layer_of = {"input_ids": ids}, iter(range(config.num_hidden_layers))
    keep = lambda key: lambda module, args, out: None if key in seen else seen.__setitem__(
        key, out[0] if isinstance(out, tuple) else out)
    model.model.embed_tokens.register_forward_hook(keep("embed"))
    model.model.norm.register_forward_hook(keep("final_norm"))
    for i, layer in enumerate(model.model.layers):
        layer.register_forward_hook(keep(f"layer_out.{i}"))
    eager = module.eager_attention_forward

    def attend(attention, query, key, value, attention_mask, scaling, **options):
        i = next(layer_of, None)
        if i is not None:
            k = key.repeat_interleave(attention.num_key_value_groups, 1)
            logits = query @ k.transpose(2, 3) * scaling + attention_mask
            seen[f"attn_logits.{i}"] = logits.masked_fill(logits < -1e30, -torch.inf)
        return eager(attention, query, key, value, attention_mask, scaling, **options)

    module.eager_attention_forward = attend
    with torch.no_grad():
        seen["logits"] = model(ids, use_cache=False).logits
        runs = greedy(model)
    module.eager_attention_forward = eager
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    model.bfloat16().save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    save_file({key: x.contiguous() for key, x in seen.items()}, os.path.join(folder, "expected.safetensors"))
    with open(os.path.join(folder, "greedy.json"), "w") as file:
        json.dump(runs, file)
        file.write("\n")
    print(name, "leads", [f"{r['least_lead']:.4f}" for r in runs], "logits to", f"{seen['logits'].abs().max():.1f}")


make("mixtral", MixtralForCausalLM, MixtralConfig(**SHARED, intermediate_size=32, num_local_experts=4,
                                                  sliding_window=None), modeling_mixtral)
make("qwen3-moe", Qwen3MoeForCausalLM, Qwen3MoeConfig(**SHARED, intermediate_size=64, moe_intermediate_size=32,
                                                      num_experts=6, norm_topk_prob=False, decoder_sparse_step=1,
                                                      mlp_only_layers=[]), modeling_qwen3_moe)
