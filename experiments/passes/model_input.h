// SPDX-License-Identifier: Apache-2.0
// The input of any model: ids and texts (token_input.h), or for a vision tower images, one sequence each.
#pragma once

#include "experiments/model/model.h"
#include "experiments/text/tokenizer/token_input.h"

namespace tare {

// Of a vision tower's images, which are in the file at `path`.
TokenInput IdsOf(const Images& images, const std::filesystem::path& path);

// The ids alone, without a model to run them. part: of a text.
TokenInput LoadModelInput(const std::filesystem::path& path, const std::filesystem::path& model_folder,
                          const ModelConfig& config, const TextPart& part = {});
// The same; also shows the model the images that the ids refer to.
TokenInput LoadModelInput(const std::filesystem::path& path, Model& model, const TextPart& part = {});

}  // namespace tare
