// SPDX-License-Identifier: Apache-2.0
// A tokenizer as Hugging Face's tokenizers library keeps it in one file, by the library's own rules
// (github.com/huggingface/tokenizers): added tokens are taken out of the text, the rest is normalized, cut into words,
// and each word becomes pieces; special tokens go around; decoding goes back. Truncation and padding are left to the
// caller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/text/tokenizer/added_tokens.h"
#include "experiments/text/tokenizer/decoder.h"
#include "experiments/text/tokenizer/normalizer.h"
#include "experiments/text/tokenizer/post_processor.h"
#include "experiments/text/tokenizer/pre_tokenizer.h"
#include "experiments/text/tokenizer/subwords.h"
#include "experiments/text/tokenizer/tokenizer.h"

namespace tare::pipeline {

class TokenizerJson : public TokenizerModel {
 public:
  // Throws Error with `where` and the place for what is missing, damaged, or of a type that Tare does not know.
  TokenizerJson(std::string_view text, const std::string& where);

  // Ids of the text without special tokens around. Throws Error where it is not UTF-8.
  std::vector<int32_t> Encode(std::string_view text) const override;
  // Ids that go around those of a text.
  std::vector<int32_t> before() const override { return post_processor_.before; }
  std::vector<int32_t> after() const override { return post_processor_.after; }

  // Special tokens and ids without a piece are left out.
  std::string Decode(const std::vector<int32_t>& ids) const override;
  // As the file spells it; "" for an id without a piece.
  std::string Piece(int32_t id) const override;
  // One more than the largest id.
  int32_t vocabulary() const override;

 private:
  struct Parsed;  // the file's JSON
  TokenizerJson(const Parsed& parsed, const std::string& where);
  void EncodeWords(Words words, std::vector<int32_t>* ids) const;

  Normalizer normalizer_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<Subwords> subwords_;
  PostProcessor post_processor_;
  Decoder decoder_;
};

}  // namespace tare::pipeline
