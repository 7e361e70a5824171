// SPDX-License-Identifier: Apache-2.0
// Equivalent weights: channels are scaled or rotated on one side of a linear layer and back on the other. The output is
// the same except for f32 rounding; what changes is where outliers are, and therefore the loss at low bit widths.
//
//   Rotated (QuaRot, arXiv 2404.00456, without its rotations at run time)
//     residual stream x -> x R: the norms' weights go into the layers after them; R into embedding, q, k, v, gate, up
//     and head on the input side, into o and down on the output side; a router and experts as gate, up and down. R
//     leaves a root mean square unchanged. Where norms subtract the mean, R leaves that unchanged, too, and their
//     biases b, whose weights w have gone into the layers after them, become (b / w) R.
//     values of a head -> v R': into v's output side and o's input side, the same for all heads of a layer. The two
//     value slices of a head are rotated together, which leaves a head norm without weight unchanged, too (not if
//     slices do not form fixed pairs); a head norm's weight goes into o before.
//   Smoothed (SmoothQuant, arXiv 2211.10438): input channel j of a layer divided by s_j, its weights multiplied
//     q, k, v and gate, up (and a router): 1/s into the norm before them, weight and bias; down: into up's output; o:
//     into v's output, with one s for all heads that share it, if the family has nothing in between, or into a head
//     norm's weight, with one s for all heads; dt_proj: into the rows of x_proj that it reads.
// Family::rotation and Family::smoothed (experiments/model/config/family.h) say what a family allows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/model/config/family.h"
#include "experiments/passes/progress.h"
#include "quant/algorithms/channel_transforms.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/quantized_checkpoint.h"
#include "quant/plan/site.h"

namespace tare {

// How a tensor W [out, in] (a vector: in = 1) is made from a stored one: scaled, then rotated.
struct TensorChange {
  std::string source;
  std::vector<float> in_scale, out_scale;      // empty: 1
  std::shared_ptr<const ChannelRotation> in;   // rotates consecutive blocks of inputs
  std::shared_ptr<const ChannelRotation> out;  // rotates blocks of outputs, consecutive in out_order
  std::vector<int64_t> out_order;              // empty: stored order
  float offset = 0;                            // added to the stored value before scaling: 1 for a (1 + w) norm
  bool ones = false;                           // becomes 1 everywhere: a norm whose weight moved elsewhere
};

struct EquivalentWeights {
  std::map<std::string, TensorChange> changes;  // by the tensor's new name
  bool unties = false;                          // embedding and head become separate
};

// s_j of one layer by input site: q_proj.in, gate_proj.in or experts.gate_up.in [E], down_proj.in [I]; o_proj.in [G d],
// by v's channel, or [2 d], a head norm's; mamba.dt_proj.in [R]. Other sites do not change.
using LayerSmoothing = std::map<Site, std::vector<float>>;

// Scaled inputs are Family::smoothed. Throws Error, starting with the method's name, for a family without.
void RequireScaledInputs(const Family& family, std::string_view method);

// Each input channel's factor: for o_proj its value channel's, shared by all heads that share a V, or its head norm
// channel's, shared by all heads; for others its own.
std::vector<int64_t> FactorOf(Site site, int64_t channels, const ModelConfig& config);

// Whether a linear layer multiplies what a norm makes of the residual stream, or adds to the stream.
bool ReadsStream(const LinearLayer& linear);
bool WritesStream(const LinearLayer& linear);

// Throws Error, starting with the method's name, for a family that cannot be rotated.
void RequireRotation(const Family& family, std::string_view method);

// The values of one output head, which are rotated together: `size` rows of v_proj that are neighbours in `order` (of
// all its rows), and `size` neighbouring inputs of o_proj. size: 0 where the family's values cannot be rotated.
struct ValueBlocks {
  int64_t size = 0;
  std::vector<int64_t> order;
};
ValueBlocks RotatedValues(const ModelConfig& config);

// Orthogonal, row-major, after Hadamard's (ChannelRotation): SpinQuant's R1 of the stream, R2 of layers' values.
struct LearnedRotations {
  std::vector<double> stream;
  std::vector<std::vector<double>> values;  // by layer, or none at all
};

// Throws Error for a size without a Hadamard matrix, and as RequireRotation does.
EquivalentWeights Rotated(const Checkpoint& files, const ModelConfig& config, uint64_t seed,
                          const LearnedRotations& learned = {});
EquivalentWeights Smoothed(const Checkpoint& files, const ModelConfig& config,
                           const std::vector<LayerSmoothing>& layers);

// The model's config.json; and the same with tied embeddings made separate.
std::string ConfigOf(const std::filesystem::path& model);
std::string UntiedConfigOf(const std::filesystem::path& model);

// Writes the changed checkpoint as a MODEL file without codes, f32 where changed. Holds one matrix in memory.
void WriteEquivalent(const Checkpoint& files, const std::filesystem::path& model, const EquivalentWeights& weights,
                     const Provenance& provenance, const std::filesystem::path& out, const Progress& progress);

}  // namespace tare
