// SPDX-License-Identifier: Apache-2.0
// The origin of a quantized checkpoint: all steps from the first checkpoint.
#pragma once

#include <filesystem>
#include <string>

#include "quant/file/checkpoint.h"
#include "quant/file/quantized_checkpoint.h"

namespace tare {

// Throws Error for a file with codes: they are not quantized again.
void RefuseCodes(const Checkpoint& files, const std::filesystem::path& model);

// Of a model that a step starts from: a folder's name and hash, or what a file says of itself.
Provenance ProvenanceOf(const Checkpoint& files, const std::filesystem::path& model);

// Adds what a step did: its name to the method, the text it looked at (if any) to the calibration.
void AddStep(Provenance& provenance, const std::string& method, const std::string& calibration);

// Throws Error unless the file was made by this job for a model with this config.json, naming the file and what
// differs.
void RequireSameJob(const std::filesystem::path& path, const QuantizedCheckpoint& file, const Provenance& job,
                    const std::string& config);

}  // namespace tare
