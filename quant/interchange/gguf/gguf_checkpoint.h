// SPDX-License-Identifier: Apache-2.0
// A GGUF file as a checkpoint, or all of a model's parts where one is given, and the small files that a folder would
// have.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "quant/file/checkpoint_source.h"

namespace tare {

std::unique_ptr<const CheckpointSource> OpenGguf(const std::filesystem::path& path);
// config.json or a file of the tokenizer; nullopt if there is none.
std::optional<std::string> GgufText(const std::filesystem::path& path, const std::string& name);

}  // namespace tare
