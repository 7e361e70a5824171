// SPDX-License-Identifier: Apache-2.0
// A quantized checkpoint as a folder in Hugging Face layout, for every program that knows no codes: quantized matrices
// as the f32 numbers that they stand for, everything else as it was.
#pragma once

#include <filesystem>

namespace tare {

// The folder is made, and must not hold a checkpoint already. Holds the dequantized weights in memory meanwhile.
void ExportDequantized(const std::filesystem::path& quantized, const std::filesystem::path& folder);

}  // namespace tare
