// SPDX-License-Identifier: Apache-2.0
// The methods of `tare quantize --method`: steps joined by +, in this order, each at most once.
//
//   hadamard[:SEED]       other weights that compute the same (equivalent_weights.h); SEED of the signs, 0 if not given
//   cayley[:STEPS]        or these: hadamard's, and after it rotations of the residual stream and of each layer's
//                         values that are learned on the calibration text for what the plan rounds (rotated_error.h);
//                         STEPS 1 to 10,000, else 100; cayley:50:7 begins with hadamard:7
//   smoothquant[:ALPHA]   or these; ALPHA from 0 to 1, searched on the calibration text if not given. Not two: the
//                         rotation takes apart channels that were scaled, and has spread outliers already.
//   awq                   or these, searched for what the plan rounds (awq_factors.h); and the ranges of groups are
//                         clipped (quant/algorithms/awq.h), which needs codes: rtn, if no other step makes them
//   rtn | gptq | gptaq    codes; without any the file holds f32 weights. gptaq: gptq that makes up for what the layers
//                         before have lost (quant/algorithms/asymmetric_target.h). gptq:0.05, gptq:stored,
//                         gptq:0.05:stored: another damping than 0.01, inputs in the order in which they are stored;
//                         gptq:moved: in this order, and groups' scales from weights as rounding has moved them
//   signround[:STEPS]     or codes of learned rounding (quant/algorithms/sign_round.h); STEPS 1 to 10,000, else 200
//   autoround[:STEPS]     or codes learned for all matrices of a layer together, by the error of its output
//                         (learned_layer.h); STEPS likewise; autoround:200:7: batches in the order of the seed 7, else
//                         of 0; neither with awq nor with quantease
//   quantease             better codes and scales (quant/algorithms/quantease.h)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quant/algorithms/cayley.h"
#include "quant/algorithms/gptq.h"
#include "quant/algorithms/sign_round.h"

namespace tare {

struct QuantizeMethod {
  enum class Equivalent { kNone, kHadamard, kCayley, kSmoothQuant, kAwq };
  enum class Rounding { kNone, kNearest, kGptq, kGptaq, kSignRound, kAutoRound };

  Equivalent equivalent = Equivalent::kNone;
  uint64_t seed = 0;                  // of hadamard and cayley
  int rotation_steps = kCayleySteps;  // of cayley
  std::optional<double> alpha;        // of SmoothQuant; nullopt: searched
  Rounding rounding = Rounding::kNearest;
  double damping = kGptqDamping;          // of gptq and gptaq
  GptqOrder order = GptqOrder::kFalling;  // likewise
  int learning_steps = kSignRoundSteps;   // of signround and autoround
  uint64_t learning_seed = 0;             // of autoround
  bool quantease = false;

  // Throws Error, naming the step.
  static QuantizeMethod Parse(std::string_view text);
  // The steps of equivalent weights in canonical form; "" for none.
  std::string EquivalentText() const;
  std::string RoundingText() const;
  std::string Text() const;  // of all steps
  // Whether the residual stream is rotated, so that the embedding and the head become two.
  bool Rotates() const { return equivalent == Equivalent::kHadamard || equivalent == Equivalent::kCayley; }
  // Whether the codes' ranges are AWQ's.
  bool Clips() const { return equivalent == Equivalent::kAwq; }
  // Whether any step may use a calibration text.
  bool TakesCalibration() const {
    return equivalent == Equivalent::kSmoothQuant || equivalent == Equivalent::kCayley || RoundsByCalibration();
  }
  // Whether they look at what the stored model makes of that text.
  bool ComparesWithStored() const { return rounding == Rounding::kGptaq || rounding == Rounding::kAutoRound; }
  // Whether the rounding steps use a calibration text.
  bool RoundsByCalibration() const { return rounding > Rounding::kNearest || quantease || Clips(); }
};

}  // namespace tare
