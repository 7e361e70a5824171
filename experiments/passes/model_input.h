// SPDX-License-Identifier: Apache-2.0
// The input of any model: ids and texts (token_input.h), or for a vision tower images, one sequence each; and shards.
#pragma once

#include <cstddef>
#include <string_view>

#include "experiments/model/model.h"
#include "experiments/text/tokenizer/token_input.h"

namespace tare {

// The sequences of ids that stand for a vision tower's images, which are in the file at `path`.
TokenInput IdsOf(const Images& images, const std::filesystem::path& path);

// Loads the ids; for a vision tower, also shows the model the images. part: the part of a text to load.
TokenInput LoadModelInput(const std::filesystem::path& path, Model& model, const TextPart& part = {});

// One of several equal parts of a job or a text, as options name it: "2/5" is the third of five.
struct Shard {
  size_t index = 0, count = 1;
};

// Throws Error, naming the option, unless the text is "i/n" with i from 0 to n - 1.
Shard ParseShard(std::string_view option, std::string_view text);

}  // namespace tare
