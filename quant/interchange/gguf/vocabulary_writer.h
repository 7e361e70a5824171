// SPDX-License-Identifier: Apache-2.0
// A checkpoint's tokenizer as keys of a GGUF file, the reverse of vocabulary.h: tokenizer.json where it is byte-level
// BPE whose words are cut as llama.cpp has a name for, else SentencePiece's tokenizer.model where it is BPE without a
// table that maps characters. Others are refused by name.
//
// Ids without a token, up to the rows of the embedding, become unused tokens [PAD<id>].
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/interchange/gguf/writer.h"

namespace tare::gguf {

// What the files alone do not say.
struct VocabularyUse {
  int64_t tokens = 0;           // rows of the embedding
  std::vector<int32_t> before;  // ids that the model expects around a text
  std::vector<int32_t> after;
  std::vector<int32_t> ends;  // ids that end a text, the usual one first
};

// `file` gives a small file of the checkpoint by its name. False if there is no tokenizer: nothing is written then.
bool AddVocabulary(const std::function<std::optional<std::string>(const std::string& name)>& file,
                   const VocabularyUse& use, MetadataWriter& out);

}  // namespace tare::gguf
