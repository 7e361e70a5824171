// SPDX-License-Identifier: Apache-2.0
// The input of any model: ids and texts (token_input.h), or for a vision tower images, one sequence each (images.h).
#pragma once

#include "experiments/model/model.h"
#include "experiments/text/tokenizer/token_input.h"

namespace tare {

// The ids, without a model that could run them.
TokenInput LoadModelInput(const std::filesystem::path& path, const std::filesystem::path& model_folder,
                          const ModelConfig& config);
// The same, and the images or tokens that they stand for are shown to the model.
TokenInput LoadModelInput(const std::filesystem::path& path, Model& model);

}  // namespace tare
