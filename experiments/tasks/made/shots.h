// SPDX-License-Identifier: Apache-2.0
// Learning from examples in the context, as items of multiple choice: lines "hour mother -> B", and a last one without
// its label; the endings are the labels of all classes (constrained decoding, as the Differential Transformer's section
// 3.5 has it). Over the number of examples, and for robustness over their order: of a sample the same examples in every
// order, those of fewer are among those of more.
//
// Examples are made up, so that only the context tells their labels: a class is two words of the text, a line one of
// them and any other word, the label a capital letter that is drawn for each sample. Or they are taken from a data set:
// balanced over its classes, the same for all samples, which are its other examples.
//
// All is drawn from the seed, samples outermost.
#pragma once

#include <filesystem>

#include "experiments/tasks/made/haystack.h"
#include "quant/file/json.h"

namespace tare {

struct Example {
  std::string text, label;
};
// JSON lines {"text": "...", "label": "..."}; a label may be a whole number. Throws Error with file and line.
std::vector<Example> LoadExamples(const std::filesystem::path& file);

enum class ShotOrder {
  kRandom,
  kAlternating,  // one of each class in turn, classes and the examples of each drawn
};
// "random" or "alternating"; throws Error.
ShotOrder ParseShotOrder(const std::string& name);

struct ShotQuestion {
  std::vector<size_t> shots{8, 16, 32};  // examples in the context, all classes together
  std::vector<ShotOrder> orders{ShotOrder::kRandom, ShotOrder::kAlternating};
  size_t seeds = 5;    // of each order
  size_t classes = 4;  // of made-up examples: at most 8
  size_t samples = 50;
  uint64_t seed = 1;
  std::string line = "{text} -> {label}";
};

// {"ctx", "endings", "label"} and the keys shots, order, seed (of the order, from 0), classes and sample.
// words: of made-up examples.
std::vector<nlohmann::ordered_json> MakeShots(const ShotQuestion& question, Haystack::Words words);
std::vector<nlohmann::ordered_json> MakeShots(const ShotQuestion& question, const std::vector<Example>& data);

}  // namespace tare
