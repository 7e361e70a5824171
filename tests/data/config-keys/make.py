# SPDX-License-Identifier: Apache-2.0
"""Configurations whose keys are spelled, left out or changed, with the loss that transformers computes of each.

python3 make.py [FOLDER]   with torch and transformers 5.12.1; writes cases.json there

A family has one tiny model in float32, whose weights follow from their names (values()). A case is its config.json with
`set` merged in and without the keys of `drop`; `nll` is the mean loss of the rows of `ids`, in float64 with eager
attention, null where transformers fails or makes up weights that are not in the file. A variant of a family, with
biases or layers without experts, has some of the cases.
"""
import copy, json, os, sys, tempfile, zlib

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, logging
from transformers.activations import ACT2CLS

logging.set_verbosity_error()
ROOT = sys.argv[1] if len(sys.argv) > 1 else "."
SMALL = dict(vocab_size=48, hidden_size=32, intermediate_size=16, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=48, rms_norm_eps=1e-6, bos_token_id=1,
             eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
EXPERTS = dict(num_local_experts=4, num_experts_per_tok=2)
FAMILIES = {
    "llama": {}, "diffllama": {}, "qwen2": {}, "qwen3": {}, "mistral": dict(sliding_window=None),
    "ministral": dict(sliding_window=7), "olmo2": {}, "olmo3": dict(sliding_window=7),
    "gemma3_text": dict(sliding_window=7, tie_word_embeddings=True, query_pre_attn_scalar=8, num_hidden_layers=6),
    "smollm3": {}, "granite": {}, "phi3": {}, "gpt_oss": dict(EXPERTS, sliding_window=7), "mixtral": dict(EXPERTS),
    "qwen3_moe": dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
}
BIASES = dict(attention_bias=True, mlp_bias=True, num_hidden_layers=2)
VARIANTS = {f"{family}_biases": (family, BIASES) for family in
            ("llama", "diffllama", "qwen3", "olmo2", "gemma3_text", "smollm3", "granite", "qwen3_moe")}
VARIANTS |= {
    "gpt_oss_no_biases": ("gpt_oss", dict(attention_bias=False, num_hidden_layers=2)),
    "qwen3_moe_dense": ("qwen3_moe", dict(mlp_only_layers=[1], decoder_sparse_step=2, intermediate_size=24)),
}
OF_VARIANTS = "as saved", "without rotary keys", "relu2", "sparse step", "dense layers", "is_causal false"


def dropped(drop):
    """None: nothing; else these keys, and those with which transformers 5 writes what older keys say."""
    newer = ["rope_parameters", "layer_types", "_sliding_window_pattern"]
    return [] if drop is None else newer + drop


def rope(**parameters):
    return {"rope_scaling": parameters}


YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=12)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=12)
LISTS = dict(short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.0, 2.0, 3.0, 4.0])
# name: what is set, and what is dropped()
CASES = {
    "as saved": ({}, None),
    "without rotary keys": ({}, []),
    "without rms_norm_eps": ({}, ["rms_norm_eps"]),
    "without tie_word_embeddings": ({}, ["tie_word_embeddings"]),
    "without max_position_embeddings": (rope(rope_type="yarn", factor=4.0), ["max_position_embeddings"]),
    "theta": ({"rope_theta": 500.0}, []),
    "linear": (rope(rope_type="linear", factor=2.5) | {"rope_theta": 500.0}, []),
    "linear by type": (rope(type="linear", factor=2.5), []),
    "linear, theta inside and outside": (rope(rope_type="linear", factor=2.5, rope_theta=700.0) | {"rope_theta": 500.0}, []),
    "dynamic": (rope(rope_type="dynamic", factor=2.0), []),
    "yarn": (rope(**YARN), []),
    "yarn without original": (rope(rope_type="yarn", factor=4.0), []),
    "yarn, original outside": (rope(rope_type="yarn", factor=4.0) | {"original_max_position_embeddings": 12}, []),
    "yarn, original in both": (rope(**YARN) | {"original_max_position_embeddings": 20}, []),
    "yarn, factor null": (rope(**(YARN | {"factor": None})), []),
    "yarn, mscale": (rope(**YARN, mscale=0.7, mscale_all_dim=1.2), []),
    "yarn, mscale alone": (rope(**YARN, mscale=0.7), []),
    "yarn, mscale_all_dim 0": (rope(**YARN, mscale=1.0, mscale_all_dim=0.0), []),
    "yarn, mscale null": (rope(**YARN, mscale=None, mscale_all_dim=1.0), []),
    "yarn, betas": (rope(**YARN, beta_fast=4, beta_slow=0.5), []),
    "yarn, betas 0": (rope(**YARN, beta_fast=0, beta_slow=0), []),
    "yarn, truncate": (rope(**YARN, truncate=False), []),
    "yarn, attention_factor": (rope(**YARN, attention_factor=1.25), []),
    "yarn, attn_factor": (rope(**YARN, attn_factor=1.25), []),
    "yarn, factor below 1": (rope(rope_type="yarn", factor=0.5, original_max_position_embeddings=12), []),
    "llama3": (rope(**LLAMA3), []),
    "llama3 without original": (rope(**{k: v for k, v in LLAMA3.items() if k[0] != "o"}), []),
    "longrope": (rope(**LISTS, rope_type="longrope", original_max_position_embeddings=12), []),
    "longrope, factor": (rope(**LISTS, rope_type="longrope", original_max_position_embeddings=40, factor=3.0), []),
    "su": (rope(**LISTS, type="su", original_max_position_embeddings=40), []),
    "yarn with lists": (rope(**LISTS, type="yarn", factor=2.0, original_max_position_embeddings=40), []),
    "type and rope_type": (rope(rope_type="linear", type="linear", factor=2.5), []),
    "type and rope_type differ": (rope(rope_type="linear", type="yarn", factor=2.5), []),
    "proportional": (rope(rope_type="proportional"), []),
    "mrope": (rope(type="mrope", mrope_section=[1, 1, 2]), []),
    "scaling beside parameters": (rope(**YARN), None),
    "scaling beside parameters, theta outside": (rope(**YARN) | {"rope_theta": 10000.0}, None),
    "scaling beside parameters, other theta": (rope(**YARN) | {"rope_theta": 500.0}, None),
    "scaling beside parameters, linear": (rope(rope_type="linear", factor=8.0), None),
    "scaling equal to parameters": ({"rope_scaling": dict(YARN, rope_theta=500.0), "rope_parameters": dict(YARN, rope_theta=500.0)}, []),
    "scaling other than parameters": ({"rope_scaling": dict(YARN, rope_theta=500.0), "rope_parameters": dict(LLAMA3, rope_theta=500.0)}, []),
    "scaling null": ({"rope_scaling": None}, None),
    "scaling empty": ({"rope_scaling": {}}, None),
    "scaling default beside parameters": ({"rope_scaling": {"rope_type": "default"}, "rope_parameters": dict(YARN, rope_theta=500.0)}, []),
    "parameters empty": ({"rope_parameters": {}, "rope_theta": 500.0}, []),
    "partial_rotary_factor": ({"partial_rotary_factor": 0.5}, []),
    "partial_rotary_factor inside": ({"rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}}, []),
    "partial_rotary_factor, linear": (rope(rope_type="linear", factor=2.0) | {"partial_rotary_factor": 0.5}, []),
    "is_causal false": ({"is_causal": False}, None),
    "is_causal null": ({"is_causal": None}, None),
    "is_causal true": ({"is_causal": True}, None),
    "is_causal false, window": ({"is_causal": False, "sliding_window": 7, "use_sliding_window": True, "max_window_layers": 1}, []),
    "is_causal false, wide window": ({"is_causal": False, "sliding_window": 23, "use_sliding_window": True, "max_window_layers": 1}, []),
    "use_bidirectional_attention": ({"use_bidirectional_attention": True}, None),
    "window": ({"sliding_window": 7}, []),
    "window in use": ({"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 1}, []),
    "window in use, all layers": ({"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 0}, []),
    "window in use without layers": ({"sliding_window": 7, "use_sliding_window": True}, []),
    "window null": ({"sliding_window": None}, []),
    "window not in use": ({"sliding_window": 7, "use_sliding_window": False}, []),
    "layer_types": ({"sliding_window": 7, "use_sliding_window": True, "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"]}, []),
    "layer_types, not in use": ({"sliding_window": 7, "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"]}, []),
    "sliding_window_pattern": ({"sliding_window_pattern": 2}, []),
    "no_rope_layers": ({"no_rope_layers": [0, 1, 1, 1]}, []),
    "no_rope_layer_interval": ({"no_rope_layer_interval": 2}, ["no_rope_layers"]),
    "pretraining_tp": ({"pretraining_tp": 2}, None),
    "bos -1": ({"bos_token_id": -1}, None),
    "bos beyond": ({"bos_token_id": 48}, None),
    "bos null": ({"bos_token_id": None}, None),
    "tied": ({"tie_word_embeddings": True}, None),
    "gelu": ({"hidden_act": "gelu", "hidden_activation": "gelu"}, None),
    "swish": ({"hidden_act": "swish"}, None),
    "relu2": ({"hidden_act": "relu2", "hidden_activation": "relu2"}, None),
    "no_rope_layers above 1": ({"no_rope_layers": [2, 0, 1, 3]}, None),
    "without heads' width": ({}, ["head_dim"]),
    "heads' width null": ({"head_dim": None}, None),
    "without key heads": ({}, ["num_key_value_heads"]),
    "attention_bias": ({"attention_bias": True}, None),
    "norm_topk_prob": ({"norm_topk_prob": True}, None),
    "without experts' counts": ({}, ["num_experts_per_tok"]),
    "sparse step": ({"decoder_sparse_step": 2}, None),
    "dense layers": ({"mlp_only_layers": [1]}, None),
    "swiglu_limit": ({"swiglu_limit": 3.0}, None),
    "soft caps": ({"final_logit_softcapping": 3.0, "attn_logit_softcapping": 2.0}, None),
    "final cap": ({"final_logit_softcapping": 3.0}, None),
    "query_pre_attn_scalar": ({"query_pre_attn_scalar": 12}, None),
    "without query_pre_attn_scalar": ({}, ["query_pre_attn_scalar"]),
    "multipliers": ({"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2, "logits_scaling": 2.0}, None),
    "rope_local_base_freq": ({"rope_local_base_freq": 50.0, "rope_theta": 700.0}, []),
    "clip_qkv": ({"clip_qkv": 0.1}, None),
    "residual_in_fp32": ({"residual_in_fp32": True}, None),
    "alpha": (rope(type="linear", factor=2.0, alpha=1000.0), []),
}
# The place where a family applies one is its own, the function is the same: of llama alone.
ACTIVATIONS = {f"activation {name}": ({"hidden_act": name}, None) for name in ACT2CLS if name not in ("prelu", "xielu")}
CASES |= ACTIVATIONS

# Keys as published, sizes reduced (a window of 512 to 7, ids to the vocabulary); untied, where the model's file is.
OLDER = dict(attention_bias=False, attention_dropout=0.0, initializer_range=0.02, rope_scaling=None,
             torch_dtype="bfloat16")
PUBLISHED = {
    "gemma-3-1b-it": ("gemma3_text", dict(
        OLDER, architectures=["Gemma3ForCausalLM"], attn_logit_softcapping=None, bos_token_id=2,
        cache_implementation="hybrid", eos_token_id=[1, 10], final_logit_softcapping=None,
        hidden_activation="gelu_pytorch_tanh", max_position_embeddings=32768, query_pre_attn_scalar=256,
        rms_norm_eps=1e-06, rope_local_base_freq=10000, rope_theta=1000000, sliding_window=7, sliding_window_pattern=6,
        transformers_version="4.52.4", use_cache=True), ["tie_word_embeddings"]),
    "SmolLM3-3B": ("smollm3", dict(
        OLDER, architectures=["SmolLM3ForCausalLM"], layer_types=["full_attention"] * 4, max_position_embeddings=65536,
        max_window_layers=28, mlp_bias=False, no_rope_layer_interval=4, no_rope_layers=[1, 1, 1, 0], pad_token_id=4,
        pretraining_tp=2, rms_norm_eps=1e-06, rope_theta=5000000.0, sliding_window=None, use_cache=False,
        use_sliding_window=False, transformers_version="4.54.0.dev0"), ["head_dim"]),
    "granite-3.3-8b-instruct": ("granite", dict(
        OLDER, architectures=["GraniteForCausalLM"], attention_multiplier=0.0078125, bos_token_id=0,
        embedding_multiplier=12.0, eos_token_id=0, hidden_act="silu", logits_scaling=16.0,
        max_position_embeddings=131072, mlp_bias=False, residual_multiplier=0.22, rms_norm_eps=1e-05,
        rope_theta=10000000.0, transformers_version="4.49.0", use_cache=True), ["head_dim"]),
}
CASES |= {name: (changed, drop) for name, (_, changed, drop) in PUBLISHED.items()}


def values(name, shape, offset):
    """Uniform in [-0.5, 0.5), from a hash of the name and the place; of norms a quarter, around offset."""
    u = np.arange(np.prod(shape), dtype=np.uint32) + np.uint32(zlib.crc32(name.encode()))
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        u = (u ^ (u >> np.uint32(shift))) * np.uint32(factor)
    x = (u >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)
    return (x * np.float32(0.25) + np.float32(offset) if "norm" in name else x).reshape(shape)


def loss(folder, rows):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                       experts_implementation="eager", output_loading_info=True)
    if set(info["missing_keys"]) - {"lm_head.weight"}:
        raise ValueError(f"missing {info['missing_keys']}")
    model = model.double().eval()
    ids = torch.tensor(rows)
    with torch.no_grad():
        logits = model(ids).logits
    return -torch.log_softmax(logits[:, :-1], -1).gather(-1, ids[:, 1:, None]).mean().item()


def main():
    ids = [[int(x) for x in (np.arange(20) * k + 5) % 45 + 3] for k in (7, 11)]
    families = {}
    for family, (of, changes) in ({name: (name, changes) for name, changes in FAMILIES.items()} | VARIANTS).items():
        with tempfile.TemporaryDirectory() as folder:
            AutoModelForCausalLM.from_config(AutoConfig.for_model(of, **(SMALL | FAMILIES[of] | changes))).save_pretrained(folder)
            base = json.load(open(f"{folder}/config.json"))
            shapes = {name: list(t.shape) for name, t in load_file(f"{folder}/model.safetensors").items()}
            offset = 0 if of == "gemma3_text" else 1
            save_file({n: values(n, s, offset) for n, s in shapes.items()}, f"{folder}/model.safetensors", {"format": "pt"})
            found = {}
            for case, (changed, drop) in CASES.items():
                if family in VARIANTS and case not in OF_VARIANTS or case in ACTIVATIONS and family != "llama":
                    continue
                if case in PUBLISHED and family != PUBLISHED[case][0]:
                    continue
                config = {k: v for k, v in base.items() if k not in dropped(drop)} | copy.deepcopy(changed)
                json.dump(config, open(f"{folder}/config.json", "w"))
                try:
                    found[case] = loss(folder, ids)
                except Exception as e:
                    print(family, case, type(e).__name__, str(e)[:100].replace("\n", " "))
                    found[case] = None
        families[family] = {"config": base, "shapes": shapes, "nll": found}
    cases = {name: {"set": changed, "drop": dropped(drop)} for name, (changed, drop) in CASES.items()}
    lines = lambda d: "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in d.items()) + "\n}"
    with open(f"{ROOT}/cases.json", "w") as f:
        f.write('{"ids": ' + json.dumps(ids) + ',\n"cases": ' + lines(cases) + ',\n"families": ' + lines(families) + "}\n")


main()
