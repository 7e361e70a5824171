// SPDX-License-Identifier: Apache-2.0
// A tokenizer in one file by Hugging Face's tokenizers library (github.com/huggingface/tokenizers), with its rules:
// added tokens are found, the rest is normalized and cut into words, and each becomes pieces; special tokens surround
// them; decoding reverses this. Truncation and padding are the caller's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "experiments/text/tokenizer/added_tokens.h"
#include "experiments/text/tokenizer/subwords.h"
#include "experiments/text/tokenizer/text_to_words.h"
#include "experiments/text/tokenizer/tokenizer.h"

namespace tare::pipeline {

// The decoder of a tokenizer.json: turns pieces into text (tokenizers/src/decoders).
class Decoder {
 public:
  using Step = std::function<std::vector<std::string>(std::vector<std::string>)>;

  Decoder() = default;  // pieces joined by spaces, as of null
  // Throws Error, naming the type, for a type that Tare does not support.
  Decoder(const nlohmann::json& json, const std::string& where);

  std::string Apply(std::vector<std::string> pieces) const;

 private:
  std::vector<Step> steps_;
};

class TokenizerJson : public TokenizerModel {
 public:
  // Throws Error, with `where` and the place, for parts that are missing, damaged, or of unsupported type.
  TokenizerJson(std::string_view text, const std::string& where, const FolderTokens& folder = {});

  std::vector<int32_t> Encode(std::string_view text) const override;
  // Ids that precede those of a text.
  std::vector<int32_t> before() const override { return around_.before; }
  std::vector<int32_t> after() const override { return around_.after; }

  // Leaves out special tokens and ids without a piece.
  std::string Decode(const std::vector<int32_t>& ids) const override;
  // As spelled in the file; "" for an id without a piece.
  std::string Piece(int32_t id) const override;
  // One more than the largest id.
  int32_t vocabulary() const override { return std::max(subwords_->ids(), added_.ids()); }

 private:
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<Subwords> subwords_;
  AddedTokens added_;
  Around around_;
  Decoder decoder_;
};

}  // namespace tare::pipeline
