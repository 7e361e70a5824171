// SPDX-License-Identifier: Apache-2.0
// In-context learning, as items: lines "hour mother -> B", and a last one without its label; the endings are the labels
// of all classes (constrained decoding, as in the Differential Transformer's section 3.5). Items vary the number of
// examples and, for robustness, their order: a sample has the same examples in every order, and fewer examples are a
// subset of more.
//
// Made-up examples have labels that only the context tells: a class is two words of the text, a line one of them and
// any other word, the label a capital letter drawn for each sample. Or examples come from a data set: balanced over its
// classes and the same for all samples, which are its other examples.
//
// Dealt (made_item.h) are the class that is asked for, over samples, and the place of its label, over items. Of made-up
// labels every eight samples have each of the eight letters as the answer once, and offer each of them equally often.
//
// Everything is drawn from the seed, samples outermost.
#pragma once

#include <filesystem>

#include "experiments/tasks/made/haystack.h"
#include "experiments/tasks/made/made_item.h"
#include "quant/file/json_value.h"

namespace tare {

struct Example {
  std::string text, label;
};
// Reads JSON lines {"text": "...", "label": "..."}; a label may be a whole number. Throws Error with file and line.
std::vector<Example> LoadExamples(const std::filesystem::path& file);

enum class ShotOrder {
  kRandom,
  kAlternating,  // one of each class in turn; classes and the examples of each in random order
};
// Parses "random" or "alternating"; throws Error.
ShotOrder ParseShotOrder(const std::string& name);

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

// With the keys shots, order, seed (of the order, from 0), classes and sample. words: for
// made-up examples.
std::vector<Json> MakeShots(const ShotQuestion& question, Haystack::Words words);
std::vector<Json> MakeShots(const ShotQuestion& question, const std::vector<Example>& data);

}  // namespace tare
