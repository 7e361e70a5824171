// SPDX-License-Identifier: Apache-2.0
// Equivalent weights: channels are scaled or rotated on one side of a linear layer and back on the other. The output is
// the same except for f32 rounding; what changes is where outliers are, and so the loss at low bit widths.
//
//   Rotated (QuaRot, arXiv 2404.00456, without its rotations at run time)
//     residual stream x -> x R: the norms' weights go into the layers after them; R into embedding, q, k, v, gate, up
//     and head on the input side, into o and down on the output side. A root mean square does not see R.
//     values of a head -> v R': into v's output side and o's input side. The two value slices of a head are turned
//     together, which a head norm without weight does not see either (not where slices do not go in fixed pairs).
//   Smoothed (SmoothQuant, arXiv 2211.10438): input channel j of a layer divided by s_j, its weights multiplied
//     q, k, v and gate, up: 1/s into the norm before them; down: into up's output; o: into v's output, one s for all
//     heads that share it, where the family has nothing in between.
// What a family lets be done: Family::rotation and Family::smoothed (experiments/model/family.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/model/config.h"
#include "experiments/passes/progress.h"
#include "quant/algorithms/hadamard.h"
#include "quant/file/checkpoint.h"
#include "quant/file/quantized_checkpoint.h"
#include "quant/plan/site.h"

namespace tare {

// How a tensor W [out, in] (a vector: in = 1) comes from a stored one: scaled, then turned.
struct TensorChange {
  std::string source;
  std::vector<float> in_scale, out_scale;  // empty: 1
  std::shared_ptr<const Hadamard> in;      // turns consecutive blocks of inputs
  std::shared_ptr<const Hadamard> out;     // turns blocks of outputs, consecutive in out_order
  std::vector<int64_t> out_order;          // empty: as they are
  float offset = 0;                        // what is scaled is the stored value plus this: 1 of a (1 + w) norm
  bool ones = false;                       // becomes 1 everywhere, as a norm's weight that went elsewhere
};

struct EquivalentWeights {
  std::map<std::string, TensorChange> changes;  // by the name that the tensor has afterwards
  bool unties = false;                          // embedding and head become two
};

// s_j by the input's site, of one layer: q_proj.in [E], gate_proj.in [E], down_proj.in [I]; o_proj.in [G d], by the
// channel of v. A site that is missing, or that cannot be smoothed, stays.
using LayerSmoothing = std::map<Site, std::vector<float>>;

// Throws Error for a size that has no Hadamard matrix, and for a family that cannot be turned.
EquivalentWeights Rotated(const Checkpoint& files, const ModelConfig& config, uint64_t seed);
EquivalentWeights Smoothed(const Checkpoint& files, const ModelConfig& config,
                           const std::vector<LayerSmoothing>& layers);

// config.json of the model; and the same with tied embeddings made two.
std::string ConfigOf(const std::filesystem::path& model);
std::string UntiedConfigOf(const std::filesystem::path& model);

// The checkpoint with its changes, in f32 where something changed, as a MODEL file without codes. Holds one matrix in
// memory.
void WriteEquivalent(const Checkpoint& files, const std::filesystem::path& model, const EquivalentWeights& weights,
                     const Provenance& provenance, const std::filesystem::path& out, const Progress& progress);

}  // namespace tare
