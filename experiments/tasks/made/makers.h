// SPDX-License-Identifier: Apache-2.0
// Makers of items, each in its own source, and what they share (haystack.cc): written forms, dealt values, and prose of
// a given length. All is drawn from a question's seed, item by item with samples outermost: the file is the same on
// every machine, and with fewer samples, or a limit, its beginning.
//
// Nothing but the context tells the answer of a good item. A maker therefore draws all endings of an item alike, and
// which of them is true last. Where a count could differ by chance (the place of the true ending, its class, its
// letter), it is dealt: in rounds, each with every value once, in an order of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
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

// Consecutive words of a text that fill a number of tokens.
class Haystack {
 public:
  // Keeps a reference to `text`; `where` is its name in messages.
  Haystack(std::string_view text, const Tokenizer& tokenizer, std::string where);

  using Words = std::span<const std::string_view>;
  // The parts between blanks and line ends.
  static std::vector<std::string_view> WordsOf(std::string_view text, const std::string& where);
  Words words() const { return words_; }
  // As many consecutive words as fit these tokens, from a random word with enough after it. Throws Error without one.
  Words Draw(size_t tokens, Draws& draws) const;

 private:
  std::vector<std::string_view> words_;
  std::vector<size_t> before_;  // tokens of the words before each word, and of all: [words + 1]
  std::string where_;
};

// Positions that an item needs: `<s>`, and the context with its longest ending.
size_t PositionsOf(const std::string& context, const std::vector<std::string>& endings, const Tokenizer& tokenizer);
// The context with as many words as fit these positions; make(words) makes it. Nothing if make makes nothing of them,
// which it may not do of none. Throws Error, starting with `where`, if not even eight words fit.
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
std::string WithHidden(Haystack::Words words, const std::vector<HiddenText>& texts);  // texts: by place

// Words of at least four lower-case letters, the most common first.
std::vector<std::string> CommonWords(Haystack::Words words);

// The grid's items in order, samples outermost. Throws Error for depths outside 0 to 1, and if interrupted.
std::vector<Json> ForGrid(const ItemGrid& grid,
                          const std::function<std::vector<Json>(size_t sample, int64_t length, size_t turn)>& make);

// Retrieval from a haystack, by length and depth: the protocol of the Differential Transformer's section 3.4, and the
// kinds of needles of RULER (arXiv 2404.06654). Prose contains N names with V needles each, "The magic number of Paris
// is 1234.", and ends with R questions, "What is the magic number of Paris? It is", or of A names at once, "What are
// the magic numbers of Paris and Rome? They are", whose answer lists all their numbers: name by name, as they stand in
// the text. Each question is an item, after the earlier questions with their true answers, so that all R answers count.
//
// Every needle takes each depth once in a round of haystacks (DepthDealer), asked for or not: a question asks for a
// haystack's first needle as often as for the last, except for one depth: at 0 no needle precedes the answer.
//
// Wrong endings are other needles' numbers, except of earlier questions, whose place is given away: N/A - R + 1 endings
// for each. For copying errors needles' numbers are alike: four differ in one digit, or by swapping two pairs of
// digits. Alone, each of the four is as likely to be the answer.
//
// What differs from the paper: the answer is the likeliest of numbers that are there and not generated (write targets
// for that), an earlier answer that was wrong does no harm to those after it, and other needles stand at depths of the
// list, too. Items of one haystack are not independent: intervals are over samples (experiments/tasks/evaluation.h).
struct NeedleTemplates {
  std::string needle = "The magic number of {name} is {number}.";
  std::string question;            // empty: "\n What is the magic number of {name}? It is", or of several numbers
  std::vector<std::string> names;  // empty: names of cities
};
// Reads {"needle": "...", "question": "...", "names": ["...", ...]}, each optional.
NeedleTemplates LoadNeedleTemplates(const std::filesystem::path& file);

enum class WrongEndings {
  kOthers,   // any numbers
  kChanged,  // that differ from the answer and from each other in the same digit
  kSwapped,  // the answer with two digits swapped, with the other two, and with both pairs
};

