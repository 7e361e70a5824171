// SPDX-License-Identifier: Apache-2.0
// Copying names, as multiple-choice items: a passage of prose, and on a new line a part of it again up to a name; the
// endings are that name and three others, preferably from the passage. A model that copies finds it without knowing the
// text; another name is an answer copied wrongly from the context. (For numbers see needles.h, with changed endings.)
//
// A name is a capitalised word of four letters or more that follows a word in the middle of a sentence. Draws are like
// those of needles.
#pragma once

#include "experiments/tasks/made/haystack.h"
#include "quant/file/json_value.h"

namespace tare {

struct CopyQuestion {
  std::vector<int64_t> lengths{512};                  // positions, as for needles
  std::vector<double> depths{0, 0.25, 0.5, 0.75, 1};  // of the copied name, as near as a name is found
  size_t samples = 50;                                // items per length and depth
  uint64_t seed = 1;
};

// {"ctx", "endings", "label"} with the keys depth, length and sample.
std::vector<Json> MakeCopies(const CopyQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer);

// The name in a word, without surrounding characters; empty if it is none. before: the word before it.
std::string_view NameIn(std::string_view before, std::string_view word);

}  // namespace tare
