// SPDX-License-Identifier: Apache-2.0
// tare dump: a model's tensors as an HDF5 file, for analysis in Python and parity tests. Datasets and shapes, for B
// sequences of T tokens (E hidden, V vocabulary, H the checkpoint's query heads), all f32 but the ids:
//
//   /input_ids         [B,T] i64
//   /logits            [B,T,V]
//   /embed             [B,T,E]
//   /layer_out.{i}     [B,T,E]
//   /final_norm        [B,T,E]
//   /attn_logits.{i}   [B,H,T,T]   scaled, before the softmax, masked = -inf
//
// Or, named .kld, the logits as llama.cpp's base file (arrays/array_file.h).
//
// Under a plan these are the values that the model uses next. Attention in integers does not show attn_logits.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/passes/sequences.h"

namespace tare {

// The origin of the file besides model and plan: attributes by name.
using DumpOrigin = std::map<std::string, std::string>;

// sites: of those above, without layers. Sequences must have the same length. The file is complete or absent.
void Dump(Model& model, PlanRun& run, const std::vector<ScoredSequence>& sequences, const std::set<std::string>& sites,
          const std::filesystem::path& out, const Progress& progress, const DumpOrigin& origin = {});

}  // namespace tare
