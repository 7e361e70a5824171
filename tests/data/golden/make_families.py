#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden checkpoints of the standard families beside this file: random weights in bfloat16, computed in float32
with eager attention by Hugging Face transformers. The gate of attention's output is added to transformers' Qwen3 as its
authors wrote it (arXiv 2505.06708): per key/value head, the rows of q_proj are that group's queries and then its gates,
and what attention gives is multiplied by sigmoid(gate). OLMo 3's layers with a window have unscaled rotary positions, as
in transformers 4.57 and in the published models' training; transformers 5.12 scales those of all layers. Of the families
in GREEDY, greedy.json has tokens that follow prompts, each from a pass over the whole text.

    python3 make_families.py [NAME...]
"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file
from torch import nn
from transformers.models.olmo3 import modeling_olmo3
from transformers.models.qwen3 import modeling_qwen3

B, T, SHORT, NEW = 2, 17, 9, 40
COMMON = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GATED = dict(COMMON, head_dim=8, qkv_bias=False, use_qk_norm=True)
MODELS = {
    "qwen2": ("Qwen2", dict(COMMON, use_sliding_window=True, sliding_window=7, max_window_layers=1,
                            tie_word_embeddings=True, rope_theta=1000.0)),
    "mistral": ("Mistral", dict(COMMON, head_dim=12, sliding_window=9)),
    "qwen3": ("Qwen3", dict(COMMON, head_dim=16, attention_bias=True, tie_word_embeddings=True)),
    "olmo2": ("Olmo2", dict(COMMON)),
    "gemma3": ("Gemma3", dict(COMMON, head_dim=16, query_pre_attn_scalar=24, sliding_window=6,
                              final_logit_softcapping=5.0,
                              layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                              rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0,
                                                                  "rope_theta": 10000.0},
                                               "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}})),
    "qwen3-gate-head": ("Qwen3", dict(GATED, headwise_attn_output_gate=True)),
    "qwen3-gate-element": ("Qwen3", dict(GATED, elementwise_attn_output_gate=True)),
    "smollm3": ("SmolLM3", dict(COMMON, no_rope_layers=[1, 0, 1], tie_word_embeddings=True,
                                rope_parameters={"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
                                                 "beta_fast": 4.0, "mscale": 0.8, "mscale_all_dim": 0.5,
                                                 "original_max_position_embeddings": 32})),
    "granite": ("Granite", dict(COMMON, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                embedding_multiplier=6.0, residual_multiplier=0.7, attention_multiplier=0.3,
                                logits_scaling=3.0,
                                rope_parameters={"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0,
                                                 "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                 "original_max_position_embeddings": 32})),
    "phi3": ("Phi3", dict(COMMON, original_max_position_embeddings=12,
                          rope_parameters={"rope_type": "longrope", "rope_theta": 100.0, "partial_rotary_factor": 0.75,
                                           "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.2, 2.5, 5.0]})),
    "olmo3": ("Olmo3", dict(COMMON, sliding_window=6,
                            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                            rope_parameters={"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
                                             "original_max_position_embeddings": 16})),
    "ministral": ("Ministral", dict(COMMON, head_dim=12, sliding_window=9,
                                    layer_types=["full_attention", "sliding_attention", "full_attention"],
                                    rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0})),
}
GREEDY = {"smollm3", "granite", "phi3", "olmo3", "ministral"}


class GatedAttention(modeling_qwen3.Qwen3Attention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        headwise = getattr(config, "headwise_attn_output_gate", False)
        elementwise = getattr(config, "elementwise_attn_output_gate", False)
        self.gate_width = self.head_dim if elementwise else 1 if headwise else 0
        rows = config.num_attention_heads * (self.head_dim + self.gate_width)
        self.q_proj = nn.Linear(config.hidden_size, rows, bias=config.attention_bias)

    def forward(self, hidden_states, position_embeddings, attention_mask, **kwargs):
        if self.gate_width == 0:
            return super().forward(hidden_states, position_embeddings, attention_mask, **kwargs)
        b, t, _ = hidden_states.shape
        kv, groups, d = self.config.num_key_value_heads, self.num_key_value_groups, self.head_dim
        q, gate = torch.split(self.q_proj(hidden_states).view(b, t, kv, -1), [d * groups, self.gate_width * groups], -1)
        gate = gate.reshape(b, t, -1, self.gate_width)
        q = self.q_norm(q.reshape(b, t, -1, d)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(b, t, -1, d)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, t, -1, d).transpose(1, 2)
        q, k = modeling_qwen3.apply_rotary_pos_emb(q, k, *position_embeddings)
        out, weights = modeling_qwen3.eager_attention_forward(self, q, k, v, attention_mask, scaling=self.scaling)
        return self.o_proj((out * torch.sigmoid(gate)).reshape(b, t, -1)), weights


modeling_qwen3.Qwen3Attention = GatedAttention


def turn_windows_unscaled(model):
    plain = modeling_olmo3.Olmo3RotaryEmbedding(transformers.Olmo3Config(
        **dict(COMMON, rope_parameters={"rope_type": "default", "rope_theta": model.config.rope_parameters["rope_theta"]})))

    def replace(module, args, options):
        return args, dict(options, position_embeddings=plain(args[0], options["position_ids"]))

    for kind, layer in zip(model.config.layer_types, model.model.layers):
        if kind == "sliding_attention":
            layer.register_forward_pre_hook(replace, with_kwargs=True)


def greedy(model):
    runs = []
    for length in (5, 9, 20):
        ids, lead = torch.randint(3, COMMON["vocab_size"], (1, length)), float("inf")
        for _ in range(NEW):
            top = model(ids, use_cache=False).logits[0, -1].topk(2)
            lead = min(lead, (top.values[0] - top.values[1]).item())
            ids = torch.cat([ids, top.indices[:1][None]], 1)
        runs.append({"prompt": ids[0, :length].tolist(), "tokens": ids[0, length:].tolist(), "least_lead": lead})
    return runs


def spread(model):
    """Attention neither flat nor one-hot, norms and biases that matter; as bfloat16 holds it."""
    for name, p in model.named_parameters():
        if "norm" in name:
            mean = 0.0 if "gemma3" in model.config.model_type else 1.0
            p.data = mean + 0.25 * torch.randn_like(p)
            if "q_norm" in name or "k_norm" in name:
                p.data += 0.4
        elif name.endswith("bias"):
            p.data = 0.5 * torch.randn_like(p)
        else:
            p.data = torch.randn_like(p) * (0.3 if "embed" in name else 1.3 / p.shape[-1] ** 0.5)
        p.data = p.data.bfloat16().float()


def make(name):
    family, keys = MODELS[name]
    config = getattr(transformers, "Gemma3TextConfig" if family == "Gemma3" else family + "Config")(**keys)
    config._attn_implementation = "eager"
    torch.manual_seed(sum(name.encode()))
    model = getattr(transformers, family + "ForCausalLM")(config).eval()
    spread(model)
    ids = torch.randint(3, config.vocab_size, (B, T))
    seen = {"input_ids": ids}
    keep = lambda key: lambda module, args, out: None if key in seen else seen.__setitem__(
        key, out[0] if isinstance(out, tuple) else out)
    if name == "olmo3":
        turn_windows_unscaled(model)
    model.model.layers[0].register_forward_pre_hook(lambda module, args: None if "embed" in seen else
                                                    seen.__setitem__("embed", args[0]))
    model.model.norm.register_forward_hook(keep("final_norm"))
    for i, layer in enumerate(model.model.layers):
        layer.register_forward_hook(keep(f"layer_out.{i}"))
    softmax, logits = nn.functional.softmax, []
    nn.functional.softmax = lambda x, **options: (logits.append(x), softmax(x, **options))[1]
    with torch.no_grad():
        seen["logits"] = model(ids, use_cache=False).logits
        nn.functional.softmax = softmax
        if name == "phi3":  # by the other factors
            seen["logits_short"] = model(ids[:, :SHORT], use_cache=False).logits
        runs = greedy(model) if name in GREEDY else []
    for i, x in enumerate(logits):
        seen[f"attn_logits.{i}"] = x.masked_fill(x < -1e30, -torch.inf)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    model.bfloat16().save_pretrained(folder)
    save_file({key: x.contiguous() for key, x in seen.items()}, os.path.join(folder, "expected.safetensors"))
    p = softmax(logits[0].float(), dim=-1)
    os.remove(os.path.join(folder, "generation_config.json"))
    if runs:
        with open(os.path.join(folder, "greedy.json"), "w") as file:
            json.dump(runs, file)
            file.write("\n")
    print(name, len(logits), "layers; largest share of a key", f"{p[:, :, 8:].amax(-1).mean():.2f}", "logits to",
          f"{seen['logits'].abs().max():.2f}", *[f"lead {run['least_lead']:.4f}" for run in runs])


for model_name in sys.argv[1:] or MODELS:
    make(model_name)
