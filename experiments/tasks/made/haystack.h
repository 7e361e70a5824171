// SPDX-License-Identifier: Apache-2.0
// What the makers of items share: the written forms of an item, dealt values, and prose of a given length.
//
// Nothing but the context tells the answer of a good item. A maker therefore draws all endings of an item alike, and
// which of them is true last. Where a count could differ by chance (the place of the true ending, its class, its
// letter), it is dealt: in rounds, each with every value once, in an order of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/significance/draws.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/file/json.h"

namespace tare {

// Deals 0 .. n - 1: after any number of values each was dealt equally often, or once more.
class Dealer {
 public:
  explicit Dealer(size_t n) : n_(n) {}
  size_t Next(Draws& draws);

 private:
  size_t n_;
  std::vector<size_t> left_;
};

// Every one of several things takes each depth of a list once in a round, in an order of its own; the first takes them
// as listed. So each stands at every depth equally often, and which stands before another tells nothing.
class DepthDealer {
 public:
  DepthDealer(std::vector<double> depths, size_t things) : depths_(std::move(depths)), orders_(things) {}
  // The depths of all things at turn 0 .. depths - 1 of a round; turn 0 begins a new one.
  std::vector<double> At(size_t turn, Draws& draws);

 private:
  std::vector<double> depths_;
  std::vector<std::vector<size_t>> orders_;  // [things][turns]
};

// What every maker makes: a context, its true answer and wrong ones, in one of two written forms.
//
//   choices   {"ctx", "endings", "label", keys ...}           for the choice task (experiments/tasks/items)
//   targets   {"prompt", "targets", "stop", "score", keys ...}   for answers that a model writes: the true one, where a
//                                                             writer would end it, and what is right: "exact" (the
//                                                             target), "contains" (it occurs), "all" (every target of
//                                                             a list occurs) or "number" (the last one is the target's)
enum class AnswerForm { kChoices, kTargets };

// How many items there are, and which: a turn for each depth, for each length, for each sample.
struct ItemGrid {
  std::vector<int64_t> lengths{512};                  // positions per item: <s>, context and ending, or a few fewer
  std::vector<double> depths{0, 0.25, 0.5, 0.75, 1};  // where an answer is, 0 to 1
  size_t samples = 50;                                // haystacks per length and depth
  uint64_t seed = 1;
  AnswerForm answers = AnswerForm::kChoices;
};

struct MadeItem {
  std::string context, answer;
  std::vector<std::string> wrong;
  Json keys;
  std::vector<std::string> stop = {"\n"};
  std::vector<std::string> listed;  // what the answer lists, if more than one
  std::string score = "exact";      // of an answer that lists nothing

  std::vector<std::string> Endings() const;  // the answer first
};

// Deals the places of true endings. Their draws are their own, so that both forms have the same contexts.
class ItemWriter {
 public:
  ItemWriter(AnswerForm form, uint64_t seed) : form_(form), draws_(~seed) {}
  Json Write(const MadeItem& item);

 private:
  AnswerForm form_;
  Draws draws_;
  std::map<size_t, Dealer> places_;  // by number of endings
};

// "a", "a and b", "a, b and c".
std::string Listed(const std::vector<std::string>& parts);

// Consecutive words of a text that fill a number of tokens.
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

// A text to hide, before which stands this share of the words.
struct HiddenText {
  double place = 0;
  std::string text;
};
// texts: by place
std::string WithHidden(Haystack::Words words, const std::vector<HiddenText>& texts);

// Words of at least four lower-case letters, the most common first.
std::vector<std::string> CommonWords(Haystack::Words words);

// The items of the grid in this order, samples outermost. Throws Error for a depth that is not 0 to 1, and if the
// program is interrupted.
std::vector<Json> ForGrid(const ItemGrid& grid,
                          const std::function<std::vector<Json>(size_t sample, int64_t length, size_t turn)>& make);

}  // namespace tare
