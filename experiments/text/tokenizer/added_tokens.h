// SPDX-License-Identifier: Apache-2.0
// The tokens of a tokenizer.json besides those that its model makes: added ones in a text, and special ones around it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/text/tokenizer/folder_tokens.h"
#include "experiments/text/tokenizer/subwords.h"
#include "experiments/text/tokenizer/text_to_words.h"

namespace tare::pipeline {

struct AddedToken {
  int32_t id = 0;
  std::string content;                  // normalized, if the token is
  bool single_word = false;             // must not touch a word
  bool lstrip = false, rstrip = false;  // takes the whitespace before it, after it
  bool normalized = false;
  bool special = false;
};

// Tokens that the file adds to its model's (tokenizers/src/tokenizer/added_vocabulary.rs). They are found before the
// text is cut into words; those that are not `normalized`, before it is normalized, too. Of tokens that overlap the
// leftmost counts, and of those at one place the longest. llama.cpp searches a text for the longest tokens first,
// whatever begins earlier (llama-vocab.cpp, tokenizer_st_partition); its order of equally long ones is std::sort's.
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
// The post-processor (tokenizers/src/processors), whose rules for pairs of texts are ignored. null: none. Throws Error,
// naming the type, for a type that Tare does not support.
Around ParsePostProcessor(const nlohmann::json& json, const std::string& where);

}  // namespace tare::pipeline
