// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/planned_linear.h"

#include <vector>

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
  const float absmax = IsTwoLevel(Info(rule.format).scale) ? EndsOfMatrix(out, in, read, rule.format).high : 0.0f;
  return {rule.format, out, in, GroupOf(rule.granularity, in), absmax};
}

QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where) {
  const ReadRow read = [&](int64_t row, float* values) { RowAsFloat(weight, row, values); };
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

std::unique_ptr<PlannedLinear> PlannedLinear::Of(const WeightMatrix& weight, const SiteKey& weight_key,
                                                 const SiteKey& input_key, const ResolvedPlan& plan, Math math) {
  // Codes that the checkpoint holds are those that the plan asks for, or it were not resolved.
  const Rule* weight_rule = weight.quantized == nullptr ? plan.RuleAt(weight_key) : nullptr;
  const bool executed = plan.carrying() == Carrying::kExecuted;
  const Rule* input_rule = executed ? plan.RuleAt(input_key) : nullptr;
  const bool packs = executed && !IsOfExperts(weight_key.site);  // experts' products are in floating point
  const bool stored = weight_rule == nullptr && (weight.quantized != nullptr || HasPackedForm(weight));
  if (weight_rule == nullptr && input_rule == nullptr && !(packs && stored)) return nullptr;
  TARE_CHECK(weight_rule != nullptr || stored);
  QuantizedMatrixBuffer buffer;
  if (weight_rule != nullptr) {
    buffer = QuantizeByRule(weight, *weight_rule, TextOf(weight_key));
  } else if (weight.quantized == nullptr) {
    buffer = IntegersOf(*weight.foreign);
    weight.foreign->Release();
  }
  const QuantizedMatrix& quantized = weight.quantized != nullptr ? *weight.quantized : buffer.view();
  auto planned = weight_rule != nullptr && input_rule == nullptr ? Dequantized(quantized, math, TextOf(weight_key))
                                                                 : std::make_unique<PlannedLinear>();
  if (packs && (input_rule != nullptr || PackedMatrix::Takes(quantized))) planned->packed.emplace(quantized);
  if (weight_rule == nullptr && weight.foreign != nullptr) {
    const std::span<const int32_t> order = weight.foreign->order();
    planned->order.assign(order.begin(), order.end());
  }
  if (input_rule == nullptr) return planned;
  planned->activation = {.format = input_rule->format};
  if (input_rule->options.static_scale) planned->activation->clip = plan.ClipAt(input_key).front();
  return planned;
}

const float* PlannedLinear::InOrder(const float* x, int64_t rows, AlignedBuffer<float>& ordered) const {
  if (order.empty()) return x;
  const size_t columns = order.size();
  ordered.Reserve(static_cast<size_t>(rows) * columns);
  ParallelFor(static_cast<size_t>(rows), [&](size_t row, int) {
    const float* const from = x + row * columns;
    float* const to = ordered.data() + row * columns;
    for (size_t i = 0; i < columns; ++i) to[i] = from[order[i]];
  });
  return ordered.data();
}

std::unique_ptr<PlannedLinear> PlannedLinear::Dequantized(const QuantizedMatrix& matrix, Math math,
                                                          const std::string& where) {
  auto planned = std::make_unique<PlannedLinear>();
  planned->dequantized =
      FillMatrix(planned->memory, math == Math::kBf16 ? WeightType::kBf16 : WeightType::kF32, matrix.out, matrix.in,
                 [&](int64_t row, float* y) { DequantizeRow(matrix, row, y, where); });
  return planned;
}

}  // namespace tare
