// SPDX-License-Identifier: Apache-2.0
// Retrieval from a haystack, by length and depth: the protocol of the Differential Transformer's section 3.4, and the
// kinds of needles of RULER (arXiv 2404.06654). Prose contains N names with V needles each, "The magic number of Paris
// is 1234.", and ends with R questions, "What is the magic number of Paris? It is", or of A names at once, "What are
// the magic numbers of Paris and Rome? They are", whose answer lists all their numbers: name by name, as they stand in
// the text. Each question is an item, after the earlier questions with their true answers, so that all R answers count.
//
// Every needle takes each depth of the list once in a round of haystacks (DepthDealer), those that are asked for like
// the others: a question asks for the first needle of its haystack as often as for the last. Of one depth alone that
// is not so: at depth 0 no needle comes before the answer.
//
// The wrong endings are the numbers of other needles, so all stand in the context; those of earlier questions are not
// among them, because their place in the text is given away. All questions have N/A - R + 1 endings. For copying
// errors the needles' numbers resemble each other: four numbers that differ in one digit, or that swapping two pairs
// of digits makes of each other. Seen alone, each of the four is as likely to be the answer.
//
// What differs from the paper: the answer is the likeliest of numbers that are there and not generated (write targets
// for that), an earlier answer that was wrong does no harm to those after it, and other needles stand at depths of the
// list, too. Items of one haystack are not independent: intervals are over samples (experiments/tasks/groups.h).
//
// Everything is drawn from the seed, item by item with samples outermost: the file is the same on every machine, and
// with fewer samples, or a limit, it is the beginning of the same file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/tasks/made/haystack.h"
#include "experiments/tasks/made/made_item.h"
#include "quant/file/json_value.h"

namespace tare {

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
// Parses "others", "changed" or "swapped"; throws Error.
WrongEndings ParseWrongEndings(const std::string& name);

struct NeedleQuestion {
  NeedleTemplates templates;
  std::vector<int64_t> lengths{512};  // positions per item: <s>, context and ending. The last few may stay unused
  std::vector<double> depths{0, 0.25, 0.5, 0.75, 1};
  WrongEndings wrong = WrongEndings::kOthers;
  size_t needles = 4, questions = 1;  // N and R
  size_t values = 1, names = 1;       // V and A
  size_t samples = 50;                // haystacks per length and depth
  uint64_t seed = 1;
  AnswerForm answers = AnswerForm::kChoices;
};

// With the keys depth (of one needle that is asked for), length, needles, questions, query (from 1, in the order of
// questions), values, names, wrong and sample.
std::vector<Json> MakeNeedles(const NeedleQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer);

}  // namespace tare
