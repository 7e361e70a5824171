// SPDX-License-Identifier: Apache-2.0
// Retrieval from a haystack, as items of multiple choice (experiments/tasks/choice_items.h), over lengths and depths:
// the protocol of the Differential Transformer's section 3.4. Prose with N needles, "The magic number of Paris is
// 1234." each, and at its end R questions, "What is the magic number of Paris? It is". Each question is an item, the
// ones before it followed by their true answers, so that all R answers count. The needles that are asked for stand at
// the depths in turn, the others anywhere.
//
// What differs from the paper: the answer is the likeliest of the numbers that are there (filled up to four with
// numbers that stand nowhere) and not generated, and an earlier answer that was wrong does no harm to those after it;
// all needles that are asked for stand at depths of the list, not only one. Items of one haystack are not independent:
// intervals are over samples (experiments/tasks/samples.h).
//
// Copying errors, for which no judge is needed: the wrong endings are the answer itself, changed.
//
// All is drawn from the seed, one item after the other, samples outermost: the same file on every machine, and of fewer
// samples, or with a limit, the beginning of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/tasks/made/haystack.h"
#include "quant/file/json.h"

namespace tare {

struct NeedleTemplates {
  std::string needle = "The magic number of {name} is {number}.";
  std::string question = "\n What is the magic number of {name}? It is";
  std::vector<std::string> names;  // empty: of cities
};
// {"needle": "...", "question": "...", "names": ["...", ...]}, each of which may be missing.
NeedleTemplates LoadNeedleTemplates(const std::filesystem::path& file);

enum class WrongEndings {
  kOthers,   // the other needles' numbers
  kChanged,  // the answer with one digit changed
  kSwapped,  // with two of its digits swapped
};
// "others", "changed" or "swapped"; throws Error.
WrongEndings ParseWrongEndings(const std::string& name);

struct NeedleQuestion {
  NeedleTemplates templates;
  std::vector<int64_t> lengths{512};  // positions of an item: <s>, context and ending. The last few may be left free
  std::vector<double> depths{0, 0.25, 0.5, 0.75, 1};
  WrongEndings wrong = WrongEndings::kOthers;
  size_t needles = 4, questions = 1;  // N and R
  size_t samples = 50;                // haystacks of each length and depth
  uint64_t seed = 1;
};

// {"ctx", "endings", "label"} and the keys depth, length, needles, questions, query (from 1, as asked), wrong and
// sample.
std::vector<nlohmann::ordered_json> MakeNeedles(const NeedleQuestion& question, const Haystack& haystack,
                                                const Tokenizer& tokenizer);

}  // namespace tare
