// SPDX-License-Identifier: Apache-2.0
// Rounds weights that share an input by the steps of a method, with the input's second moments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/model/linear/rounded_weight.h"
#include "experiments/quantize/calibration/calibration_pass.h"
#include "experiments/quantize/method.h"
#include "quant/algorithms/asymmetric_target.h"
#include "quant/algorithms/gptq.h"
#include "quant/algorithms/quantease.h"
#include "quant/algorithms/sign_round.h"
#include "quant/plan/plan.h"

namespace tare {

class CalibratedRounding {
 public:
  // together: the most inputs that share a code in any of the weights. rotation: of the weights' rules, all alike;
  // null: none. Throws Error, starting with `where`, for moments that the method cannot use.
  CalibratedRounding(const QuantizeMethod& method, const SecondMoments& moments, int64_t together,
                     const Hadamard* rotation, const std::string& where);

  // weight: the matrix's site; rule: not with one scale per tensor. Uses all threads.
  QuantizedMatrixBuffer Round(const WeightMatrix& stored, Site weight, const Rule& rule,
                              const std::string& where) const;

 private:
  GroupEnds EndsFor(Site weight, const Rule& rule, const ReadRow& read, const QuantizedMatrix& matrix) const;
  QuantizedMatrixBuffer RoundRows(const ReadRow& read, const WeightMatrix& stored, Site weight, const Rule& rule) const;

  std::optional<GptqFactor> gptq_;
  std::optional<AsymmetricTarget> target_;  // of weights before they are rotated
  std::optional<SignRound> learned_;
  int learning_steps_;
  std::optional<QuantEase> quantease_;
  std::vector<float> moments_;  // [in, in] where groups' ends are searched with them
};

}  // namespace tare
