// SPDX-License-Identifier: Apache-2.0
// Converts a model to another family's layout, if that family can express the computation: V1 as its authors store it
// (diff_v1) or as Hugging Face does (diffllama), and any family's foreign names, pairing or rotary layout to its own.
//
//   heads    moves blocks of d rows of q, k and v from their place in one head table to that in the other
//   rotary   reorders rows of q and k within a head: channels 2i, 2i + 1 against i, i + d/2
//   subln    multiplies a head norm's weight into the columns of o_proj, in f32; the target's own, if any, is ones
//
// All tensors except o_proj keep their bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "experiments/passes/progress.h"

namespace tare {

struct ConvertSummary {
  int tensors = 0, moved = 0, folded = 0;  // moved: with reordered rows; folded: o_proj times a head norm's weight
  int64_t bytes = 0;
};

// Creates the folder and writes config.json, model.safetensors and the tokenizer's files. Throws Error, with the
// reason, if the family named `to` cannot express what the model computes.
ConvertSummary ConvertLayout(const std::filesystem::path& model, const std::string& to,
                             const std::filesystem::path& folder, const Progress& progress = {});

}  // namespace tare
