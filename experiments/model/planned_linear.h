// SPDX-License-Identifier: Apache-2.0
// A linear layer's weight as a plan requires it: quantized and dequantized for f32 arithmetic, or packed for the
// integer kernels together with the format of its inputs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "experiments/model/weights.h"
#include "experiments/plan/resolved_plan.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/linear/quantized_linear.h"

namespace tare {

struct PlannedLinear {
  std::optional<PackedMatrix> packed;  // with
  std::optional<TokenFormat>
      activation;              // of its inputs; nothing: for one row at a time, whose inputs stay as they are
  AlignedBuffer<char> memory;  // and, for more rows than one, or alone
  WeightMatrix dequantized;    // without data: the layer's own weight

  // Null where the plan changes nothing. Executed, weights that are quantized, by the plan or by the checkpoint, and
  // have an input rule run on the integer kernels, and so does one row by itself without such a rule (one_token.h),
  // where codes and groups are packed; everything else computes in floating point (math) with what its codes stand for.
  static std::unique_ptr<PlannedLinear> Of(const WeightMatrix& weight, const SiteKey& weight_key,
                                           const SiteKey& input_key, const ResolvedPlan& plan, Math math);
  // What the codes stand for, in f32 or bf16.
  static std::unique_ptr<PlannedLinear> Dequantized(const QuantizedMatrix& matrix, Math math, const std::string& where);
};

// Gives a row of a matrix.
using ReadRow = std::function<void(int64_t row, float* values)>;

// Room for the codes of a rule; read is asked where the format has an f32 of the whole tensor.
QuantizedMatrixBuffer MatrixFor(const Rule& rule, int64_t out, int64_t in, const ReadRow& read);

// A matrix to codes by a rule, round to nearest.
QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where);

}  // namespace tare