struct NeedleQuestion {
  NeedleTemplates templates;
  ItemGrid grid;
  WrongEndings wrong = WrongEndings::kOthers;
  size_t needles = 4, questions = 1;  // N and R
  size_t values = 1, names = 1;       // V and A
};

// Keys: depth (of one needle asked for), length, needles, questions, query (from 1), values, names, wrong and sample.
std::vector<Json> MakeNeedles(const NeedleQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer);

// Copying names, as items: a passage of prose, and on a new line a part of it again up to a name; the wrong endings are
// three other names of the passage. A model that copies finds it without knowing the text; another name is an answer
// copied wrongly from the context. (For numbers see needles, with changed endings.)
//
// All four names are nearest to a depth of their own, dealt as for needles, and the repeated part would show none of
// them: the passage alone does not tell which is asked for. So short passages are few: of 128 tokens, one in a hundred
// of the embedded pair's text has four. A name for depth 0 is in its passage's first part, not at the beginning.
//
// A name is a capitalised word of four letters or more after a word inside a sentence. Draws are as for needles; depths
// are of the copied name, as near as one is found. Keys: depth, length and sample.
std::vector<Json> MakeCopies(const ItemGrid& grid, const Haystack& haystack, const Tokenizer& tokenizer);
// The name in a word, without surrounding characters; empty if it is none. before: the word before it.
std::string_view NameIn(std::string_view before, std::string_view word);

// RULER's variable tracking (arXiv 2404.06654): C chains of assignments in prose, a number over H hops of variables,
//
//   ... VAR QWERT = 12345. ... VAR ABCDE = VAR QWERT. ... VAR XYZZY = VAR ABCDE. ...
//
// As choices, the question names the last variable of a chain, "What is the value of VAR XYZZY? It is", and the endings
// are the numbers of all chains. As targets it is RULER's: "Find all variables that have the value 12345. They are",
// and the answer lists the variables of the chain in its order.
//
// Each chain's first assignment is at a depth of the list, dealt as for needles; others follow anywhere. Unlike RULER:
// the questions' words; every number is of one chain; its defaults are one chain and four hops.
struct VariableQuestion {
  ItemGrid grid;                // depths: of the first assignment of a chain
  size_t chains = 4, hops = 2;  // C and H
};

// With the keys depth, length, chains, hops and sample.
std::vector<Json> MakeVariables(const VariableQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer);

// In-context learning: lines "hour mother -> B", the last without its label; endings are all classes' labels
// (constrained decoding, as in the Differential Transformer's section 3.5). Items vary the number of examples and their
// order: a sample has the same examples in every order, and fewer are a subset of more.
//
// Made-up examples have labels that only the context tells: a class is two words of the text, a line one of them and
// any other word, the label a capital letter drawn for each sample. Or examples come from a data set: balanced over its
// classes and the same for all samples, which are its other examples.
//
// Dealt are the class that is asked for, over samples, and the place of its label, over items. Of made-up
// labels every eight samples have each of the eight letters as the answer once, and offer each of them equally often.
struct Example {
  std::string text, label;
};
// Reads JSON lines {"text": "...", "label": "..."}; a label may be a whole number. Throws Error with file and line.
std::vector<Example> LoadExamples(const std::filesystem::path& file);

enum class ShotOrder {
  kRandom,
  kAlternating,  // one of each class in turn; classes and the examples of each in random order
};
ShotOrder ParseShotOrder(const std::string& name);  // parses "random" or "alternating"; throws Error

struct ShotQuestion {
  std::vector<size_t> shots{8, 16, 32};  // examples in the context, all classes together
  std::vector<ShotOrder> orders{ShotOrder::kRandom, ShotOrder::kAlternating};
  size_t seeds = 5;    // per order
  size_t classes = 4;  // of made-up examples, at most 8
  size_t samples = 50;
  uint64_t seed = 1;
  std::string line = "{text} -> {label}";
  AnswerForm answers = AnswerForm::kChoices;
};

// With the keys shots, order, seed (of the order, from 0), classes and sample. words: for made-up examples.
std::vector<Json> MakeShots(const ShotQuestion& question, Haystack::Words words);
std::vector<Json> MakeShots(const ShotQuestion& question, const std::vector<Example>& data);

}  // namespace tare
