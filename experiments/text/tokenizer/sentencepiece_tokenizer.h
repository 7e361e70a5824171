// SPDX-License-Identifier: Apache-2.0
// SentencePiece's tokenizer.model. Ids are those that the SentencePiece library gives for the whole text, without
// special tokens. Long texts are encoded in chunks if that provably changes no id
// (experiments/text/tokenizer/piece_model.h), so that memory does not grow with the text; otherwise a text is encoded
// whole.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/text/tokenizer/piece_model.h"
#include "experiments/text/tokenizer/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tare {

class SentencePieceTokenizer : public TokenizerModel {
 public:
  // From the bytes of a tokenizer.model. `where` starts messages. Throws Error if it is damaged.
  SentencePieceTokenizer(std::string_view model, const std::string& where);
  ~SentencePieceTokenizer() override;

  std::vector<int32_t> EncodeFirst(std::string_view text, size_t count) const override;
  std::string Decode(const std::vector<int32_t>& ids) const override;
  std::string Piece(int32_t id) const override;
  int32_t vocabulary() const override;
  std::vector<int32_t> before() const override;
  std::vector<int32_t> after() const override { return {}; }

 private:
  void EncodeChunk(std::string_view chunk, std::vector<int32_t>* ids) const;

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  ChunkRule chunk_rule_;
};

}  // namespace tare
