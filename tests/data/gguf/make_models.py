# SPDX-License-Identifier: Apache-2.0
"""Makes the files of this folder again:

    python3 make_models.py LLAMA_CPP_CONVERTER_FOLDER [LIBGGML_BASE]

The folder is the one that holds llama.cpp's package `conversion`. Needs gguf, numpy, safetensors, torch, transformers
and llama-quantize. Weights are random; README.md says what each file is.
"""
import ctypes
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import gguf
import gguf.quants
import numpy as np
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
SEED = 11
TYPES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "MXFP4"]
# Bytes of a block at which f16 numbers are: anything but infinities and NaNs.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "MXFP4": []}

COMMON = dict(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
              vocab_size=96, max_position_embeddings=128, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
# Each of the two sequences of 19 ids is longer than phi3's original positions.
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                short_factor=[1.0, 1.1, 1.25], long_factor=[1.0, 2.0, 4.5], original_max_position_embeddings=16)
GPT_OSS_YARN = dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                    original_max_position_embeddings=32)
MODELS = {
    "llama": (transformers.LlamaConfig, dict(attention_bias=True, mlp_bias=True, head_dim=16, rope_parameters=LLAMA3,
                                             tie_word_embeddings=True)),
    "llama-linear": (transformers.LlamaConfig, dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0,
                                                                         factor=2.0), tie_word_embeddings=False)),
    "qwen2": (transformers.Qwen2Config, dict(tie_word_embeddings=True)),
    "qwen3": (transformers.Qwen3Config, dict(head_dim=16, tie_word_embeddings=False)),
    "olmo2": (transformers.Olmo2Config, dict(tie_word_embeddings=False)),
    "gemma3": (transformers.Gemma3TextConfig, dict(head_dim=16, query_pre_attn_scalar=16, num_hidden_layers=7,
                                                   sliding_window=6, final_logit_softcapping=5.0)),
    "llama-yarn": (transformers.LlamaConfig, dict(rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32))),
    "olmo3": (transformers.Olmo3Config, dict(num_hidden_layers=4, sliding_window=6)),
    "smollm3": (transformers.SmolLM3Config, dict(pad_token_id=0, num_hidden_layers=4, tie_word_embeddings=True)),
    "granite": (transformers.GraniteConfig, dict(embedding_multiplier=6.0, residual_multiplier=0.25,
                                                 attention_multiplier=0.0625, logits_scaling=4.0)),
    "phi3": (transformers.Phi3Config, dict(pad_token_id=0, sliding_window=9, tie_word_embeddings=True,
                                           original_max_position_embeddings=16, rope_parameters=LONGROPE)),
    "mixtral": (transformers.MixtralConfig, dict(num_local_experts=4, num_experts_per_tok=2)),
    "qwen3moe": (transformers.Qwen3MoeConfig, dict(head_dim=16, num_experts=4, num_experts_per_tok=2,
                                                   moe_intermediate_size=64, norm_topk_prob=True)),
    "gpt-oss": (transformers.GptOssConfig, dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2,
                                                sliding_window=6, rope_parameters=GPT_OSS_YARN)),
}
# 256 inputs for the K types, but few outputs.
WIDE = dict(hidden_size=256, intermediate_size=96, head_dim=16, num_attention_heads=2, num_key_value_heads=1,
            num_hidden_layers=1, vocab_size=64, tie_word_embeddings=True)


def make(kind, changes):
    config = kind(**(COMMON | changes))
    torch.manual_seed(SEED)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # What bf16 holds, spread out so that attention is neither flat nor one-hot.
            parameter.copy_((torch.randn_like(parameter) * (0.3 if parameter.dim() == 1 else 0.15)).bfloat16())
            if parameter.dim() == 1 and kind is not transformers.Gemma3TextConfig:
                parameter.add_(1).copy_(parameter.bfloat16())
    return model


def convert(folder, target, outtype):
    """llama.cpp's converter, without a tokenizer."""
    from conversion import get_model_class
    from conversion.base import ModelBase
    hparams = ModelBase.load_hparams(folder, False)
    cls = get_model_class(hparams["architectures"][0])
    cls.set_vocab = lambda self: self._set_vocab_none()
    with torch.inference_mode():
        cls(folder, outtype, target).write()


def expect(model, target):
    ids = torch.randint(3, model.config.vocab_size, (2, 19), generator=torch.Generator().manual_seed(SEED))
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    save_file({"input_ids": ids, "logits": logits.float().contiguous()}, target)


def models():
    for name, (kind, changes) in MODELS.items():
        model = make(kind, changes)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder) / "model"  # a part of the converted file
            model.save_pretrained(folder)
            if name == "gemma3":  # whose converter reads the size of its vocabulary from a tokenizer
                (folder / "tokenizer.json").write_text(json.dumps(
                    {"model": {"vocab": {str(i): i for i in range(96)}}, "added_tokens": []}))
            convert(folder, HERE / f"{name}.gguf", gguf.LlamaFileType.MOSTLY_BF16)
        expect(model, HERE / f"{name}.safetensors")


