// SPDX-License-Identifier: Apache-2.0
// W and b of a linear layer, y = W x + b. Here, and nowhere else, is decided what a product reads of W:
//
//   rows of x                      1          2 to 16                     more
//   a rule rounds inputs           integers   integers                    integers
//   executed, inputs in f32        integers   integers, unless values     values
//                                             stand ready or are made
//   not executed                   values     values                      values
//
// Integers are packed codes: of a plan's rule, the checkpoint, or standing for another tool's. Values are W rounded by
// a rule, or as it is: in place, by stored columns, or made of codes or another type; made for a product unless Kept.
//
// A low-rank branch is part of values; codes have none, so AddBranch multiplies it by the inputs before rounding.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/plan/resolved_plan.h"
#include "kernels/linear/one_token.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/linear/projector.h"
#include "kernels/linear/quantized_linear.h"

namespace tare {

// What a plan says of a linear layer.
struct LinearRules {
  std::optional<Rule> weight;        // of weights that are no codes yet
  std::optional<TokenFormat> input;  // of inputs for the integer kernels; empty: in f32
  bool executed = false;

  static LinearRules Of(const WeightMatrix& weight, const SiteKey& weight_key, const SiteKey& input_key,
                        const ResolvedPlan& plan);
  // Whether products of several rows take the rounded values.
  bool RoundsValues() const { return weight && !input; }
};

// What of a plan's weights stands ready in memory between products.
enum class Kept : uint8_t { kNothing, kCodes, kCodesAndValues };

class LinearWeights {
 public:
  LinearWeights() = default;
  // name: for messages
  LinearWeights(std::string name, const WeightMatrix& stored, std::vector<float> bias = {});

  const WeightMatrix& stored() const { return stored_; }
  bool HasBranch() const { return stored_.quantized != nullptr && stored_.quantized->branch.rank > 0; }
  const std::vector<float>& bias() const { return bias_; }

  // From now on products follow the rules. Weights that are quantized, by the plan or in the checkpoint, are integers
  // when executed, if codes and groups can be packed or a rule has their inputs.
  void Follow(const LinearRules& rules, Kept kept, Math math);
  // From now on W is the values of these codes, which must outlive that unless kept has the values.
  void Replace(const QuantizedMatrix& codes, Kept kept, Math math);
  // From now on W is as stored.
  void Restore() { form_ = {}; }

  // Whether memory of its own holds codes or values.
  bool Holds() const { return form_.codes.has_value() || form_.values.data != nullptr; }
  // Whether products of several rows are of values that are made of what is stored.
  bool MakesValues(Math math) const { return form_.values.data == nullptr && !stored_.IsReady(math); }
  // What a product of one row reads.
  double Bytes() const;

 private:
  friend class LinearProducts;

  // What packed codes multiply: x with its columns in this order, or rotated, and perhaps rounded.
  struct IntegerInput {
    const Hadamard* rotation = nullptr;  // null: as it is
    const int32_t* order = nullptr;      // likewise
    std::optional<TokenFormat> format;   // empty: in f32
    friend auto operator<=>(const IntegerInput&, const IntegerInput&) = default;
  };
  // Under a plan, or with other codes.
  struct Form {
    LinearRules rules;
    Kept kept = Kept::kNothing;
    const QuantizedMatrix* replaced = nullptr;  // codes in place of the stored weight
    bool packs = false;                         // whether the integer kernels take its codes
    IntegerInput input;                         // of these
    std::optional<PackedMatrix> codes;
    AlignedBuffer<char> memory;  // of the values
    DenseMatrix values;
  };

  bool Packs() const;
  IntegerInput InputOfCodes() const;
  bool CodesServe(int64_t rows, Math math) const;
  const QuantizedMatrix& Integers(QuantizedMatrixBuffer& made) const;
  std::optional<DenseMatrix> ReadyValues(int64_t rows, const Projector& projector) const;
  // W as it is multiplied: stored, or of codes that are perhaps made.
  WeightMatrix Multiplied(QuantizedMatrixBuffer& made) const;

  std::string name_;
  WeightMatrix stored_;
  std::vector<float> bias_;  // empty: none
  Form form_;
};

// One product of an input that several share.
struct LinearProduct {
  const LinearWeights& linear;
  float* y;  // [PaddedRows(rows), out]
};

// Computes products. Memory grows with the largest and is kept.
class LinearProducts {
 public:
  // The projector must outlive it.
  explicit LinearProducts(Projector& projector) : projector_(projector) {}

  // x [PaddedRows(rows), in] is the input of all. sequences: the rows of each that has an f32 per tensor of its own, if
  // the format of inputs has one; empty: all are one.
  void Project(const float* x, int64_t rows, std::span<const LinearProduct> all,
               std::span<const int64_t> sequences = {});

 private:
  void ProjectIntegers(const float* x, int64_t rows, const LinearWeights::IntegerInput& input,
                       std::vector<QuantizedProjection> projections, std::span<const int64_t> sequences);

  Projector& projector_;
  QuantizedLinear quantized_;
  OneTokenProjector one_token_;
  AlignedBuffer<float> own_inputs_;  // [rows, in] in the order of a matrix's codes, or rotated
};

}  // namespace tare
