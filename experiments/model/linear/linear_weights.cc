// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/linear/linear_weights.h"

#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {

LinearRules LinearRules::Of(const WeightMatrix& weight, const SiteKey& weight_key, const SiteKey& input_key,
                            const ResolvedPlan& plan) {
  LinearRules rules;
  // Codes that the checkpoint holds are those that the plan asks for, or it were not resolved.
  const Rule* const of_weight = weight.quantized == nullptr ? plan.RuleAt(weight_key) : nullptr;
  if (of_weight != nullptr) rules.weight = *of_weight;
  if (plan.carrying() != Carrying::kExecuted) return rules;
  const Rule* const of_input = plan.CodedAt(input_key);
  rules.executed = of_weight != nullptr || of_input != nullptr || weight.HasIntegers();
  if (of_input == nullptr) return rules;
  rules.input = {.format = of_input->format};
  if (of_input->options.static_scale) rules.input->clip = plan.ClipAt(input_key).front();
  return rules;
}

LinearWeights::LinearWeights(std::string name, const WeightMatrix& stored, std::vector<float> bias)
    : name_(std::move(name)), stored_(stored), bias_(std::move(bias)) {}

void LinearWeights::Follow(const LinearRules& rules, Kept kept, Math math) {
  TARE_CHECK(!rules.executed || rules.weight || stored_.HasIntegers());
  form_ = {.rules = rules, .kept = kept};
  form_.packs = rules.executed && Packs();
  if (form_.packs) form_.input = InputOfCodes();
  const bool keeps_codes = form_.packs && kept != Kept::kNothing;
  const bool keeps_values = rules.RoundsValues() && kept == Kept::kCodesAndValues;
  if (!keeps_codes && !keeps_values) return;
  QuantizedMatrixBuffer made;
  const QuantizedMatrix& integers = Integers(made);
  if (keeps_values) form_.values = InFloat(WeightMatrix(&integers), math, form_.memory, name_);
  if (keeps_codes) form_.codes.emplace(integers);
}

void LinearWeights::Replace(const QuantizedMatrix& codes, Kept kept, Math math) {
  form_ = {.kept = kept, .replaced = &codes};
  if (kept == Kept::kCodesAndValues) form_.values = InFloat(WeightMatrix(&codes), math, form_.memory, name_);
}

double LinearWeights::Bytes() const {
  if (form_.codes) return static_cast<double>(form_.codes->Bytes());
  const WeightType type = form_.values.data != nullptr ? form_.values.type : stored_.values.type;
  return static_cast<double>(stored_.out) * static_cast<double>(stored_.in) * static_cast<double>(ElementBytes(type));
}

// Whether the integer kernels take the codes.
bool LinearWeights::Packs() const {
  if (form_.rules.input) return true;  // or the plan were refused
  if (!form_.rules.weight)
    return stored_.quantized == nullptr || (!HasBranch() && PackedMatrix::Takes(*stored_.quantized));
  const Rule& rule = *form_.rules.weight;
  return PackedMatrix::Takes(
      {.format = rule.format, .out = stored_.out, .in = stored_.in, .group = GroupOf(rule.granularity, stored_.in)});
}

LinearWeights::IntegerInput LinearWeights::InputOfCodes() const {
  IntegerInput input{.format = form_.rules.input};
  if (form_.rules.weight) {
    input.rotation = form_.rules.weight->options.Rotation(stored_.in);
  } else if (stored_.quantized != nullptr) {
    input.rotation = stored_.quantized->rotation;
  } else if (const std::span<const int32_t> order = stored_.foreign->order(); !order.empty()) {
    input.order = order.data();
  }
  return input;
}

bool LinearWeights::CodesServe(int64_t rows, Math math) const {
  if (!form_.packs) return false;
  if (form_.rules.input || rows == 1) return true;
  const bool values = form_.rules.weight ? form_.kept != Kept::kCodes : stored_.IsReady(math);
  return rows <= kFewTokens && !values;
}

// W's codes; in `made`, if a rule rounds to them or they stand for another tool's.
const QuantizedMatrix& LinearWeights::Integers(QuantizedMatrixBuffer& made) const {
  if (form_.replaced != nullptr) return *form_.replaced;
  if (form_.rules.weight) {
    made = QuantizeByRule(stored_, *form_.rules.weight, name_);
  } else if (stored_.quantized != nullptr) {
    return *stored_.quantized;
  } else {
    made = IntegersOf(*stored_.foreign);
    stored_.foreign->Release();
  }
  return made.view();
}