def quantized():
    """llama-quantize's own mixture, and the logits of a model of the values that its codes stand for."""
    model = make(transformers.LlamaConfig, WIDE)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "model"
        model.save_pretrained(folder)
        convert(folder, folder / "wide.gguf", gguf.LlamaFileType.ALL_F32)
        target = HERE / "llama-q4_k_m.gguf"
        subprocess.run(["llama-quantize", folder / "wide.gguf", target,
                        "Q4_K_M"], check=True, capture_output=True)
    names = {theirs: ours for ours, theirs in ((n, gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1).get_name(
        n, try_suffixes=(".weight",))) for n in model.state_dict())}
    weights = {}
    for tensor in gguf.GGUFReader(target).tensors:
        values = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
        if ".attn_q." in tensor.name or ".attn_k." in tensor.name:
            heads = 2 if ".attn_q." in tensor.name else 1
            values = values.reshape(heads, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        weights[names[tensor.name]] = values
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    expect(model, HERE / "llama-q4_k_m.safetensors")


def mxfp4():
    """The experts' blocks of a golden checkpoint, with the logits that stand beside it."""
    source = HERE.parent / "golden" / "gpt-oss-mxfp4"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "model"
        shutil.copytree(source, folder)
        convert(folder, HERE / "gpt-oss-mxfp4.gguf", gguf.LlamaFileType.ALL_F32)


def libggml(library, kind, data, count):
    class Traits(ctypes.Structure):
        _fields_ = [("type_name", ctypes.c_char_p), ("blck_size", ctypes.c_int64),
                    ("blck_size_interleave", ctypes.c_int64), ("type_size", ctypes.c_size_t),
                    ("is_quantized", ctypes.c_bool),
                    ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64))]
    library.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    values = np.zeros(count, np.float32)
    library.ggml_get_type_traits(int(kind)).contents.to_float(data.ctypes.data, values.ctypes.data, count)
    return values


def blocks(library):
    """A tensor of random blocks of each type, and the SHA-256 of the f32 values that they stand for."""
    random = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(HERE / "blocks.gguf", "none")
    lines = []
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        size, width = gguf.GGML_QUANT_SIZES[kind]
        data = random.integers(0, 256, (3 * 512 // size, width), dtype=np.uint8)
        for at in HALVES[name]:
            halves = random.integers(0, 0x7c00, len(data)) | random.integers(0, 2, len(data)) << 15
            data[:, at:at + 2] = halves.astype(np.uint16).view(np.uint8).reshape(-1, 2)
        if name == "MXFP4":
            data[:, 0] = np.minimum(data[:, 0], 250)
        rows = data.reshape(3, -1)
        writer.add_tensor(name, rows, raw_dtype=kind)
        values = gguf.quants.dequantize(rows, kind)
        if library is not None:
            assert np.array_equal(values.ravel().view(np.uint32),
                                  libggml(library, kind, rows, values.size).view(np.uint32)), name
        assert np.isfinite(values).all(), name
        lines.append(f"{hashlib.sha256(values.tobytes()).hexdigest()}  {name}\n")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (HERE / "blocks.sha256").write_text("".join(lines))


def corpus():
    """A small model with a tokenizer, for tests/fuzz and tests/attack: every kind of part in few bytes."""
    random = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(HERE.parent.parent / "fuzz/corpus/gguf/small.gguf", "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab", "\u2581a"])
    writer.add_token_scores([0, 0, 0, -1, -2, -3, -4, -5])
    writer.add_token_types([2, 3, 3, 1, 1, 1, 1, 1])
    for key, token in (("unk", 0), ("bos", 1), ("eos", 2)):
        getattr(writer, f"add_{key}_token_id")(token)
    writer.add_tensor("token_embd.weight", random.normal(size=(8, 32)).astype(np.float16))
    writer.add_tensor("output_norm.weight", np.ones(32, np.float32))
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(32, np.float32))
    for name, kind in (("attn_q", "Q8_0"), ("attn_k", "Q4_0"), ("attn_v", "Q4_1"), ("attn_output", "Q5_0"),
                       ("ffn_gate", "Q5_1"), ("ffn_up", "MXFP4"), ("ffn_down", "BF16")):
        values = random.normal(size=(32, 32)).astype(np.float32)
        kind = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(f"blk.0.{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def corpus_of_experts():
    """The same of gpt-oss: two experts, sinks and YaRN."""
    random = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(HERE.parent.parent / "fuzz/corpus/gguf/experts.gguf", "gpt-oss")
    for add, number in (("context_length", 64), ("embedding_length", 32), ("block_count", 1), ("head_count", 2),
                        ("feed_forward_length", 32), ("head_count_kv", 1), ("expert_count", 2),
                        ("expert_used_count", 1), ("sliding_window", 4), ("rope_scaling_orig_ctx_len", 32)):
        getattr(writer, f"add_{add}")(number)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(4.0)
    shapes = {"token_embd.weight": (8, 32), "output.weight": (8, 32), "output_norm.weight": (32,)}
    layer = {"attn_norm.weight": (32,), "post_attention_norm.weight": (32,), "attn_sinks.weight": (2,),
             "ffn_gate_inp.weight": (2, 32), "ffn_gate_inp.bias": (2,)}
    for name, rows in (("attn_q", 32), ("attn_k", 16), ("attn_v", 16), ("attn_output", 32)):
        layer |= {f"{name}.weight": (rows, 32), f"{name}.bias": (rows,)}
    for name, shape in (shapes | {f"blk.0.{name}": shape for name, shape in layer.items()}).items():
        writer.add_tensor(name, random.normal(size=shape).astype(np.float32))
    for name in ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"):
        values = gguf.quants.quantize(random.normal(size=(2, 32, 32)).astype(np.float32),
                                      gguf.GGMLQuantizationType.MXFP4)
        writer.add_tensor(f"blk.0.{name}.weight", values, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
        writer.add_tensor(f"blk.0.{name}.bias", random.normal(size=(2, 32)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


sys.path.insert(0, sys.argv[1])
blocks(ctypes.CDLL(sys.argv[2]) if len(sys.argv) > 2 else None)
models()
quantized()
mxfp4()
corpus()
corpus_of_experts()
