// SPDX-License-Identifier: Apache-2.0
// Counting words of a list, the aggregation tasks of RULER (arXiv 2404.06654):
//
//   common words    "1. hour 2. mother 3. hour ...": K words stand F times each, all others R times
//   frequent words  "vebol tikas vebol ...": made-up words; that of rank r stands about r^-2 as often as the first
//
// As choices, the question is for one: a common word among three of the others; the first rank among the next three.
// As targets it is for the K common words, or for the first three ranks, which the answer lists: common words in
// alphabetical order, ranks in theirs.
//
// The four words to choose from stand at the beginning of the list, in any order, and again at its end; between them
// everything is shuffled. So only how often a word is mentioned tells the answer: the guess "most frequent" is what is
// asked for, and scores 1.
//
// What differs from RULER: the words of the questions; how often words stand by default (30 and 3 there, for lists of
// thousands of tokens); the made-up words have no dots between them.
#pragma once

#include "experiments/tasks/made/haystack.h"
#include "experiments/tasks/made/made_item.h"

namespace tare {

struct CommonWordQuestion {
  std::vector<int64_t> lengths{512};             // positions, as for needles
  size_t common = 4, often = 10, otherwise = 3;  // K, F and R; K at least 1, F above R, R at least 2
  size_t samples = 50;                           // lists per length
  uint64_t seed = 1;
  AnswerForm answers = AnswerForm::kChoices;
};
// pool: words to draw from, the most common first. With the keys length, common, often, otherwise and sample.
std::vector<Json> MakeCommonWords(const CommonWordQuestion& question, const std::vector<std::string>& pool,
                                  const Tokenizer& tokenizer);

struct FrequentWordQuestion {
  std::vector<int64_t> lengths{512};
  size_t samples = 50;
  uint64_t seed = 1;
  AnswerForm answers = AnswerForm::kChoices;
};
// With the keys length and sample.
std::vector<Json> MakeFrequentWords(const FrequentWordQuestion& question, const Tokenizer& tokenizer);

}  // namespace tare
