// SPDX-License-Identifier: Apache-2.0
// What rounding costs a model with rotated channels on calibration tokens, and how rotations lower it: the objective of
// SpinQuant's R1 (residual stream) and R2 (each layer's values, arXiv 2405.16406), by layers, not the network's loss.
//
//   L = sum over rounded matrices of tr(E H' E^T) / tr(W H W^T)     E = round(W') - W', by the plan's rule
//   W' = U^T W T,   H' = T^T H T     T rotates what the matrix reads, U what it writes: each the stream's or the
//                                    values', block by block, or the identity
//     q, k, gate, up: T of the stream     v: T of the stream, U of values     o: T of values, U of the stream
//     down: U of the stream               H: the sum of x x^T over the tokens' inputs x
//
// Memory: f32 moments of rounded matrices' inputs: with E channels, attention's output A and inner width I 4 (2 E^2 +
// A^2 + I^2) bytes a layer (0.7 GB of 4,096, 4,096 and 11,008), experts each their own; thirteen times the largest
// matrix; the calibration's residual streams. Operations of At: 8 out in E a matrix that reads the stream, 4 out in E +
// 2 out in^2 one that writes it, 4 E^3 per input; values of d channels: 4 out in d at v, 6 out in d + 4 A^2 d at o.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/sequences.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/calibration/calibration_pass.h"
#include "experiments/quantize/equivalent_weights.h"
#include "quant/plan/plan.h"

namespace tare {

// Throws Error unless the family can be rotated, its sizes have Hadamard matrices, and the plan rounds a stream matrix.
void CheckRotatedError(const ModelConfig& config, const Plan& plan);

// The gradient (approximate for one scale per tensor: each row's largest weight counts) lets errors grow with their
// group's scale (AddErrorGrowth): with P = E H', S the gradient of <P, E> by W' through scales, for turns T^T dT, U^T
// dU
//
//   dL = 2 <P^T E + W'^T S, T^T dT> / tr(W H W^T) + 2 <W' S^T, U^T dU> / tr(W H W^T)
//
// Where one rotation turns several blocks of a matrix, their terms are summed.
class RotatedError {
 public:
  // model: its norms before linear layers have weights of 1 (Rotated, equivalent_weights.h); it must outlive this.
  // Experts that no token reaches, and matrices whose outputs are all 0, do not count. kept: CalibrationPass.
  RotatedError(Model& model, const std::vector<ScoredSequence>& text, const Plan& plan, const Progress& progress,
               std::pmr::memory_resource& kept = *std::pmr::new_delete_resource());

  // Channels of each rotation: the stream's, then, where values can be rotated (RotatedValues), those of each layer.
  const std::vector<int64_t>& sizes() const { return sizes_; }
  // L at rotations [size, size], row-major, in the order of sizes(). gradients: M of dL = <M, Q^T dQ> for each, up to a
  // symmetric matrix, which orthogonal Q do not feel. Uses all threads; the result does not depend on them.
  double At(const std::vector<std::vector<double>>& rotations, std::vector<std::vector<double>>& gradients);

 private:
  struct Rounded {
    std::string name;
    const WeightMatrix* stored;
    const Rule* rule;
    std::optional<size_t> in, out;  // which rotation turns its inputs, its outputs
    size_t moments;                 // of its input
    double size;                    // tr(W H W^T)
  };

  void Collect(CalibrationPass& calibration, int layer, Site input);
  void Add(const LinearLayer& linear, size_t moments);

  Model& model_;
  ResolvedPlan plan_;
  ValueBlocks values_;
  std::vector<int64_t> sizes_;
  std::vector<SecondMoments> moments_;
  std::vector<Rounded> matrices_;  // those with the same moments are neighbours
  Projector projector_{Math::kF32};
};

// What descent from the identity finds (rotations.cc).
struct LearnedRotation {
  std::vector<std::vector<double>> rotations;  // in the order of RotatedError::sizes()
  double first = 0, least = 0;                 // error of the identity, and of these: not more
};

// The steps' angles fall to 0 in equal parts.
LearnedRotation LearnRotation(RotatedError& error, int steps, const Progress& progress);

}  // namespace tare
