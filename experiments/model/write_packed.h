// SPDX-License-Identifier: Apache-2.0
// Packs what a plan executes of a model's linear layers into a file (packed_file.h), a matrix at a time.
#pragma once

#include <filesystem>

#include "experiments/model/model.h"
#include "experiments/model/packed_file.h"

namespace tare {

// progress: "matrices of weights". Throws Error as packing does, and after RequestStop; then there is no file.
void WritePacked(const std::filesystem::path& path, const PackedSource& source, const Model& model,
                 const ResolvedPlan& plan, const Model::PlanProgress& progress = {});

}  // namespace tare
