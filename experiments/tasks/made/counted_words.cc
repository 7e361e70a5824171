// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/counted_words.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr size_t kOffered = 4;       // words to choose from: the answer first
constexpr size_t kRanks = 3;         // that targets list
constexpr size_t kKnownWords = 500;  // the most common of a text, where a list needs no more

// How often each word stands; words 0 .. kOffered - 1 are offered, at least twice each.
struct CountedWord {
  std::string word;
  size_t count = 0;
};

// The list's words: those offered, everything else shuffled, those offered again.
std::vector<std::string> Arranged(const std::vector<CountedWord>& counted, Draws& draws) {
  std::vector<std::string> ends, middle;
  for (size_t i = 0; i < counted.size(); ++i) {
    const size_t at_ends = i < kOffered ? 1 : 0;
    if (at_ends == 1) ends.push_back(counted[i].word);
    for (size_t n = 2 * at_ends; n < counted[i].count; ++n) middle.push_back(counted[i].word);
  }
  draws.Shuffle(middle);
  draws.Shuffle(ends);
  std::vector<std::string> all = ends;
  all.insert(all.end(), middle.begin(), middle.end());
  draws.Shuffle(ends);
  all.insert(all.end(), ends.begin(), ends.end());
  return all;
}

// The most steps of which list(steps) fits; `make` makes an item of a list that has grown in so many steps.
template <typename MakeItem>
MadeItem LongestFitting(int64_t length, size_t most, const Tokenizer& tokenizer, const char* where, MakeItem make) {
  const auto fits = [&](const MadeItem& item) {
    return PositionsOf(item.context, item.Endings(), tokenizer) <= static_cast<size_t>(length);
  };
  size_t fitting = 0, too_many = most + 1;
  MadeItem longest = make(0);
  if (!fits(longest))
    Fail("{}: got a length of {}, expected at least {}", where, length,
         PositionsOf(longest.context, longest.Endings(), tokenizer));
  while (fitting + 1 < too_many) {
    const size_t steps = fitting + (too_many - fitting) / 2;
    MadeItem item = make(steps);
    if (fits(item)) {
      longest = std::move(item);
      fitting = steps;
    } else {
      too_many = steps;
    }
  }
  return longest;
}

std::string Numbered(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += Formatted("{}{}. {}", i == 0 ? "" : " ", i + 1, words[i]);
  return text;
}

std::string Plain(const std::vector<std::string>& words) {
  return Joined(std::vector<std::string_view>(words.begin(), words.end()));
}

MadeItem Offering(const std::vector<std::string>& words) {
  return {.answer = words[0], .wrong = {words.begin() + 1, words.begin() + kOffered}};
}

// words: distinct, in any order. Word 0 is common, words 1 to 3 are not, nor are those after the common ones.
MadeItem CommonItem(const CommonWordQuestion& question, const std::vector<std::string>& words, size_t others,
                    Draws draws) {
  const size_t fillers = kOffered + question.common - 1;  // the first of them
  std::vector<CountedWord> counted;
  for (size_t i = 0; i < fillers + others; ++i)
    counted.push_back({words[i], i == 0 || (kOffered <= i && i < fillers) ? question.often : question.otherwise});
  MadeItem item = Offering(words);
  item.context = Numbered(Arranged(counted, draws));
  if (question.answers == AnswerForm::kChoices) {
    item.context += "\n One of the most common words of this list is";
    return item;
  }
  std::vector<std::string> common{words[0]};
  common.insert(common.end(), words.begin() + kOffered, words.begin() + static_cast<ptrdiff_t>(fillers));
  std::ranges::sort(common);
  item.context += common.size() == 1 ? "\n The most common word of this list is"
                                     : Formatted("\n The {} most common words of this list are", common.size());
  item.answer = Listed(common);
  item.listed = common;
  return item;
}

// "vebol": consonants and vowels in turn.
std::string DrawWord(Draws& draws) {
  constexpr std::string_view kConsonants = "bdfgklmnprstvz", kVowels = "aeiou";
  std::string word;
  for (size_t i = 0; i < 5; ++i) {
    const std::string_view letters = i % 2 == 0 ? kConsonants : kVowels;
    word += letters[draws.Below(letters.size())];
  }
  return word;
}

