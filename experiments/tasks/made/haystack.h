// SPDX-License-Identifier: Apache-2.0
// Prose for items of a given length: consecutive words of a text that fill a number of
// tokens.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/significance/draws.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/file/json.h"

namespace tare {

class Haystack {
 public:
  // `text` is kept by reference; `where` is its name in messages.
  Haystack(std::string_view text, const Tokenizer& tokenizer, std::string where);

  using Words = std::span<const std::string_view>;
  // What blanks and ends of lines separate.
  static std::vector<std::string_view> WordsOf(std::string_view text, const std::string& where);
  Words words() const { return words_; }
  // Consecutive words that take at most so many tokens, one word more would take more; from any word from which there
  // are enough. Throws Error where there is none.
  Words Draw(size_t tokens, Draws& draws) const;

 private:
  std::vector<std::string_view> words_;
  std::vector<size_t> before_;  // tokens of the words before each, and of all: [words + 1]
  std::string where_;
};

// Positions that an item takes of a model: `<s>`, and the context with the longest of its endings.
size_t PositionsOf(const std::string& context, const std::vector<std::string>& endings, const Tokenizer& tokenizer);
// As many words as there is room for within so many positions: make(words) is an item's context. Throws Error where not
// even eight have room; `where` begins the message.
std::string Filled(const Haystack& haystack, int64_t positions, const std::vector<std::string>& endings,
                   const Tokenizer& tokenizer, Draws& draws, const std::string& where,
                   const std::function<std::string(Haystack::Words)>& make);
// What a piece of text adds to a sequence: tokens of "a PIECE" less those of "a".
size_t TokensWithin(std::string_view piece, const Tokenizer& tokenizer);

std::string Joined(Haystack::Words words);

// The items of every sample, length and depth, in this order. Throws Error where the program is interrupted.
std::vector<nlohmann::ordered_json> ForGrid(
    size_t samples, const std::vector<int64_t>& lengths, const std::vector<double>& depths,
    const std::function<std::vector<nlohmann::ordered_json>(size_t sample, int64_t length, double depth)>& make);

}  // namespace tare
