# SPDX-License-Identifier: Apache-2.0
"""A `llama` checkpoint folder with a SentencePiece model of BPE as a GGUF file in f32, for llama.cpp's own tools:

    python3 make_gguf.py experiments/pair/novels-standard novels-standard.gguf

Needs gguf, numpy, safetensors, sentencepiece and torch. llama.cpp turns neighbouring channels by rotary positions, the
checkpoint the halves of a head, so rows of the query and key projections are put in the other order.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import sentencepiece
import torch
from safetensors.torch import load_file


def interleaved(weight, heads):
    out, width = weight.shape
    return weight.reshape(heads, 2, out // heads // 2, width).swapaxes(1, 2).reshape(out, width)


def add_tokenizer(writer, path):
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = range(pieces.GetPieceSize())
    kinds = gguf.TokenType

    def kind(i):
        if pieces.IsUnknown(i):
            return kinds.UNKNOWN
        return kinds.CONTROL if pieces.IsControl(i) else kinds.BYTE if pieces.IsByte(i) else kinds.NORMAL

    writer.add_tokenizer_model("llama")
    writer.add_token_list([pieces.IdToPiece(i).encode() for i in ids])
    writer.add_token_scores([pieces.GetScore(i) for i in ids])
    writer.add_token_types([kind(i) for i in ids])
    writer.add_bos_token_id(pieces.bos_id())
    writer.add_eos_token_id(pieces.eos_id())
    writer.add_unk_token_id(pieces.unk_id())
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(pieces.encode("a", out_type=str)[0].startswith("\u2581"))


def main(folder, target):
    config = json.loads((folder / "config.json").read_text())
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    add_tokenizer(writer, folder / "tokenizer.model")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, tensor in load_file(folder / "model.safetensors").items():
        values = tensor.to(torch.float32).numpy()
        if name.endswith("q_proj.weight"):
            values = interleaved(values, heads)
        if name.endswith("k_proj.weight"):
            values = interleaved(values, kv_heads)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(pathlib.Path(sys.argv[1]), sys.argv[2])