// The values as a product of so many rows takes them, unless they must be made.
std::optional<DenseMatrix> LinearWeights::ReadyValues(int64_t rows, const Projector& projector) const {
  if (form_.values.data != nullptr) return form_.values;
  if (form_.rules.weight || form_.replaced != nullptr) return std::nullopt;
  const bool converts = rows == 1 && stored_.values.data != nullptr;  // as they are read
  if (stored_.IsReady(projector.math()) || converts) return stored_.values;
  return rows == 1 ? std::nullopt : StoredColumns(stored_, projector);
}

WeightMatrix LinearWeights::Multiplied(QuantizedMatrixBuffer& made) const {
  return form_.rules.weight || form_.replaced != nullptr ? WeightMatrix(&Integers(made)) : stored_;
}

void LinearProducts::Project(const float* x, int64_t rows, std::span<const LinearProduct> all,
                             std::span<const int64_t> sequences) {
  std::vector<std::unique_ptr<PackedMatrix>> made;  // for this call
  std::deque<QuantizedMatrixBuffer> rounded;        // likewise
  std::vector<Projection> in_float;
  std::map<LinearWeights::IntegerInput, std::vector<QuantizedProjection>> in_integers;
  for (const auto& [linear, y] : all) {
    const float* const bias = linear.bias_.empty() ? nullptr : linear.bias_.data();
    if (linear.CodesServe(rows, projector_.math())) {
      const PackedMatrix* codes = linear.form_.codes ? &*linear.form_.codes : nullptr;
      if (codes == nullptr) {
        QuantizedMatrixBuffer integers;
        codes = made.emplace_back(std::make_unique<PackedMatrix>(linear.Integers(integers))).get();
      }
      in_integers[linear.form_.input].push_back({codes, bias, y});
    } else if (const std::optional<DenseMatrix> values = linear.ReadyValues(rows, projector_)) {
      in_float.push_back({*values, bias, y});
    } else {
      const WeightMatrix w = linear.Multiplied(rounded.emplace_back());
      in_float.push_back({.weight = {.type = FactorType(projector_.math()), .out = w.out, .in = w.in},
                          .bias = bias,
                          .y = y,
                          .make = [w, &linear](int64_t first, int64_t count, float* made_rows) {
                            RowsAsFloat(w, first, count, made_rows, linear.name_);
                          }});
    }
  }
  projector_.Project(x, rows, in_float);
  for (const auto& [input, projections] : in_integers) ProjectIntegers(x, rows, input, projections, sequences);
  for (const LinearProduct& product : all) {
    if (product.linear.HasBranch() && product.linear.CodesServe(rows, projector_.math()))
      AddBranch(*product.linear.stored_.quantized, x, rows, product.y);
  }
}

void LinearProducts::ProjectIntegers(const float* x, int64_t rows, const LinearWeights::IntegerInput& input,
                                     std::vector<QuantizedProjection> projections, std::span<const int64_t> sequences) {
  const auto columns = static_cast<size_t>(projections.front().weight->in());
  if (input.rotation != nullptr || input.order != nullptr) own_inputs_.Reserve(static_cast<size_t>(rows) * columns);
  float* const own = own_inputs_.data();
  if (input.rotation != nullptr) {
    RotateRows(*input.rotation, x, rows, own);
    x = own;
  } else if (input.order != nullptr) {
    ParallelFor(static_cast<size_t>(rows), [&](size_t row, int) {
      for (size_t i = 0; i < columns; ++i)
        own[row * columns + i] = x[row * columns + static_cast<size_t>(input.order[i])];
    });
    x = own;
  }
  if (!input.format) return one_token_.Project(x, rows, projections);
  if (!NeedsTensor(input.format->format.scale) || sequences.empty())
    return quantized_.Project(x, rows, *input.format, projections);
  for (const int64_t count : sequences) {
    quantized_.Project(x, count, *input.format, projections);
    x += count * static_cast<int64_t>(columns);
    for (QuantizedProjection& p : projections) p.y += count * p.weight->out();
  }
}

}  // namespace tare