// About first r^-2 times the word of rank r, down to once; the offered ones at least twice, each less than that before.
std::vector<CountedWord> Ranked(const std::vector<std::string>& words, size_t first) {
  std::vector<CountedWord> ranked;
  for (size_t rank = 1; rank <= words.size(); ++rank) {
    const size_t share = (2 * first + rank * rank) / (2 * rank * rank);  // first / rank^2, rounded
    const size_t least = rank <= kOffered ? 2 + kOffered - rank : 1;
    if (share == 0 && rank > kOffered) break;
    ranked.push_back({words[rank - 1], std::max(share, least)});
  }
  return ranked;
}

MadeItem FrequentItem(AnswerForm form, const std::vector<std::string>& words, size_t first, Draws draws) {
  MadeItem item = Offering(words);
  item.context = Plain(Arranged(Ranked(words, first), draws));
  item.context += form == AnswerForm::kChoices
                      ? "\n The most frequent word of this list is"
                      : Formatted("\n The {} most frequent words of this list, the most frequent first, are", kRanks);
  if (form == AnswerForm::kChoices) return item;
  item.listed.assign(words.begin(), words.begin() + kRanks);
  item.answer = Listed(item.listed);
  return item;
}

}  // namespace

std::vector<Json> MakeCommonWords(const CommonWordQuestion& question, const std::vector<std::string>& pool,
                                  const Tokenizer& tokenizer) {
  if (question.otherwise < 2 || question.often <= question.otherwise)
    Fail("often: got {} and {} otherwise, expected more than otherwise, and otherwise at least 2", question.often,
         question.otherwise);
  const size_t least = kOffered + question.common - 1;
  if (pool.size() < least)
    Fail("common words: got a text with {} different words of four small letters or more, expected at least {}",
         pool.size(), least);
  Draws draws(question.seed);
  ItemWriter writer(question.answers, question.seed);
  return ForGrid(question.samples, question.lengths, 1, [&](size_t sample, int64_t length, size_t) {
    // A word takes at least a position each time.
    const size_t most = std::min(pool.size() - least, static_cast<size_t>(length) / question.otherwise);
    std::vector<std::string> words;
    const size_t from = std::min(pool.size(), std::max(kKnownWords, least + most));
    for (const size_t i : draws.Sample(from, least + most)) words.push_back(pool[i]);
    const Draws arranged(draws.Below(SIZE_MAX));
    MadeItem item = LongestFitting(length, most, tokenizer, "common words",
                                   [&](size_t others) { return CommonItem(question, words, others, arranged); });
    item.keys = {{"length", length},
                 {"common", question.common},
                 {"often", question.often},
                 {"otherwise", question.otherwise},
                 {"sample", sample}};
    item.stop = {"\n", "."};
    return std::vector{writer.Write(item)};
  });
}

std::vector<Json> MakeFrequentWords(const FrequentWordQuestion& question, const Tokenizer& tokenizer) {
  Draws draws(question.seed);
  ItemWriter writer(question.answers, question.seed);
  return ForGrid(question.samples, question.lengths, 1, [&](size_t sample, int64_t length, size_t) {
    // The first word alone stands at most `length` times, and words down to rank sqrt(2 length) at all.
    const auto most = static_cast<size_t>(length);
    std::set<std::string> used;
    std::vector<std::string> words;
    while (words.size() < kOffered + static_cast<size_t>(std::sqrt(2.0 * static_cast<double>(most)))) {
      if (const std::string word = DrawWord(draws); used.insert(word).second) words.push_back(word);
    }
    const Draws arranged(draws.Below(SIZE_MAX));
    MadeItem item = LongestFitting(length, most, tokenizer, "frequent words", [&](size_t first) {
      return FrequentItem(question.answers, words, first, arranged);
    });
    item.keys = {{"length", length}, {"sample", sample}};
    item.stop = {"\n", "."};
    return std::vector{writer.Write(item)};
  });
}

}  // namespace tare
