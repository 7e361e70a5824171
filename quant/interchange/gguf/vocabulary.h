// SPDX-License-Identifier: Apache-2.0
// The tokenizer inside a GGUF file, as the files that other tokenizers come in:
//
//   tokenizer.ggml.model llama   SentencePiece's BPE: tokenizer.model, a ModelProto (sentencepiece_model.proto)
//   tokenizer.ggml.model gpt2    byte-level BPE with merges: tokenizer.json, whose rules of cutting texts into words
//                                are those that tokenizer.ggml.pre names
//
// tokenizer_config.json says whether texts begin with the first special token, and holds the chat template. Other
// models and unknown names in tokenizer.ggml.pre are refused by name where the tokenizer is read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "quant/interchange/gguf/metadata.h"

namespace tare::gguf {

// tokenizer.model, tokenizer.json or tokenizer_config.json; nullopt for other names, for the form that this tokenizer
// does not come in, and without a tokenizer.
std::optional<std::string> TokenizerText(const Metadata& metadata, std::string_view name);

}  // namespace tare::gguf
