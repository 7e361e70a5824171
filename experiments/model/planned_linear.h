// SPDX-License-Identifier: Apache-2.0
// A linear layer's weight under a plan: quantized and dequantized for f32 arithmetic, or packed for the integer kernels
// together with the format of its inputs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/model/weights.h"
#include "experiments/plan/resolved_plan.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/linear/quantized_linear.h"
#include "quant/algorithms/round_to_nearest.h"

namespace tare {

// What a plan says of one linear layer.
struct LinearRules {
  SiteKey key;                       // of its weight, for messages
  std::optional<Rule> weight;        // of weights that are no codes yet
  std::optional<TokenFormat> input;  // of inputs for the integer kernels; empty: in f32
  bool executed = false;

  static LinearRules Of(const WeightMatrix& weight, const SiteKey& weight_key, const SiteKey& input_key,
                        const ResolvedPlan& plan);
  bool Nothing() const { return !weight && !executed; }
  // Whether products of several rows take the rounded values in floating point.
  bool RoundsInFloat() const { return weight && !input; }
};

// Where such values stand: in memory, from when the plan is carried out, or nowhere: they are made for each product.
enum class RoundedCopies { kKept, kMadeForProducts };

struct PlannedLinear {
  std::optional<PackedMatrix> packed;     // for integer kernels
  std::vector<int32_t> order;             // which input each column of packed multiplies; empty: the same
  const Hadamard* rotation = nullptr;     // how inputs of packed are rotated; null: not
  std::optional<TokenFormat> activation;  // format of its inputs; empty: only for single rows, whose inputs stay in f32
  AlignedBuffer<char> memory;             // of dequantized
  WeightMatrix dequantized;               // used for more rows, or without packed; of no rows: the layer's own weight,
                                          // or values that are made for products

  // Null if the plan changes nothing. When executed, weights that are quantized (by the plan or in the checkpoint, also
  // by another tool where integers stand for its codes) and have a rule for their inputs run on the integer kernels; so
  // does a single row without such a rule (one_token.h), if codes and groups can be packed. Everything else computes in
  // floating point (math) with the values of the codes. Null, too, if only values are changed and they are not kept.
  // stored: what a file has of it (packed_file.h), instead of packing it again.
  static std::unique_ptr<PlannedLinear> Of(const WeightMatrix& weight, const LinearRules& rules, Math math,
                                           RoundedCopies values = RoundedCopies::kKept,
                                           std::optional<PackedMatrix> stored = std::nullopt);
  // What packed multiplies: x [rows, in], or changed: its columns in their order, or rotated. Uses all threads.
  const float* Inputs(const float* x, int64_t rows, AlignedBuffer<float>& changed) const;
  bool HasOwnInputs() const { return !order.empty() || rotation != nullptr; }

  // The values of the codes, in f32 or bf16.
  static std::unique_ptr<PlannedLinear> Dequantized(const QuantizedMatrix& matrix, Math math, const std::string& where);
  void KeepValues(const QuantizedMatrix& matrix, Math math, const std::string& where);  // in dequantized
};

// Whether integers stand for another tool's codes (quant/format/integer_form.h) and the kernels take their groups.
bool HasPackedForm(const WeightMatrix& weight);

// The floating-point replacement of a weight, or the weight itself; planned: may be null.
inline const WeightMatrix& FloatOf(const PlannedLinear* planned, const WeightMatrix& weight) {
  return planned != nullptr && planned->dequantized.out > 0 ? planned->dequantized : weight;
}

// The rows of `in` weights that a rule rounds: those that `read` reads, rotated if the rule has +hadamard.
ReadRow RowsToRound(const Rule& rule, int64_t in, ReadRow read);

// An empty matrix for a rule's codes; reads the rows that are rounded if the format has an f32 per tensor.
QuantizedMatrixBuffer MatrixFor(const Rule& rule, int64_t out, int64_t in, const ReadRow& read);

// Quantizes a matrix by a rule, rounding to nearest.
QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where);

}  // namespace tare
