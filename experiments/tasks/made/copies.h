// SPDX-License-Identifier: Apache-2.0
// Copying names, as items of multiple choice: a passage of prose, and on a new line a stretch of it again up to a name;
// the endings are that name and three others, of the passage first. A model that copies finds it without knowing the
// text; another name is an answer from the context that was copied wrongly. (Numbers: needles.h, with changed
// endings.)
//
// A name is a capitalised word of four letters or more that follows a word in the middle of a sentence. Drawn as
// needles are.
#pragma once

#include "experiments/tasks/made/haystack.h"
#include "quant/file/json.h"

namespace tare {

struct CopyQuestion {
  std::vector<int64_t> lengths{512};                  // positions, as needles have them
  std::vector<double> depths{0, 0.25, 0.5, 0.75, 1};  // where the copied name stands, as near as there is one
  size_t samples = 50;                                // items of each length and depth
  uint64_t seed = 1;
};

// {"ctx", "endings", "label"} and the keys depth, length and sample.
std::vector<nlohmann::ordered_json> MakeCopies(const CopyQuestion& question, const Haystack& haystack,
                                               const Tokenizer& tokenizer);

// The name that a word is, without what is around it; empty where it is none. before: the word before it.
std::string_view NameIn(std::string_view before, std::string_view word);

}  // namespace tare
