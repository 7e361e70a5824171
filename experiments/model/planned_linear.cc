// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/planned_linear.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/elementwise/rows.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/calibrate/clip.h"
#include "quant/format/quantize.h"
#include "quant/format/round.h"

namespace tare {
namespace {

float AbsmaxOf(const WeightMatrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.in));
  float largest = 0;
  for (int64_t row = 0; row < matrix.out; ++row) {
    RowAsFloat(matrix, row, values.data());
    for (const float x : values) largest = std::max(largest, std::abs(x));
  }
  return largest;
}

// Quantized and dequantized in f32: what files and integer kernels do not hold.
void SimulateRow(const Rule& rule, float absmax_of_all, std::span<float> row) {
  const bool one_scale = rule.granularity.kind == Granularity::Kind::kTensor;
  const auto group = static_cast<size_t>(GroupOf(rule.granularity, std::ssize(row)));
  for (size_t begin = 0; begin < row.size(); begin += group) {
    const std::span<float> values = row.subspan(begin, std::min(group, row.size() - begin));
    const float clip = one_scale          ? absmax_of_all
                       : rule.options.mse ? LeastErrorClip(values, rule.format)
                                          : AbsMax(values.data(), values.size());
    FakeQuantize(values.data(), values.size(), ScaleFor(clip, rule.format, absmax_of_all), rule.format);
  }
}

}  // namespace

QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where) {
  QuantizedMatrixBuffer matrix(rule.format, weight.out, weight.in, GroupOf(rule.granularity, weight.in));
  const bool one_scale = rule.granularity.kind == Granularity::Kind::kTensor;
  const float clip = one_scale ? AbsmaxOf(weight) : 0.0f;
  const ClipChoice choice = rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax;
  ParallelFor(static_cast<size_t>(weight.out), [&](size_t r, int) {
    const auto row = static_cast<int64_t>(r);
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(weight.in));
    RowAsFloat(weight, row, values.data());
    try {
      if (one_scale) {
        RoundRowWithClip(values.data(), clip, matrix, row);
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
  const Rule* input_rule = plan.carrying() == Carrying::kExecuted ? plan.RuleAt(input_key) : nullptr;
  if (weight_rule == nullptr && input_rule == nullptr) return nullptr;
  if (weight_rule != nullptr && !IsInteger(weight_rule->format))
    return Simulated(weight, *weight_rule, math, TextOf(weight_key));
  QuantizedMatrixBuffer buffer;
  if (weight_rule != nullptr) buffer = QuantizeByRule(weight, *weight_rule, TextOf(weight_key));
  TARE_CHECK(weight_rule != nullptr || weight.quantized != nullptr);
  const QuantizedMatrix& quantized = weight_rule == nullptr ? *weight.quantized : buffer.view();
  if (input_rule == nullptr) return Dequantized(quantized, math, TextOf(weight_key));
  auto planned = std::make_unique<PlannedLinear>();
  planned->packed.emplace(quantized);
  planned->activation.format = input_rule->format;
  if (input_rule->options.static_scale) planned->activation.clip = plan.ClipAt(input_key).front();
  return planned;
}

std::unique_ptr<PlannedLinear> PlannedLinear::Dequantized(const QuantizedMatrix& matrix, Math math,
                                                          const std::string& where) {
  auto planned = std::make_unique<PlannedLinear>();
  planned->dequantized =
      FillMatrix(planned->memory, math == Math::kBf16 ? WeightType::kBf16 : WeightType::kF32, matrix.out, matrix.in,
                 [&](int64_t row, float* y) { DequantizeRow(matrix, row, y, where); });
  return planned;
}

std::unique_ptr<PlannedLinear> PlannedLinear::Simulated(const WeightMatrix& weight, const Rule& rule, Math math,
                                                        const std::string& where) {
  const float absmax = AbsmaxOf(weight);
  auto planned = std::make_unique<PlannedLinear>();
  planned->dequantized =
      FillMatrix(planned->memory, math == Math::kBf16 ? WeightType::kBf16 : WeightType::kF32, weight.out, weight.in,
                 [&](int64_t row, float* y) {
                   const std::span<float> values(y, static_cast<size_t>(weight.in));
                   RowAsFloat(weight, row, y);
                   if (const auto bad = FirstNotFinite(values))
                     Fail("{}: weights, row {}: got {} at {}, expected finite values; try saving the checkpoint again",
                          where, row, values[*bad], *bad);
                   SimulateRow(rule, absmax, values);
                 });
  return planned;
}

}  // namespace tare
