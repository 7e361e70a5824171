// SPDX-License-Identifier: Apache-2.0
// The checkpoint's own tokenizer: SentencePiece's tokenizer.model. Ids are those that the SentencePiece library gives
// for the whole text; no special token is added. Long texts are encoded in chunks where that provably changes no id
// (experiments/text/piece_model.h), so that memory does not grow with the text; where it might, a text is encoded
// whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/text/piece_model.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tare {

class Tokenizer {
 public:
  // Reads tokenizer.model and, where there is one, tokenizer_config.json of a checkpoint folder or a quantized
  // checkpoint. Throws Error where the first is missing (the message shows how to make ids for a checkpoint with any
  // other tokenizer) or damaged.
  static Tokenizer Load(const std::filesystem::path& checkpoint);
  // Of a tokenizer.model's bytes. `where` begins messages.
  Tokenizer(std::string_view model, const std::string& where);
  Tokenizer(Tokenizer&& other) noexcept;
  Tokenizer& operator=(Tokenizer&& other) noexcept;
  ~Tokenizer();

  // Throws Error where the text is not valid UTF-8. Of nothing, and of nothing but spaces where the model strips them:
  // none.
  std::vector<int32_t> Encode(std::string_view text) const;

  int32_t vocabulary() const;
  // The `<s>` that a text begins with; none where the model has none or tokenizer_config.json says "add_bos_token":
  // false.
  std::optional<int32_t> bos() const { return bos_; }

 private:
  void EncodeChunk(std::string_view chunk, std::vector<int32_t>* ids) const;

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  ChunkRule chunk_rule_;
  std::optional<int32_t> bos_;
};

}  // namespace tare
