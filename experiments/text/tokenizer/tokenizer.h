// SPDX-License-Identifier: Apache-2.0
// A checkpoint's tokenizer: Hugging Face's tokenizer.json (experiments/text/tokenizer), else SentencePiece's
// tokenizer.model, as in transformers. And a language model's input (token_input.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
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
  // The ids after the caller's bos(): a text that begins with that token loses it, with a notice, so none has two.
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

// The input of a language model: a text, cut by the checkpoint's tokenizer, or ids made by any tokenizer.
//
// Ids: the tensor or dataset `input_ids` [B,T] or [T], of any integer type, in a .safetensors, .h5 or .hdf5 file, whose
// other contents are ignored. Rows are independent sequences and are used unchanged, without tokens in front. Text: any
// other file; UTF-8, one long row; bos is the token that begins every window.
// What of a text is needed: windows of a long text at even distances become ids without the rest.
struct TextPart {
  size_t first = SIZE_MAX;  // so many of the text's first tokens are enough
  // Or so many windows at even distances, of so many positions each, `<s>` among them, if the text is long; 0: all.
  size_t windows = 0, positions = 0;
};

inline constexpr size_t kLongText = size_t{16} << 20;  // bytes; encoding them takes a second or a few

// Whether the part of a text of so many bytes is read in windows: it is long, and they are a small share of it.
bool ReadInWindows(const TextPart& part, size_t bytes);

// A text's bytes are cut into equal parts, one per window, which begins with the first line after its part's middle (or
// if none begins in the next quarter part or 64 KiB, a word), and has the first ids of what follows, up to the next
// part's middle. None where only spaces are. Throws Error, with `where`, if what is read is not UTF-8.
std::vector<std::vector<int32_t>> EncodeWindows(const Tokenizer& tokenizer, std::string_view text, const TextPart& part,
                                                std::string_view where);

// Throws Error unless the model has a row per id. A tokenizer may have more pieces (gemma-3-1b), rare in texts.
void RequireRows(std::span<const int32_t> ids, int vocabulary, const std::string& where);

struct TokenInput {
  enum class Kind { kText, kIds };
  Kind kind = Kind::kText;
  std::vector<std::vector<int32_t>> sequences;  // each id in [0, vocabulary), at least one
  std::optional<int32_t> bos;                   // text only: the tokenizer's `<s>`, unless its config adds none
  bool whole = true;                            // whether these are all tokens of the file
  bool in_windows = false;                      // of a long text: each sequence is a window of it (EncodeWindows)
  std::filesystem::path path;
  std::string sha256;  // of the file
};

// Whether the file is one of ids, by its name.
bool HoldsIds(const std::filesystem::path& path);

// model_folder: the folder with the text's tokenizer. vocabulary: the model's. part: of a text. Throws Error for an
// empty input, a text that is not UTF-8, an id outside the vocabulary (with its place), and a missing tokenizer.
TokenInput LoadTokenInput(const std::filesystem::path& path, const std::filesystem::path& model_folder, int vocabulary,
                          const TextPart& part = {});

}  // namespace tare
