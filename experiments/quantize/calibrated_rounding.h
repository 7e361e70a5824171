// SPDX-License-Identifier: Apache-2.0
// Rounds weights that share an input, with its second moments: gptq, gptaq and quantease of a method, whose factors are
// made once for all of them.
#pragma once

#include <optional>
#include <string>

#include "experiments/quantize/calibration_pass.h"
#include "experiments/quantize/method.h"
#include "kernels/linear/projector.h"
#include "quant/algorithms/gptq.h"
#include "quant/algorithms/quantease.h"
#include "quant/plan/plan.h"

namespace tare {

class CalibratedRounding {
 public:
  // Throws Error, starting with `where`, if the moments are not finite or not positive definite.
  CalibratedRounding(QuantizeMethod method, const SecondMoments& moments, const std::string& where);

  // Codes of a matrix as stored, by the rule. Throws Error, starting with `where`, for weights that are not finite.
  QuantizedMatrixBuffer Round(const WeightMatrix& stored, const Rule& rule, const std::string& where) const;

 private:
  QuantizeMethod method_;
  std::optional<GptqFactor> gptq_;
  std::optional<AsymmetricTarget> target_;
  std::optional<QuantEase> quantease_;
};

}  // namespace tare
