// SPDX-License-Identifier: Apache-2.0
// Converts a model to another family's layout, if that family can express the computation: V1 as its authors store it
// (diff_v1) and as Hugging Face does (diffllama), and any family's foreign names, pairing or rotary layout in its own.
//
//   heads    blocks of d rows of q, k and v, from where one table of heads has them to where the other does
//   rotary   rows of q and k within a head: channels 2i, 2i + 1 where the others are i, i + d/2
//   subln    a head norm's weight goes into the columns of o_proj, in f32; where the target has one, it is ones
//
// All tensors except o_proj keep their bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "experiments/passes/progress.h"

namespace tare {

struct ConvertSummary {
  int tensors = 0, moved = 0, folded = 0;  // moved: rows in another order; folded: o_proj times a head norm's weight
  int64_t bytes = 0;
};

// Writes config.json, model.safetensors and the tokenizer's files into the folder, which is made. Throws Error where
// the family named `to` cannot say what the model computes, and why.
ConvertSummary ConvertLayout(const std::filesystem::path& model, const std::string& to,
                             const std::filesystem::path& folder, const Progress& progress = {});

}  // namespace tare
