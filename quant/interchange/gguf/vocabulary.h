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

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/json.h"
#include "quant/interchange/gguf/container.h"

namespace tare::gguf {

// Kinds of tokens (tokenizer.ggml.token_type), as in sentencepiece_model.proto.
inline constexpr int kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

// How the published byte-level tokenizers cut texts into words, by llama.cpp's names (tokenizer.ggml.pre).
struct Cutting {
  std::string_view name;
  std::string_view pattern;  // empty: GPT-2's
  bool composes = false;     // characters first (NFC)
  bool single_digits = false;
  bool takes_whole_words = false;  // that are tokens, without merges
  bool begins_texts = false;       // with the first special token, unless a key says otherwise
};
// Patterns that cut numbers into groups of three digits, or into single digits.
inline constexpr std::string_view kThreeDigits = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
                                                 R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                                  kOneDigit = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
                                              R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Patterns that cut words also before a capital letter that follows a small one.
inline constexpr std::string_view kCasedThreeDigits =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kCasedOneDigit =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Tare writes the first of several cuttings that are alike.
inline constexpr auto kCuttings = std::to_array<Cutting>(
    {{.name = "llama-bpe", .pattern = kThreeDigits, .takes_whole_words = true, .begins_texts = true},
     {.name = "llama3", .pattern = kThreeDigits, .takes_whole_words = true, .begins_texts = true},
     {.name = "pixtral", .pattern = kThreeDigits, .takes_whole_words = true, .begins_texts = true},
     {.name = "falcon3", .pattern = kThreeDigits, .takes_whole_words = true, .begins_texts = true},
     {.name = "tekken", .pattern = kCasedOneDigit, .takes_whole_words = true, .begins_texts = true},
     {.name = "gpt-4o", .pattern = kCasedThreeDigits},
     {.name = "llama4", .pattern = kCasedThreeDigits},
     {.name = "qwen2", .pattern = kOneDigit, .composes = true},
     {.name = "deepseek-r1-qwen", .pattern = kOneDigit, .composes = true},
     {.name = "dbrx", .pattern = kThreeDigits},
     {.name = "smaug-bpe", .pattern = kThreeDigits},
     {.name = "gpt-2", .pattern = {}},
     {.name = "olmo", .pattern = {}, .composes = true},
     {.name = "smollm", .pattern = {}, .single_digits = true},
     {.name = "refact", .pattern = {}, .single_digits = true},
     {.name = "starcoder", .pattern = {}, .single_digits = true}});

std::string CuttingsText();

// normalizer and pre_tokenizer of tokenizer.json.
Json NormalizerOf(const Cutting& cutting);
Json PreTokenizerOf(const Cutting& cutting);

// tokenizer.model, tokenizer.json or tokenizer_config.json; nullopt for other names or forms, or without a tokenizer.
std::optional<std::string> TokenizerText(const Metadata& metadata, std::string_view name);

// ---- A checkpoint's tokenizer as keys of a GGUF file: tokenizer.json where it is byte-level BPE whose word cuts
// llama.cpp names, else SentencePiece's tokenizer.model where it is BPE without a table that maps characters. Others
// are refused by name. Ids without a token, up to the embedding's rows, become unused [PAD<id>]; a notice counts them.

// A token that a file beside the tokenizer adds, or changes the kind of.
struct FolderToken {
  int64_t id = 0;
  std::string text;
  bool special = false;
};

// Facts that the tokenizer's file alone does not tell.
struct VocabularyUse {
  int64_t tokens = 0;           // rows of the embedding
  std::vector<int32_t> before;  // ids that the model expects around a text
  std::vector<int32_t> after;
  std::vector<int32_t> ends;  // ids that end a text, the usual one first
  std::vector<FolderToken> added = {};
};

// `file` gives a small file of the checkpoint by its name. False if there is no tokenizer: nothing is written then.
bool AddVocabulary(const std::function<std::optional<std::string>(const std::string& name)>& file,
                   const VocabularyUse& use, MetadataWriter& out);

}  // namespace tare::gguf
