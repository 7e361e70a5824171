// SPDX-License-Identifier: Apache-2.0
// What rounding costs a model whose residual stream is rotated by an orthogonal Q, on calibration tokens, and in which
// direction Q lowers it: the objective of learned rotations (SpinQuant's R1, arXiv 2405.16406, whose loss is the
// network's; here it is each layer's own).
//
//   L(Q) = sum over rounded matrices of tr(E H' E^T) / tr(W H W^T)      E = round(W') - W', by the plan's rule
//     reads the stream (q, k, v, gate, up):  W' = W Q,    H' = Q^T H Q
//     writes to it (o, down):                W' = Q^T W,  H' = H
//   H is the sum of x x^T over the tokens' inputs x.
//
// Memory: the second moments of all rounded matrices' inputs, in f32: for a model with E channels, attention's output A
// and an inner width I 4 (2 E^2 + A^2 + I^2) bytes a layer (0.7 GB of a layer with 4,096, 4,096 and 11,008), experts
// each their own; besides them thirteen times the largest matrix, and while they are taken the residual streams of the
// calibration pass. Operations of At: 8 out in E a matrix that reads, 4 out in E + 2 out in^2 one that writes, and
// 4 E^3 for each input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/progress.h"
#include "experiments/passes/sequences.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/calibration_pass.h"
#include "quant/plan/plan.h"

namespace tare {

// Throws Error unless the family can be rotated, there is a Hadamard rotation of its size to begin with, and the plan
// rounds a matrix that reads or writes the stream.
void CheckRotatedError(const ModelConfig& config, const Plan& plan);

// The gradient (of one scale per tensor approximately: each row's largest weight counts) lets errors grow with their
// group's scale (quant/algorithms/error_growth.h): with P = E H' and S the
// gradient of <P, E> by W' through the scales
//
//   dL = 2 <P^T E + W'^T S, Q^T dQ> / tr(W H W^T) for one that reads, 2 <W' S^T, Q^T dQ> / ... for one that writes
class RotatedError {
 public:
  // model: its norms before linear layers have weights of 1 (Rotated, equivalent_weights.h); it must outlive this.
  // Experts that no token reaches, and matrices whose outputs are all 0, do not count.
  RotatedError(Model& model, const std::vector<ScoredSequence>& text, const Plan& plan, const Progress& progress);

  int64_t channels() const { return channels_; }
  // L at Q [E, E]. gradient [E, E]: M of dL = <M, Q^T dQ>, up to a symmetric matrix, which orthogonal Q do not feel;
  // both row-major. Uses all threads; the result does not depend on them.
  double At(const std::vector<double>& q, std::vector<double>& gradient);

 private:
  struct Rounded {
    std::string name;
    const WeightMatrix* stored;
    const Rule* rule;
    bool reads;      // the stream
    size_t moments;  // of its input
    double size;     // tr(W H W^T)
  };

  void Collect(CalibrationPass& calibration, int layer, Site input);
  void Add(const LinearLayer& linear, size_t moments);

  Model& model_;
  ResolvedPlan plan_;
  int64_t channels_;
  std::vector<SecondMoments> moments_;
  std::vector<Rounded> matrices_;  // those with the same moments are neighbours
  Projector projector_{Math::kF32};
};

}  // namespace tare
