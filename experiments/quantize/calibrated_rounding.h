// SPDX-License-Identifier: Apache-2.0
// Rounds weights that share an input by the steps of a method, with the input's second moments.
#pragma once

#include <string>

#include "experiments/model/linear/rounded_weight.h"
#include "experiments/quantize/method.h"

namespace tare {

class CalibratedRounding {
 public:
  // The steps that round layers together take no part. Throws Error, starting with the input's `where`, for moments
  // that a step cannot use.
  CalibratedRounding(const QuantizeMethod& method, SharedInput input);

  // weight: the matrix's site; rule: not with one scale per tensor. Uses all threads.
  QuantizedMatrixBuffer Round(const WeightMatrix& stored, Site weight, const Rule& rule,
                              const std::string& where) const;

 private:
  GroupEnds EndsFor(Site weight, const Rule& rule, const ReadRow& read, const QuantizedMatrix& matrix) const;

  InputRounding by_;  // each function of the step that has it
};

}  // namespace tare
