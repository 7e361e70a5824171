// SPDX-License-Identifier: Apache-2.0
// One reading of a checkpoint before a long job: its hash, and whether its values are finite. Each part of a file is
// checked where it has just been hashed, so that a checkpoint larger than memory comes from the disk once.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/passes/progress.h"

namespace tare {

// Returns the ContentHash of the checkpoint. Throws Error, starting with the path, if a tensor in f32, bf16 or f16 has
// a value that is not finite; what other tools quantized is checked where it is dequantized. Progress in bytes, of a
// folder.
std::string ReadWhole(const std::filesystem::path& path, const Progress& progress);

}  // namespace tare
