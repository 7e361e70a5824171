// SPDX-License-Identifier: Apache-2.0
// Reads config.json of a checkpoint folder or a quantized checkpoint under Hugging Face's keys. Both spellings of the
// rotary parameters are accepted: transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters). Throws Error if a
// required key is missing, a value is impossible, or a key changes the computation in a way that is not supported.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "experiments/model/config/config.h"

namespace tare {

ModelConfig LoadConfig(const std::filesystem::path& path);
ModelConfig ParseConfig(std::string_view text, const std::string& where);

}  // namespace tare
