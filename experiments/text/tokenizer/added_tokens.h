// SPDX-License-Identifier: Apache-2.0
// Tokens beside the model's: added ones in a text, by the tokenizer's or its folder's files, special ones around it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/text/tokenizer/subwords.h"
#include "experiments/text/tokenizer/text_to_words.h"

namespace tare::pipeline {

// What the files next to a tokenizer add to it, as transformers 5.12 reads them (tokenization_utils_base.py):
//
//   tokenizer_config.json    added_tokens_decoder, named tokens (bos_token, ...), extra_special_tokens, add_bos_token
//   special_tokens_map.json  named tokens, which replace those above  } read only without an added_tokens_decoder
//   added_tokens.json        text to id                               }
struct FolderTokens {
  // Entries as in a tokenizer.json's added_tokens: those with an id, by id; then special ones without.
  std::vector<nlohmann::json> added;
  std::map<std::string, nlohmann::json> named;  // "bos_token": its entry, or null
  std::optional<bool> adds_bos, adds_eos;
  bool legacy = false;        // SentencePiece: text after an added token begins with a space, too
  bool as_llama_cpp = false;  // also where it begins with one; and the longest of added tokens that overlap counts
  bool prefix_space = true;   // false: no text gets the model's space in front

  // The text of a named token; nullopt where it is null or missing.
  std::optional<std::string> Named(const std::string& name) const;
};

// Throws Error for files that are damaged.
FolderTokens ReadFolderTokens(const std::filesystem::path& checkpoint);

// `own` tokens with the folder's: one whose text is in `own` takes the folder's flags, pieces keep their ids, others
// get those after all pieces, in order. Throws Error, with `where`, for a token whose file gives it another id.
nlohmann::json WithFolderTokens(nlohmann::json own, const FolderTokens& folder, int32_t pieces,
                                const std::function<std::string(int32_t)>& piece, const std::string& where);

struct AddedToken {
  int32_t id = 0;
  std::string content;                  // normalized, if the token is
  bool single_word = false;             // must not touch a word
  bool lstrip = false, rstrip = false;  // takes the whitespace before it, after it
  bool normalized = false;
  bool special = false;
};

// Tokens added to the model's (tokenizers/src/tokenizer/added_vocabulary.rs), found before the text is cut, and unless
// `normalized`, before it is normalized. Of overlapping ones the leftmost counts, then the longest. llama.cpp searches
// the longest first, wherever they begin (llama-vocab.cpp, tokenizer_st_partition; std::sort orders equals).
class AddedTokens {
 public:
  AddedTokens() = default;  // none
  // Throws Error for a token without id or content, one of more than 4096 bytes, or an id used twice.
  AddedTokens(const nlohmann::json& json, const Normalizer& normalizer, const std::string& where,
              const FolderTokens& folder = {});

  struct Segment {
    std::string_view text;
    std::optional<int32_t> id;  // of an added token; empty for text between tokens
  };
  // Splits a text at tokens that are not normalized; then each part between them, once normalized, at those that are.
  std::vector<Segment> Split(std::string_view text) const { return Split(text, raw_); }
  std::vector<Segment> SplitNormalized(std::string_view text) const { return Split(text, {&normalized_, 1}); }

  const std::map<int32_t, AddedToken>& tokens() const { return tokens_; }
  int32_t ids() const { return tokens_.empty() ? 0 : tokens_.rbegin()->first + 1; }  // one more than the largest

 private:
  std::vector<Segment> Split(std::string_view text, std::span<const PrefixIndex> searches) const;
  void Search(std::string_view text, const PrefixIndex& index, std::vector<Segment>* segments) const;

  std::map<int32_t, AddedToken> tokens_;
  std::vector<PrefixIndex> raw_;  // each searches what those before left
  PrefixIndex normalized_;
};

// Ids of special tokens before and after those of one text.
struct Around {
  std::vector<int32_t> before, after;
};
// The post-processor (tokenizers/src/processors) for single texts. null: none. Throws Error naming an unsupported type.
Around ParsePostProcessor(const nlohmann::json& json, const std::string& where);

}  // namespace tare::pipeline
