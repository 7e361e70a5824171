// SPDX-License-Identifier: Apache-2.0
// A checkpoint folder in Hugging Face layout as a checkpoint: its tensors, and the matrices that another tool
// quantized, where config.json has a quantization_config.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "quant/file/checkpoint_source.h"

namespace tare {

std::unique_ptr<const CheckpointSource> OpenFolderCheckpoint(const std::filesystem::path& folder);
// A file of the folder, config.json with the entries of tensor-names.json; nullopt if there is none.
std::optional<std::string> FolderText(const std::filesystem::path& folder, const std::string& name);

}  // namespace tare
