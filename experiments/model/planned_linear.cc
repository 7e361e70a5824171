// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/planned_linear.h"

#include <utility>
#include <vector>

#include "kernels/elementwise/rotate_rows.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/quantize.h"

namespace tare {
namespace {

// Of the whole matrix. The mean over rows of equal length is the mean of their means.
Ends EndsOfMatrix(int64_t out, int64_t in, const ReadRow& read, Format format) {
  std::vector<Ends> of_rows(static_cast<size_t>(out));
  ParallelFor(of_rows.size(), [&](size_t row, int) {
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(in));
    read(static_cast<int64_t>(row), values.data());
    of_rows[row] = EndsOf(values, format);
  });
  return EndsOfAll(of_rows, format);
}

}  // namespace

bool HasPackedForm(const WeightMatrix& weight) {
  if (weight.foreign == nullptr) return false;
  const std::optional<IntegerForm> form = weight.foreign->integers();
  return form &&
         PackedMatrix::Takes({.format = form->format, .out = weight.out, .in = weight.in, .group = form->group});
}

QuantizedMatrixBuffer MatrixFor(const Rule& rule, int64_t out, int64_t in, const ReadRow& read) {
  const float absmax = IsTwoLevel(rule.format.scale) ? EndsOfMatrix(out, in, read, rule.format).high : 0.0f;
  return {rule.format, out, in, GroupOf(rule.granularity, in), absmax, rule.options.Rotation(in)};
}

ReadRow RowsToRound(const Rule& rule, int64_t in, ReadRow read) {
  const Hadamard* const rotation = rule.options.Rotation(in);
  if (rotation == nullptr) return read;
  return [rotation, read = std::move(read)](int64_t row, float* values) {
    read(row, values);
    rotation->Rotate(values, values);
  };
}

QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where) {
  const ReadRow read =
      RowsToRound(rule, weight.in, [&](int64_t row, float* values) { RowAsFloat(weight, row, values); });
  QuantizedMatrixBuffer matrix = MatrixFor(rule, weight.out, weight.in, read);
  const bool one_scale = rule.granularity.kind == Granularity::Kind::kTensor;
  const Ends ends = one_scale ? EndsOfMatrix(weight.out, weight.in, read, rule.format) : Ends{};
  const ClipChoice choice = rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax;
  ParallelFor(static_cast<size_t>(weight.out), [&](size_t r, int) {
    const auto row = static_cast<int64_t>(r);
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(weight.in));
    read(row, values.data());
    try {
      if (one_scale) {
        RoundRowWithEnds(values.data(), ends, matrix, row);
      } else {
        RoundRowToNearest(values.data(), choice, matrix, row);
      }
    } catch (const Error& error) {
      Fail("{}: {}; try saving the checkpoint again", where, error.what());
    }
  });
  return matrix;
}

LinearRules LinearRules::Of(const WeightMatrix& weight, const SiteKey& weight_key, const SiteKey& input_key,
                            const ResolvedPlan& plan) {
  LinearRules rules{.key = weight_key, .weight = {}, .input = {}};
  // Codes that the checkpoint holds are those that the plan asks for, or it were not resolved.
  const Rule* const of_weight = weight.quantized == nullptr ? plan.RuleAt(weight_key) : nullptr;
  if (of_weight != nullptr) rules.weight = *of_weight;
  if (plan.carrying() != Carrying::kExecuted) return rules;
  const Rule* const of_input = plan.RuleAt(input_key);
  rules.executed = of_weight != nullptr || of_input != nullptr || weight.quantized != nullptr || HasPackedForm(weight);
  if (of_input == nullptr) return rules;
  rules.input = {.format = of_input->format};
  if (of_input->options.static_scale) rules.input->clip = plan.ClipAt(input_key).front();
  return rules;
}

std::unique_ptr<PlannedLinear> PlannedLinear::Of(const WeightMatrix& weight, const LinearRules& rules, Math math,
                                                 RoundedCopies values, std::optional<PackedMatrix> stored) {
  if (rules.Nothing() || (!rules.executed && values == RoundedCopies::kMadeForProducts)) return nullptr;
  TARE_CHECK(rules.weight || weight.quantized != nullptr || HasPackedForm(weight));
  const bool foreign = !rules.weight && weight.quantized == nullptr;
  const bool keeps = rules.RoundsInFloat() && values == RoundedCopies::kKept;
  auto planned = std::make_unique<PlannedLinear>();
  if (stored && (stored->out() != weight.out || stored->in() != weight.in))
    Fail("{}: got packed codes [{}, {}], expected [{}, {}]; remove their file", TextOf(rules.key), stored->out(),
         stored->in(), weight.out, weight.in);
  planned->packed = std::move(stored);
  if (!planned->packed || keeps) {
    QuantizedMatrixBuffer buffer;
    if (rules.weight) buffer = QuantizeByRule(weight, *rules.weight, TextOf(rules.key));
    if (foreign) {
      buffer = IntegersOf(*weight.foreign);
      weight.foreign->Release();
    }
    const QuantizedMatrix& quantized = rules.weight || foreign ? buffer.view() : *weight.quantized;
    if (keeps) planned->KeepValues(quantized, math, TextOf(rules.key));
    const bool packs = rules.executed && (rules.input || PackedMatrix::Takes(quantized));
    if (packs && !planned->packed) planned->packed.emplace(quantized);
  }
  if (foreign) {
    const std::span<const int32_t> order = weight.foreign->order();
    planned->order.assign(order.begin(), order.end());
  }
  planned->rotation = rules.weight ? rules.weight->options.Rotation(weight.in)
                                   : (weight.quantized == nullptr ? nullptr : weight.quantized->rotation);
  planned->activation = rules.input;
  return planned;
}

const float* PlannedLinear::Inputs(const float* x, int64_t rows, AlignedBuffer<float>& changed) const {
  if (!HasOwnInputs()) return x;
  TARE_CHECK(order.empty() || rotation == nullptr);  // another tool's, or a plan's
  const auto columns = static_cast<size_t>(packed->in());
  changed.Reserve(static_cast<size_t>(rows) * columns);
  if (rotation != nullptr) {
    RotateRows(*rotation, x, rows, changed.data());
    return changed.data();
  }
  ParallelFor(static_cast<size_t>(rows), [&](size_t row, int) {
    const float* const from = x + row * columns;
    float* const to = changed.data() + row * columns;
    for (size_t i = 0; i < columns; ++i) to[i] = from[order[i]];
  });
  return changed.data();
}

void PlannedLinear::KeepValues(const QuantizedMatrix& matrix, Math math, const std::string& where) {
  dequantized = FillMatrix(memory, math == Math::kBf16 ? WeightType::kBf16 : WeightType::kF32, matrix.out, matrix.in,
                           [&](int64_t row, float* y) { DequantizeRow(matrix, row, y, where); });
}

std::unique_ptr<PlannedLinear> PlannedLinear::Dequantized(const QuantizedMatrix& matrix, Math math,
                                                          const std::string& where) {
  auto planned = std::make_unique<PlannedLinear>();
  planned->KeepValues(matrix, math, where);
  return planned;
}

}  // namespace tare
