// SPDX-License-Identifier: Apache-2.0
// Prose for items of a given length: consecutive words of a text that fill a number of tokens.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/significance/draws.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/file/json_value.h"

namespace tare {

class Haystack {
 public:
  // Keeps a reference to `text`; `where` is its name in messages.
  Haystack(std::string_view text, const Tokenizer& tokenizer, std::string where);

  using Words = std::span<const std::string_view>;
  // The parts between blanks and line ends.
  static std::vector<std::string_view> WordsOf(std::string_view text, const std::string& where);
  Words words() const { return words_; }
  // As many consecutive words as fit this many tokens, from a random word with enough words after it. Throws Error if
  // there is none.
  Words Draw(size_t tokens, Draws& draws) const;

 private:
  std::vector<std::string_view> words_;
  std::vector<size_t> before_;  // tokens of the words before each word, and of all: [words + 1]
  std::string where_;
};

// Positions that an item needs: `<s>`, and the context with its longest ending.
size_t PositionsOf(const std::string& context, const std::vector<std::string>& endings, const Tokenizer& tokenizer);
// The context with as many words as fit this many positions: make(words) makes an item's context. Nothing if make makes
// nothing of these words, which it may not do of none. Throws Error if not even eight words fit; `where` starts the
// message.
std::string Filled(const Haystack& haystack, int64_t positions, const std::vector<std::string>& endings,
                   const Tokenizer& tokenizer, Draws& draws, const std::string& where,
                   const std::function<std::string(Haystack::Words)>& make);
// The tokens that a piece of text adds to a sequence: those of "a PIECE" minus those of "a".
size_t TokensWithin(std::string_view piece, const Tokenizer& tokenizer);

std::string Joined(Haystack::Words words);

// A text to hide, before which stands this share of the words.
struct HiddenText {
  double place = 0;
  std::string text;
};
// texts: by place
std::string WithHidden(Haystack::Words words, const std::vector<HiddenText>& texts);

// Words of at least four lower-case letters, the most common first.
std::vector<std::string> CommonWords(Haystack::Words words);

// The items for every sample, length and turn, in this order: a turn for each depth. Throws Error if the program is
// interrupted.
std::vector<Json> ForGrid(size_t samples, const std::vector<int64_t>& lengths, size_t turns,
                          const std::function<std::vector<Json>(size_t sample, int64_t length, size_t turn)>& make);

}  // namespace tare
