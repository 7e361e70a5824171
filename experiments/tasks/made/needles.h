// SPDX-License-Identifier: Apache-2.0
// Retrieval from a haystack, as multiple-choice items (experiments/tasks/items/choice_items.h), by length and depth:
// the protocol of the Differential Transformer's section 3.4. Prose contains N needles, each "The magic number of Paris
// is 1234.", and ends with R questions, "What is the magic number of Paris? It is". Each question is an item, after the
// earlier questions with their true answers, so that all R answers count. Queried needles are at the depths in turn,
// others anywhere.
//
// What differs from the paper: the answer is the likeliest of the numbers that are there (filled up to four with
// numbers that stand nowhere) and not generated, and an earlier answer that was wrong does no harm to those after it;
// all needles that are asked for stand at depths of the list, not only one. Items of one haystack are not independent:
// intervals are over samples (experiments/tasks/groups.h).
//
// For copying errors, the wrong endings are the answer itself, changed; no judge is needed.
//
// Everything is drawn from the seed, item by item with samples outermost: the file is the same on every machine, and
// with fewer samples, or a limit, it is the beginning of the same file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/tasks/made/haystack.h"
#include "quant/file/json_value.h"

namespace tare {

struct NeedleTemplates {
  std::string needle = "The magic number of {name} is {number}.";
  std::string question = "\n What is the magic number of {name}? It is";
  std::vector<std::string> names;  // empty: names of cities
};
// Reads {"needle": "...", "question": "...", "names": ["...", ...]}, each optional.
NeedleTemplates LoadNeedleTemplates(const std::filesystem::path& file);

enum class WrongEndings {
  kOthers,   // the other needles' numbers
  kChanged,  // the answer with one digit changed
  kSwapped,  // the answer with two digits swapped
};
// Parses "others", "changed" or "swapped"; throws Error.
WrongEndings ParseWrongEndings(const std::string& name);

struct NeedleQuestion {
  NeedleTemplates templates;
  std::vector<int64_t> lengths{512};  // positions per item: <s>, context and ending. The last few may stay unused
  std::vector<double> depths{0, 0.25, 0.5, 0.75, 1};
  WrongEndings wrong = WrongEndings::kOthers;
  size_t needles = 4, questions = 1;  // N and R
  size_t samples = 50;                // haystacks per length and depth
  uint64_t seed = 1;
};

// {"ctx", "endings", "label"} with the keys depth, length, needles, questions, query (from 1, in the order of
// questions), wrong and sample.
std::vector<Json> MakeNeedles(const NeedleQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer);

}  // namespace tare
