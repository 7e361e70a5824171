// SPDX-License-Identifier: Apache-2.0
// A checkpoint's own tokenizer: tokenizer.json of Hugging Face's tokenizers library (experiments/text/tokenizer) or
// SentencePiece's tokenizer.model. If both exist, the first is used, as in transformers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

// A tokenizer, whichever file it is from. Only one function may run at a time.
class TokenizerModel {
 public:
  virtual ~TokenizerModel() = default;
  // The ids of a text, without special tokens. Throws Error if the text is not valid UTF-8.
  virtual std::vector<int32_t> Encode(std::string_view text) const = 0;
  virtual std::string Decode(const std::vector<int32_t>& ids) const = 0;
  // "" for an id without a piece.
  virtual std::string Piece(int32_t id) const = 0;
  virtual int32_t vocabulary() const = 0;  // one more than the largest id
  // Special tokens that the model expects around a text.
  virtual std::vector<int32_t> before() const = 0;
  virtual std::vector<int32_t> after() const = 0;
};

class Tokenizer {
 public:
  // Reads the tokenizer of a checkpoint folder or a quantized checkpoint, with tokenizer_config.json if there is one.
  // Throws Error if it is damaged or missing (the message shows how to make ids with any other tokenizer).
  static Tokenizer Load(const std::filesystem::path& checkpoint);
  // As Load, but also takes a tokenizer file by itself: NAME.json or NAME.model.
  static Tokenizer LoadFile(const std::filesystem::path& path);

  // The ids of a text, without special tokens. Empty for an empty text, and for spaces that the model strips.
  std::vector<int32_t> Encode(std::string_view text) const { return model_->Encode(text); }
  // The ids of a text that follow the caller's bos(): where the text begins with that token itself, the token is left
  // out and a notice says so, so that no text begins with two.
  std::vector<int32_t> EncodeAfterBos(std::string_view text) const;
  // bos() and the ids after it.
  std::vector<int32_t> EncodeWithBos(std::string_view text) const;
  // Leaves out special tokens.
  std::string Decode(const std::vector<int32_t>& ids) const { return model_->Decode(ids); }
  std::string Piece(int32_t id) const { return model_->Piece(id); }
  int32_t vocabulary() const { return model_->vocabulary(); }
  const std::vector<int32_t>& before() const { return before_; }
  std::vector<int32_t> after() const { return model_->after(); }
  // The `<s>` that begins a text; empty if the model has none. tokenizer_config.json's add_bos_token decides it for a
  // tokenizer.model; a tokenizer.json has its own rule (transformers 5). Throws Error if several tokens precede a text.
  std::optional<int32_t> bos() const;
  // The bos_token that the folder's files name, or else the eos_token, whether or not texts begin with it: the token
  // before a text's first one in lm-evaluation-harness (HFLM.prefix_token_id).
  std::optional<int32_t> prefix() const;

 private:
  Tokenizer(std::unique_ptr<const TokenizerModel> model, std::string where);

  std::unique_ptr<const TokenizerModel> model_;
  std::string where_;
  std::vector<int32_t> before_;
  std::optional<std::string> prefix_;
};

// Throws Error, with the first id whose piece differs, unless ids mean the same in both checkpoints. Ids without a
// piece in one of them, and checkpoints without a tokenizer, are not compared.
void RequireSamePieces(const std::filesystem::path& checkpoint, const std::filesystem::path& reference);

// Names of the checkpoint's tokenizers, the one in use first.
std::vector<std::string> TokenizersOf(const std::filesystem::path& checkpoint);

}  // namespace tare
