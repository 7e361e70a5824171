// SPDX-License-Identifier: Apache-2.0
// A linear layer's weight as a plan wants it: quantized and dequantized for f32 arithmetic, or packed for the integer
// kernels together with the format of its inputs.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "experiments/model/weights.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/linear/quantized_linear.h"
#include "quant/plan/plan.h"

namespace tare {

// kInteger: weights that are quantized, by the plan or by the checkpoint, and have an input rule run on the integer
// kernels; everything else computes in f32 with what its codes stand for.
enum class LinearArithmetic { kFloat, kInteger };

struct PlannedLinear {
  std::optional<PackedMatrix> packed;  // with
  TokenFormat activation;
  AlignedBuffer<char> memory;  // or
  WeightMatrix dequantized;

  // Rules: null, or of format f32, where the plan says nothing. Null where the plan changes nothing. clip: of an input
  // rule with +static. `where` begins messages. math: what products in floating point take.
  static std::unique_ptr<PlannedLinear> Of(const WeightMatrix& weight, const Rule* weight_rule, const Rule* input_rule,
                                           std::optional<float> clip, LinearArithmetic arithmetic, Math math,
                                           const std::string& where);
  // What the codes stand for, in f32 or bf16.
  static std::unique_ptr<PlannedLinear> Dequantized(const QuantizedMatrix& matrix, Math math);
};

// A matrix to codes by a rule, round to nearest.
QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where);

}  // namespace tare
