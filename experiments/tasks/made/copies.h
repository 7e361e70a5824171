// SPDX-License-Identifier: Apache-2.0
// Copying names, as items: a passage of prose, and on a new line a part of it again up to a name; the wrong endings are
// three other names of the passage. A model that copies finds it without knowing the text; another name is an answer
// copied wrongly from the context. (For numbers see needles.h, with changed endings.)
//
// All four names are those nearest to a depth of their own, dealt as for needles, and the part that stands again would
// show none of them whichever is asked for: the passage alone does not tell which one is. So short passages are few:
// of 128 tokens, one in a hundred of the embedded pair's text has four such names. And a name for depth 0 stands in the
// first part of its passage, not at the beginning.
//
// A name is a capitalised word of four letters or more that follows a word in the middle of a sentence. Draws are like
// those of needles.
#pragma once

#include "experiments/tasks/made/haystack.h"
#include "experiments/tasks/made/made_item.h"
#include "quant/file/json_value.h"

namespace tare {

struct CopyQuestion {
  std::vector<int64_t> lengths{512};                  // positions, as for needles
  std::vector<double> depths{0, 0.25, 0.5, 0.75, 1};  // of the copied name, as near as a name is found
  size_t samples = 50;                                // items per length and depth
  uint64_t seed = 1;
  AnswerForm answers = AnswerForm::kChoices;
};

// With the keys depth, length and sample.
std::vector<Json> MakeCopies(const CopyQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer);

// The name in a word, without surrounding characters; empty if it is none. before: the word before it.
std::string_view NameIn(std::string_view before, std::string_view word);

}  // namespace tare
