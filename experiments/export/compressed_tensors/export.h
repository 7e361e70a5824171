// SPDX-License-Identifier: Apache-2.0
// A quantized checkpoint as a folder of compressed-tensors, for other programs: codes and scales in the
// tensors of its schemes, config.json with quantization_config, everything else unchanged, and README.md, which says
// what was done. What the schemes cannot hold is refused by name (scheme.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

struct CompressedSummary {
  int64_t bytes = 0;                   // of the written tensors
  std::map<std::string, int> formats;  // matrices by format
};

// Names of files that the folder may get.
std::vector<std::string> CompressedFiles();

// Creates the folder if there is none, and replaces these files. `version` is Tare's. Holds codes and scales in memory.
CompressedSummary ExportCompressed(const std::filesystem::path& quantized, const std::filesystem::path& folder,
                                   std::string_view version);

// "28 matrices in pack-quantized".
std::string FormatsText(const CompressedSummary& summary);

}  // namespace tare
